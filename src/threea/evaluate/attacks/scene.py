"""What every attack looks at: samples of the release, of the rows it was made from, and of rows it never saw."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.evaluate.attacks.nearness import Pool, Scaled, raw_values, scaled
from threea.evaluate.evidence import Evidence
from threea.evaluate.intervals import clopper_pearson, excess, figure, risk
from threea.table.schema import Kind, Schema

WORK = 10**9
"""How many differences of two values a search for neighbours may take: a few seconds."""
SYNTHETIC, TARGETS, CROWD, COMPARED = 50_000, 2_000, 20_000, 1_000_000
NEIGHBOURS = 5
FEWEST = 20
"""With fewer rows in a sample no attack says anything."""

Hits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Samples to attack, all drawn at random.

    Args:
        schema: The release's schema.
        seed: Makes every attack repeatable.
        raw_synthetic: Released rows as numbers, unscaled: categories as codes, missing as NaN.
        raw_train: Private rows, so too.
        raw_holdout: Rows the release never saw, so too.
        synthetic: Released rows, scaled.
        train: Private rows to attack.
        control: As many rows the release never saw.
        reference: Other rows it never saw: what an attacker may know of the population.
        train_crowd: Which private rows make a large sample.
        holdout_crowd: Which rows it never saw make one as large.
        near_train: Distances of the attacked private rows to their nearest released rows.
        near_control: Those of the control rows.
        train_people: Whose each attacked private row is: a number for each value of the id column, or for each row.
        control_people: Whose each control row is.
    """

    schema: Schema
    seed: int
    raw_synthetic: NDArray[np.float64]
    raw_train: NDArray[np.float64]
    raw_holdout: NDArray[np.float64]
    synthetic: Scaled
    train: Scaled
    control: Scaled
    reference: Scaled
    train_crowd: NDArray[np.int64]
    holdout_crowd: NDArray[np.int64]
    near_train: Scaled
    near_control: Scaled
    train_people: NDArray[np.int64]
    control_people: NDArray[np.int64]

    @classmethod
    def of(cls, evidence: Evidence, seed: int) -> Scene | None:
        """Draw the samples; none if there are too few rows to draw from."""
        rng = _generator(seed, "scene")
        tables = [_capped(table, rng) for table in (evidence.synthetic, evidence.train, evidence.holdout)]
        if min(tables[0].num_rows, tables[1].num_rows, tables[2].num_rows // 2) < FEWEST:
            return None
        raw = raw_values(tables, evidence.schema)
        width = raw[0].shape[1]
        released = min(len(raw[0]), SYNTHETIC, max(WORK // (width * 1000), FEWEST))
        count = min(TARGETS, len(raw[1]), len(raw[2]) // 2, max(WORK // (width * released), FEWEST))
        known = min(CROWD, max(WORK // (width * count), FEWEST))
        mixed = [rng.permutation(len(values)) for values in raw]
        synthetic, train, holdout = (
            scaled(values[order[:limit]], evidence.schema)
            for values, order, limit in zip(raw, mixed, (released, count, count + known), strict=True)
        )
        crowd = min(len(raw[1]), len(raw[2]), CROWD)
        pool = Pool.of(synthetic)
        people = _people(tables[1:], evidence.schema)
        return cls(
            schema=evidence.schema,
            seed=seed,
            raw_synthetic=raw[0],
            raw_train=raw[1],
            raw_holdout=raw[2],
            synthetic=synthetic,
            train=train,
            control=holdout[:count],
            reference=holdout[count:],
            train_crowd=mixed[1][:crowd],
            holdout_crowd=mixed[2][:crowd],
            near_train=pool.nearest(train, NEIGHBOURS)[0],
            near_control=pool.nearest(holdout[:count], NEIGHBOURS)[0],
            train_people=people[: len(raw[1])][mixed[1][:count]],
            control_people=people[len(raw[1]) :][mixed[2][:count]],
        )

    def rng(self, name: str) -> np.random.Generator:
        """Return a generator of an attack's own, so that no attack changes another's draws."""
        return _generator(self.seed, name)

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows are in each sample."""
        return {
            "synthetic": len(self.synthetic),
            "train targets": len(self.train),
            "control targets": len(self.control),
            "reference": len(self.reference),
            "train crowd": len(self.train_crowd),
            "holdout crowd": len(self.holdout_crowd),
        }


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _capped(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    if table.num_rows <= COMPARED:
        return table
    return table.take(pa.array(np.sort(rng.choice(table.num_rows, COMPARED, replace=False))))


def _people(tables: Sequence[pa.Table], schema: Schema) -> NDArray[np.int64]:
    """Number the people behind the rows of all tables, by the id column of fewest values; else each row is one."""
    owners = np.arange(sum(table.num_rows for table in tables))
    for column in schema.columns:
        if column.kind is Kind.ID:
            ids = pa.chunked_array([chunk for table in tables for chunk in table[column.name].cast(pa.string()).chunks])
            numbers = ids.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
            unknown = numbers < 0
            # Who has no id may be anyone: a person for each such row.
            people = np.where(unknown, numbers.max(initial=-1) + np.cumsum(unknown), numbers).astype(np.int64)
            owners = people if people.max() < owners.max() else owners
    return owners


def targets(scene: Scene) -> str:
    """Say which rows are attacked with which."""
    return f"{len(scene.train)} training and {len(scene.control)} control rows against {len(scene.synthetic)} released"


def contrast(what: str, train: Hits, control: Hits) -> list[dict[str, Any]]:
    """Return an attack's success on training rows, on control rows, the excess, and the risk over control."""
    base = float(control.mean())
    shares = [
        figure(f"{what}, {rows} rows", hits.mean(), clopper_pearson(int(hits.sum()), len(hits)), "Clopper-Pearson")
        for rows, hits in (("training", train), ("control", control))
    ]
    return [
        *shares,
        figure(f"{what}, excess on training rows", *excess(train, control), "Newcombe", 0.0, decides=True),
        figure(f"{what}, risk over control", *risk(train, control), "Wilson, propagated", base),
    ]


def report(
    name: str, *, question: str, shows: str, cannot_show: str, claim: str, figures: list[dict[str, Any]], rows: str
) -> dict[str, Any]:
    """Return an attack as plain data, with a verdict that claims no more than its figures do.

    Args:
        name: The attack.
        question: What it asks, in plain words.
        shows: What a sign would mean.
        cannot_show: What silence does not mean.
        claim: What there is or is not a sign of; a clause.
        figures: What was measured.
        rows: Which samples were used.
    """
    decides = [figure for figure in figures if figure["decides"]]
    above = [figure for figure in decides if figure["interval"][0] > figure["baseline"]]
    if not decides:
        verdict = "Not tried: the rows left nothing to try it with. That is no sign of safety, nor of danger."
    elif above:
        worst = max(above, key=lambda figure: figure["interval"][0] - figure["baseline"])
        low, high = worst["interval"]
        verdict = (
            f"A sign that {claim}: {worst['name']} is {worst['value']:.3f} [{low:.3f}, {high:.3f}], where a release "
            f"that remembers no row gives {worst['baseline']:g}."
        )
    else:
        verdict = f"No sign that {claim}. {cannot_show}"
    return {
        "name": name,
        "question": question,
        "shows": shows,
        "cannot_show": cannot_show,
        "rows": rows,
        "figures": figures,
        "sign": bool(above),
        "verdict": verdict,
    }
