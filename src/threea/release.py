"""A release: a model, and the promise under which it was made. Plain data; synthetic rows are drawn from it."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

import threea
from threea import publish
from threea.anonymize.accountant import Line, epsilon_of
from threea.anonymize.door import PrivateTable
from threea.anonymize.ledger_chain import LedgerHead
from threea.anonymize.plan import Plan
from threea.anonymize.spending import Unit
from threea.certificate import Certificate, ClassShare, Guarantee
from threea.model_summary import Figure
from threea.report import words
from threea.table import codec
from threea.table.dialect import Dialect
from threea.table.schema import OTHER, Chunk, Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.framework import Model, Recipe

CHUNK_ROWS = 1 << 16


@runtime_checkable
class Illustrated(Protocol):
    """A model that can show what it is made of."""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Pictures of what follows from its noisy answers, as data."""
        ...


@runtime_checkable
class Blurred(Protocol):
    """A model that remembers how noisy its answers were."""

    @property
    def noise(self) -> Mapping[str, float]:
        """Standard deviation of each number in an answer, in rows, by the name of the plan's line."""
        ...


@runtime_checkable
class Rebalanced(Protocol):
    """A model that may draw the classes of a listed target in another ratio than the private table's."""

    @property
    def class_shares(self) -> Mapping[int, tuple[float, float]]:
        """Share of the synthetic and noisy share of the private rows, by code; empty if they are the same."""
        ...


@runtime_checkable
class Fixed(Protocol):
    """A model that is a finite set of rows, `rows` of them, each released once."""

    def points(self, start: int, stop: int) -> Chunk:
        """Return the rows from one position up to, not including, another."""
        ...


@runtime_checkable
class Tuned(Protocol):
    """A model for which some of its recipe's settings were chosen on the way."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those chosen, by their names in the recipe; empty if all are as given."""
        ...


@dataclass(frozen=True, kw_only=True)
class Release:
    """A model, and the promise under which it was made. Synthetic rows are drawn from it chunk by chunk."""

    recipe: str
    """The recipe's name."""
    summary: str
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
    ledger_head: LedgerHead | None = None
    """Where the ledger's chain of entries ended after the last charge, if there is a ledger file."""
    secure: bool = True
    """Whether the noise was meant to protect anyone."""
    restore: Callable[[Any, Schema], Any] = lambda table, _: table
    dialect: Dialect | None = None
    """How the private table's CSV file is written; None if it came in another form."""
    spreadsheet_safe: bool = False
    """Whether text cells that a spreadsheet might run are written with an apostrophe before them."""

    @classmethod
    def made(
        cls, recipe: Recipe, model: Model, table: PrivateTable, plan: Plan, *, rows: int | None, seed: int | None
    ) -> Self:
        """Write down what a recipe has made of a private table, and what happened on the way."""
        home = type(recipe).__module__
        stranger = (f"recipe {home}.{type(recipe).__qualname__}",) if not home.startswith("threea.") else ()
        foreign = tuple(
            f"{name} is not part of threea; it is trusted to look at rows one by one, through the private table alone"
            for name in (*stranger, *(f"row function {name}" for name in table.foreign))
        )
        chosen = model.settings if isinstance(model, Tuned) else {}
        return cls(
            recipe=recipe.name,
            summary=recipe.summary,
            settings={**dataclasses.asdict(recipe), **chosen},
            promised=recipe.guarantee,
            assumptions=(*recipe.assumptions, *foreign),
            doubts=table.doubts,
            plan=plan,
            spent=table.spent(plan),
            unit=table.unit,
            arithmetic=table.arithmetic,
            model=model,
            schema=table.schema,
            layout=table.layout,
            rows=rows or max(model.rows, 1),
            seed=int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]),
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

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Draw the synthetic rows, the same ones each time."""
        for start in range(0, self.rows, CHUNK_ROWS):
            rng = np.random.default_rng([self.seed, start])
            stop = min(start + CHUNK_ROWS, self.rows)
            model = self.model
            chunk = model.points(start, stop) if isinstance(model, Fixed) else model.sample(stop - start, rng)
            yield codec.decode(chunk, self.schema, self.layout, first_row=start)

    @property
    def table(self) -> pa.Table:
        """All synthetic rows, as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), schema=self.layout)

    @property
    def frame(self) -> Any:
        """All synthetic rows, as the kind of table that came in: pandas, polars or Arrow."""
        return self.restore(self.table, self.schema)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """What the model shows of itself, if it does."""
        return self.model.figures if isinstance(self.model, Illustrated) else ()

    @property
    def noise(self) -> Mapping[str, float]:
        """How noisy the answers were, in rows, as far as the model remembers."""
        return self.model.noise if isinstance(self.model, Blurred) else {}

    @property
    def classes(self) -> tuple[ClassShare, ...]:
        """The target's classes, if they are drawn in another ratio than the private table's."""
        if self.schema.target is None or not isinstance(self.model, Rebalanced):
            return ()
        categories = self.schema[self.schema.target].categories

        def name(code: int) -> str:
            return "missing" if code < 0 else categories[code] if code < len(categories) else OTHER

        return tuple(ClassShare(name(code), *shares) for code, shares in self.model.class_shares.items())

    def schema_text(self, synthetic_sha256: str = "") -> str:
        """Return the schema as it is written, with a note on the target if its classes were rebalanced."""
        target = self.schema.target
        notes = {target: words.rebalanced_note(self.classes)} if target is not None and self.classes else {}
        return self.schema.to_toml(notes, release=synthetic_sha256)

    def certificate(self, synthetic_sha256: str = "") -> Certificate:
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
            schema_sha256=hashlib.sha256(self.schema_text(synthetic_sha256).encode()).hexdigest(),
            synthetic_sha256=synthetic_sha256,
            ledger_head=self.ledger_head.to_json() if self.ledger_head else None,
            spreadsheet_safe=self.spreadsheet_safe,
        )

    def save(self, out: str | PathLike[str], form: str | None = None, *, spreadsheet_safe: bool = False) -> list[Path]:
        """Write synthetic rows, certificate, report and schema to a new folder; return the files made.

        Args:
            out: A new or empty folder.
            form: ``parquet`` or ``csv``; by default the form of the file that came in, Parquet for frames.
            spreadsheet_safe: Of CSV, whether text cells that begin with ``=``, ``+``, ``-``, ``@``, a tab or a carriage
                return get an apostrophe before them, so that no spreadsheet runs them.
        """
        return publish.write(dataclasses.replace(self, spreadsheet_safe=spreadsheet_safe), out, form)
