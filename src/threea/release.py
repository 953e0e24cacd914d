"""A release: a model, and the promise under which it was made. Plain data; synthetic rows are drawn from it."""

from __future__ import annotations

import dataclasses
import hashlib
import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

import threea
from threea import publish
from threea.anonymize.accountant import Line, epsilon_of
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.anonymize.spending import Unit
from threea.backends.frames import Frame
from threea.certificate import Certificate, ClassShare, Guarantee, now
from threea.dated import Dated
from threea.drawing import CHUNK_ROWS, SAME, class_ratio, default_note, default_rows
from threea.ledger.chain import LedgerHead
from threea.model_file import blamed, blamed_in_order
from threea.model_summary import ModelSummary
from threea.place import Place
from threea.plain_data import UNWRITTEN
from threea.pricing import check_numbers
from threea.report import words
from threea.ruled import Ruled
from threea.score import Score
from threea.table import codec, conditions
from threea.table.calendar import Calendar
from threea.table.conditions import Among, Given
from threea.table.dialect import Dialect, assumed
from threea.table.schema import OTHER, Chunk, Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.framework import Model, Recipe

_SHOWN = 12
"""Names of columns on a card."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A model, and the promise under which it was made. Synthetic rows are drawn from it chunk by chunk."""

    recipe: str
    """The recipe's name."""
    description: str
    """What it does, in a line."""
    settings: Mapping[str, Any]
    """The recipe's, as the model was made."""
    promised: Guarantee
    """What the recipe promises."""
    assumptions: tuple[str, ...]
    """What that takes for granted, and whose code had a part in it."""
    doubts: tuple[str, ...]
    """Why what happened is not proven; none if it is."""
    plan: Plan
    """What was to be asked, and under which budget."""
    spent: tuple[Line, ...]
    """What was charged."""
    unit: Unit
    """Whom the privacy protects."""
    arithmetic: str
    """How sums were added up and noise was drawn."""
    model: Model
    schema: Schema
    layout: pa.Schema
    rows: int
    seed: int
    rows_note: str = ""
    """Why it has so many rows, if they are neither asked for nor counted."""
    ledger_head: LedgerHead | None = None
    """Where the ledger's chain of entries ended after the last charge, if there is a ledger file."""
    secure: bool = True
    """Whether the noise was meant to protect anyone."""
    restore: Frame = field(default_factory=Frame)
    """As which kind of table rows are handed back."""
    created: str = field(default_factory=now)
    """When it was made, in UTC."""
    dialect: Dialect | None = None
    """How the private table's CSV file is written; None if it came in another form."""
    balance: bool = False
    """Whether rare classes are drawn more often than they occur."""
    spreadsheet_safe: bool = False
    """Whether text cells that a spreadsheet might run are written with an apostrophe before them."""
    score: Score | None = None
    """What a model trained on it is expected to reach, if that was asked of the private table."""
    calendars: tuple[Calendar, ...] = ()
    """Of every date column that was counted by weekday and month, how its days are drawn."""
    file: Path | None = field(default=None, repr=False, compare=False, metadata=UNWRITTEN)
    """The model file that it was read from, if it was."""

    @classmethod
    def made(
        cls, recipe: Recipe, model: Model, table: PrivateTable, plan: Plan, *, rows: int | str | None, seed: int | None
    ) -> Self:
        """Write down what a recipe has made of a private table, and what happened on the way."""
        home = type(recipe).__module__
        stranger = (f"recipe {home}.{type(recipe).__qualname__}",) if not home.startswith("threea.") else ()
        foreign = tuple(
            f"{name} is not part of threea; it is trusted to look at rows one by one, through the private table alone"
            for name in (*stranger, *(f"row function {name}" for name in table.foreign))
        )
        summary = model.summary
        asked = rows if isinstance(rows, int) else None
        drawn = asked or default_rows(summary, len(table.layout), same=rows == SAME)
        return cls(
            recipe=recipe.name,
            description=recipe.summary,
            settings={**dataclasses.asdict(recipe), **summary.settings},
            promised=recipe.guarantee,
            assumptions=(*recipe.assumptions, *foreign, *assumed(table.dialect)),
            doubts=table.doubts,
            plan=plan,
            spent=table.spent(plan),
            unit=table.unit,
            arithmetic=table.arithmetic,
            model=model,
            schema=table.schema,
            layout=table.layout,
            rows=drawn,
            rows_note="" if asked else default_note(summary, drawn, words.counted(table.unit.column)),
            seed=sampling_seed(seed),
            ledger_head=table.ledger_head,
            secure=table.secure,
            restore=table.restore,
            dialect=table.dialect,
        )

    @property
    def accounted_epsilon(self) -> float:
        """What the accountant says of all that was charged, at the budget's delta; noise for tests bounds nothing."""
        if not self.secure:
            return math.inf
        return epsilon_of(self.spent, self.plan.budget.delta, self.plan.budget.adjacency)

    @property
    def guarantee(self) -> Guarantee:
        """The recipe's, unless what happened says less: test noise, rows handed out, or more spent than allowed."""
        if self.promised is Guarantee.PROVEN:
            kept = not self.doubts and self.accounted_epsilon <= self.plan.budget.epsilon
            return Guarantee.PROVEN if kept else Guarantee.NONE
        return self.promised if self.secure else Guarantee.NONE

    @property
    def form(self) -> str:
        """How it is saved unless said otherwise: as the table came, or as Parquet."""
        return publish.form_of(self.dialect)

    def sample(self, rows: int, given: Mapping[str, Any] | None = None, seed: int | None = None) -> Any:
        """Draw other rows than the release's own, or more of them.

        Cost:
            Nothing: it is post-processing of answers that were paid for.

        Args:
            rows: How many. Of a finite set they are drawn with replacement.
            given: Only such rows: by column, a value or a list of them, or ``(lower, upper)`` with None for no bound.
            seed: Makes it repeatable; with the seed, and as many rows as the release was made with, they are its own.

        Returns:
            A table of the kind that came in: pandas, polars or Arrow.

        Raises:
            SettingError: There is no such column or value, or no row that fits.

        Example:
            >>> from threea import hospital, synthesize
            >>> release = synthesize(hospital.stays(500), schema=hospital.schema(), epsilon=1.0)
            >>> set(release.sample(20, given={"died": True, "age": (65, None)})["died"].to_pylist())
            {True}
        """
        import pyarrow as pa

        check_numbers(rows, seed)
        batches = self.draws(rows, conditions.given(self.schema, given), seed)
        with blamed(self.file):
            return self.restore(pa.Table.from_batches(batches, schema=self.layout), self.schema)

    def draws(self, rows: int, given: Given | None = None, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        """Draw rows chunk by chunk, as `sample` does."""
        start_of = sampling_seed(seed)

        def drawn(start: int) -> pa.RecordBatch:
            chunk = self._drawn(min(CHUNK_ROWS, rows - start), np.random.default_rng([start_of, start]), given)
            return codec.decode(chunk, self.schema, self.layout, first_row=start)

        return blamed_in_order(self.file, drawn, range(0, rows, CHUNK_ROWS))

    def batches(self, first: int = 0, last: int | None = None) -> Iterator[pa.RecordBatch]:
        """Draw the synthetic rows, or those from one chunk's first row up to another's: the same ones each time."""
        starts = range(first, self.rows if last is None else min(last, self.rows), CHUNK_ROWS)
        return blamed_in_order(self.file, lambda i: codec.decode(self._chunk(i), self.schema, self.layout, i), starts)

    def chunks(self) -> Iterator[Chunk]:
        """Draw the synthetic rows, encoded; or cut a finite set of them into chunks."""
        return blamed_in_order(self.file, self._chunk, range(0, self.rows, CHUNK_ROWS))

    def _chunk(self, start: int) -> Chunk:
        """Draw the chunk that begins with this row. It depends on no other chunk, whoever draws it."""
        points, stop = self.summary.points, min(start + CHUNK_ROWS, self.rows)
        if points is None:
            return self._drawn(stop - start, np.random.default_rng([self.seed, start]))
        chunk = {name: values[start:stop] for name, values in points.items()}
        return self._ruled.kept(chunk, np.random.default_rng([self.seed, start])) if self.schema.rules else chunk

    def _drawn(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw rows from the model: as they occur, or with balanced classes where none is asked for."""
        target = self.schema.target
        shares = self._ratio[0] if self.balance and not (given and target in given) else np.zeros(0)
        if target is None or not len(shares):
            return self.source.sample(rows, rng, given)
        conditions = [{**(given or {}), target: Among((code,))} for code in self._codes]
        wanted = zip(rng.multinomial(rows, shares).tolist(), conditions, strict=True)
        parts = [self.source.sample(count, rng, condition) for count, condition in wanted if count]
        order = rng.permutation(rows)
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    @property
    def source(self) -> Model:
        """Where rows of the table are drawn from: the model, its dates by the calendar, kept to the rules if any."""
        return self._ruled if self.schema.rules else self._dated

    @property
    def _dated(self) -> Model:
        return Dated(self.model, self.calendars) if self.calendars else self.model

    @cached_property
    def _ruled(self) -> Ruled:
        return Ruled(self._dated, self.schema, self.layout)

    @property
    def sample_weight(self) -> NDArray[np.float64]:
        """How much each row of `table` must count for the private ratio of classes; 1 where they are drawn in it."""
        weights, target = self.class_weights, self.schema.target
        if target is None or not weights:
            return np.ones(self.rows)
        return np.concatenate(
            [np.array([weights.get(int(code), 1.0) for code in chunk[target]]) for chunk in self.chunks()]
        )

    @property
    def class_weights(self) -> Mapping[int, float]:
        """How much a row must count for the private ratio, by its class's code; empty if classes are drawn in it."""
        return {code: share / drawn for code, (drawn, share) in self._class_shares.items()}

    @property
    def table(self) -> pa.Table:
        """All synthetic rows, as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), schema=self.layout)

    @property
    def frame(self) -> Any:
        """All synthetic rows, as the kind of table that came in: pandas, polars or Arrow."""
        return self.restore(self.table, self.schema)

    @cached_property
    def summary(self) -> ModelSummary:
        """What the model says of itself, and the noise on what was counted of dates."""
        return self._dated.summary

    @property
    def classes(self) -> tuple[ClassShare, ...]:
        """The target's classes, if they are drawn in another ratio than the private table's."""
        if self.schema.target is None:
            return ()
        categories = self.schema[self.schema.target].categories
        shares_of = self._class_shares

        def name(code: int) -> str:
            return "missing" if code < 0 else categories[code] if code < len(categories) else OTHER

        return tuple(ClassShare(name(code), *shares) for code, shares in shares_of.items())

    @cached_property
    def _ratio(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return class_ratio(self.summary, self.schema)

    @property
    def _codes(self) -> list[int]:
        """The target's code for each of its cells, -1 for missing."""
        count = len(self._ratio[0])
        target = self.schema[self.schema.target or ""].cells(2)
        return [code if code < getattr(target, "count", count) else -1 for code in range(count)]

    @property
    def _class_shares(self) -> Mapping[int, tuple[float, float]]:
        """Share of the synthetic and of the private rows by code, where classes are drawn in another ratio."""
        if not self.balance:
            return self.summary.class_shares
        drawn, private = self._ratio
        if np.allclose(drawn, private, rtol=1e-6):
            return {}
        pairs = zip(self._codes, drawn.tolist(), private.tolist(), strict=True)
        return {code: (share, known) for code, share, known in pairs if share > 0}

    def schema_text(self, synthetic_sha256: str = "") -> str:
        """Return the schema as it is written, with a note on the target if its classes were rebalanced."""
        target = self.schema.target
        notes = {target: words.rebalanced_note(self.classes)} if target is not None and self.classes else {}
        return self.schema.to_toml(notes, release=synthetic_sha256)

    def certificate(self, synthetic_sha256: str = "", model_sha256: str = "") -> Certificate:
        """State what was released, under which guarantee, from which events."""
        budget = self.plan.budget
        return Certificate(
            threea_version=threea.__version__,
            recipe=self.recipe,
            settings=dict(self.settings),
            guarantee=self.guarantee,
            epsilon=budget.epsilon,
            accounted_epsilon=self.accounted_epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
            unit=self.unit.described,
            unit_column=self.unit.column,
            max_rows_per_unit=self.unit.max_rows,
            events=[line.to_json() for line in self.spent],
            assumptions=[*self.assumptions, *self.doubts],
            arithmetic=self.arithmetic,
            rows=self.rows,
            classes=[share.to_json() for share in self.classes] or None,
            classes_note=words.REBALANCED if self.classes else "",
            schema_origin=self.schema.provenance,
            schema_untouched=list(self.schema.untouched),
            schema_rules=[{"rule": rule, "kept": how} for rule, how in self.schema.kept_rules],
            schema_sha256=hashlib.sha256(self.schema_text(synthetic_sha256).encode()).hexdigest(),
            synthetic_sha256=synthetic_sha256,
            model_sha256=model_sha256,
            created=self.created,
            ledger_head=self.ledger_head.to_json() if self.ledger_head else None,
            spreadsheet_safe=self.spreadsheet_safe,
            score=self.score.to_json() if self.score else None,
        )

    def __repr__(self) -> str:
        """Return what it promises and from what in a line, for terminals."""
        facts = self._facts
        return f"<threea release: {facts['guarantee']}, {facts['privacy']}; {self.recipe}, {facts['rows']}>"

    def _repr_html_(self) -> str:
        """Return a small card for notebooks: what it promises, from what, and how to get rows."""
        lines = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in self._facts.items())
        return f"<table><caption>Synthetic rows: a threea release</caption>{lines}</table>"

    @property
    def _facts(self) -> dict[str, str]:
        budget = self.plan.budget
        return {
            "guarantee": str(self.guarantee),
            "privacy": f"epsilon {budget.epsilon:g}, delta {budget.delta:g}, {budget.adjacency}, {self.unit.described}",
            "recipe": f"{self.recipe}: {self.description}",
            "rows": f"{self.rows:,}, and more from release.sample(n)",
            "columns": ", ".join(self.layout.names[:_SHOWN]) + (", ..." if len(self.layout.names) > _SHOWN else ""),
        }

    def save(
        self, out: str | PathLike[str] | Place, form: str | None = None, *, spreadsheet_safe: bool = False
    ) -> list[Path]:
        """Write synthetic rows, certificate, report, schema and model to a new folder; return the files made.

        Args:
            out: A new or empty folder, or one claimed before (`publish.claim`), whose format is known then.
            form: ``parquet`` or ``csv``; by default the form of the file that came in, Parquet for frames.
            spreadsheet_safe: Of CSV, whether text cells that begin with ``=``, ``+``, ``-``, ``@``, a tab or a carriage
                return get an apostrophe before them, so that no spreadsheet runs them.

        Raises:
            SettingError: It cannot be written there. Saving again elsewhere costs nothing.
        """
        form = self.form if form is None else form
        publish.check_format(form, spreadsheet_safe=spreadsheet_safe)
        place = out if isinstance(out, Place) else publish.claim(out, form)
        return publish.write(dataclasses.replace(self, spreadsheet_safe=spreadsheet_safe), place)


def sampling_seed(seed: int | None) -> int:
    """Return what seeds the chunks; another each time if no seed is given."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
