"""What every attack looks at: samples of the release, of the rows it was made from, and of rows it never saw."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.evaluate.attacks.nearness import Pool, Scaled, raw_values, scaled
from threea.evaluate.evidence import Evidence
from threea.evaluate.intervals import excess, figure, risk, share
from threea.evaluate.pairs import Pairs, Vector, by_person, chance_of_sum, one_row_each
from threea.table.schema import Schema

WORK = 10**9
"""How many differences of two values a search for neighbours may take: a few seconds."""
SYNTHETIC, TARGETS, CROWD, COMPARED = 50_000, 2_000, 20_000, 1_000_000
NEIGHBOURS = 5
FEWEST = 20
"""With fewer rows, or persons, in a sample no attack says anything."""

Scores = NDArray[np.float64] | NDArray[np.bool_]
"""One a row, from 0 to 1; whether an attack succeeds on it, for most attacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Samples to attack, all drawn at random. Training and control persons are as many, and have equally many rows.

    Args:
        schema: The release's schema.
        seed: Makes every attack repeatable.
        raw_synthetic: Released rows as numbers, unscaled: categories as codes, missing as NaN.
        raw_train: A large sample of private rows, so too.
        raw_holdout: As many rows the release never saw, so too.
        crowd: The pair of persons that each of those rows is of.
        raw_persons: One row of each private person, and one of each person the release never saw.
        synthetic: Released rows, scaled.
        train: Private rows to attack.
        control: As many rows the release never saw.
        pair: The pair of persons that each attacked row, and each control row, is of.
        reference: Rows of other people it never saw: what an attacker may know of the population.
        near_train: Distances of the attacked private rows to their nearest released rows.
        near_control: Those of the control rows.
        persons: How many training persons are attacked, and as many control persons.
    """

    schema: Schema
    seed: int
    raw_synthetic: NDArray[np.float64]
    raw_train: NDArray[np.float64]
    raw_holdout: NDArray[np.float64]
    crowd: NDArray[np.int64]
    raw_persons: tuple[NDArray[np.float64], NDArray[np.float64]]
    synthetic: Scaled
    train: Scaled
    control: Scaled
    pair: NDArray[np.int64]
    reference: Scaled
    near_train: Scaled
    near_control: Scaled
    persons: int

    @classmethod
    def of(cls, evidence: Evidence, seed: int) -> Scene | None:
        """Draw the samples; none if there are too few rows or persons to draw from."""
        rng = _generator(seed, "scene")
        units, others = evidence.units
        crowd = Pairs.of(units, others, rng, CROWD)
        width, people = max(len(evidence.schema.valued), 1), len(np.unique(others))
        released = min(evidence.synthetic.num_rows, SYNTHETIC, max(WORK // (width * 1000), FEWEST))
        most = min(TARGETS, max(WORK // (width * max(released, 1)), FEWEST))
        targets = Pairs.of(units, others, rng, most).first(people // 2)
        known = min(CROWD, max(WORK // (width * most), FEWEST))
        # Whose rows are attacked is no part of what the attacker knows: a person resembles nobody as much as themself.
        free = np.flatnonzero(~np.isin(others, others[targets.holdout]))
        reference = rng.permutation(free)[:known]
        if min(released, targets.count, len(reference)) < FEWEST:
            return None
        synthetic = _capped(evidence.synthetic, rng)
        people_train, people_holdout = (rng.permutation(rows)[:COMPARED] for rows in one_row_each(units, others, rng))
        parts = [(evidence.train, crowd.train), (evidence.holdout, crowd.holdout)]
        parts += [(evidence.train, people_train), (evidence.holdout, people_holdout)]
        parts += [(evidence.train, targets.train), (evidence.holdout, targets.holdout), (evidence.holdout, reference)]
        raw = raw_values([synthetic, *(table.take(pa.array(rows)) for table, rows in parts)], evidence.schema)
        drawn = scaled(rng.permutation(raw[0])[:released], evidence.schema)
        train, control, reference_rows = (scaled(values, evidence.schema) for values in raw[5:])
        pool = Pool.of(drawn)
        return cls(
            schema=evidence.schema,
            seed=seed,
            raw_synthetic=raw[0],
            raw_train=raw[1],
            raw_holdout=raw[2],
            crowd=crowd.pair,
            raw_persons=(raw[3], raw[4]),
            synthetic=drawn,
            train=train,
            control=control,
            pair=targets.pair,
            reference=reference_rows,
            near_train=pool.nearest(train, NEIGHBOURS)[0],
            near_control=pool.nearest(control, NEIGHBOURS)[0],
            persons=targets.count,
        )

    def rng(self, name: str) -> np.random.Generator:
        """Return a generator of an attack's own, so that no attack changes another's draws."""
        return _generator(self.seed, name)

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows are in each sample, and of how many people those to attack are."""
        return {
            "synthetic": len(self.synthetic),
            "train targets": len(self.train),
            "control targets": len(self.control),
            "persons attacked": self.persons,
            "reference": len(self.reference),
            "train crowd": len(self.raw_train),
            "holdout crowd": len(self.raw_holdout),
        }


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _capped(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    if table.num_rows <= COMPARED:
        return table
    return table.take(pa.array(np.sort(rng.choice(table.num_rows, COMPARED, replace=False))))


def targets(scene: Scene) -> str:
    """Say which rows are attacked with which."""
    return f"{len(scene.train)} training and {len(scene.control)} control rows against {len(scene.synthetic)} released"


def paired(what: str, rows: tuple[Scores, Scores], scene: Scene) -> list[dict[str, Any]]:
    """Return an attack's success by the scores of the attacked training rows and of the control rows."""
    train, control = (by_person(scores, scene.pair) for scores in rows)
    return contrast(what, train, control, chance_of_sum(train - control, scene.rng(what)))


def contrast(what: str, train: Vector, control: Vector, p: float) -> list[dict[str, Any]]:
    """Return an attack's success on training rows, on control rows, the excess, and the risk over control.

    Args:
        what: What the scores are.
        train: A score for each training person.
        control: A score for each control person.
        p: How likely such an excess is by chance.
    """
    shares = [
        figure(f"{what}, {name} rows", *share(persons), "Clopper-Pearson over persons")
        for name, persons in (("training", train), ("control", control))
    ]
    return [
        *shares,
        figure(f"{what}, excess on training rows", *excess(train, control), "Newcombe over persons", 0.0, p),
        figure(f"{what}, risk over control", *risk(train, control), "Wilson over persons", float(control.mean())),
    ]


def report(
    name: str, *, question: str, shows: str, cannot_show: str, claim: str, figures: list[dict[str, Any]], rows: str
) -> dict[str, Any]:
    """Return an attack as plain data, which `decision` has yet to decide.

    Args:
        name: The attack.
        question: What it asks, in plain words.
        shows: What a sign would mean.
        cannot_show: What silence does not mean.
        claim: What there is or is not a sign of; a clause.
        figures: What was measured.
        rows: Which samples were used.
    """
    return {
        "name": name,
        "question": question,
        "shows": shows,
        "cannot_show": cannot_show,
        "claim": claim,
        "rows": rows,
        "figures": figures,
    }
