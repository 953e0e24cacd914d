"""The 3A framework: Approximate, Adapt, Anonymize.

A query is a bounded function of one row. Its answer is the sum over all rows, plus noise, charged to the ledger.
Everything else is post-processing.

- **Approximate** the distribution of the private rows: an `Approximation` asks a few such queries and fits a `Model`.
- **Adapt** the model to the learning task, so that classifiers trained on its samples lose little: an `Adaptation` may
  ask more, and returns a bent model.
- **Anonymize**: every question of both stages goes through the door (`anonymize/`), which clips, sums, charges and adds
  noise. A `Recipe` says which stages to use and how they share the budget; running it gives a `Release`.

A model holds no rows. Sampling from it is free, as often and as much as one likes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

import threea
from threea import publish
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.certificate import Certificate, ClassShare, Guarantee
from threea.describe.discover import SHARE, discover
from threea.describe.discover import steps as discovery_steps
from threea.errors import MissingExtra, SettingError
from threea.model_summary import Figure, Histogram
from threea.report import words
from threea.table import codec
from threea.table.schema import OTHER, Chunk, Schema

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS = 1 << 16


class Model(Protocol):
    """A distribution fitted to noisy answers. Holds no rows."""

    @property
    def rows(self) -> int:
        """The noisy number of private rows."""
        ...

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """The noisy answers per column, as far as the model has them."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Draw rows: encoded columns by name."""
        ...


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


class Approximation(Protocol):
    """Stage 1: fit a model to the private rows."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """What it will ask, and how it weighs its questions against one another."""
        ...

    def fit(self, table: PrivateTable, plan: Plan) -> Model:
        """Ask through the door and fit."""
        ...


class Adaptation(Protocol):
    """Stage 2: bend a model to the learning task."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """What it will ask; nothing if it works on samples alone."""
        ...

    def adapt(self, model: Model, table: PrivateTable, plan: Plan) -> Model:
        """Return a model whose samples serve the task better."""
        ...


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """Which stages to use, and how they share the budget."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @property
    def guarantee(self) -> Guarantee:
        """What it promises; less is said of a release if what happened says less."""
        return Guarantee.PROVEN

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a `claimed` guarantee takes for granted."""
        return ()

    @property
    def needs(self) -> Mapping[str, str]:
        """Modules that it imports, and the extra that each comes with."""
        return {}

    @property
    def fixed(self) -> bool:
        """Whether it makes a set of rows of its own size, as a `Fixed` model, and not a distribution to draw from."""
        return False

    def chosen(self, schema: Schema) -> tuple[Recipe, str]:
        """Return the recipe that runs on tables of this schema, and why; itself, unless it picks among others."""
        return self, ""

    @property
    @abstractmethod
    def approximate(self) -> Approximation:
        """Stage 1."""

    @property
    def adapt(self) -> Adaptation | None:
        """Stage 2, if any."""
        return None

    def check_rows(self, rows: int | None) -> None:
        """Refuse a number of synthetic rows that cannot be.

        Raises:
            SettingError: It is not a whole number of at least 1, or the recipe's rows have a number of their own.
        """
        if rows is not None and (not isinstance(rows, int) or rows < 1):
            raise SettingError(f"rows ({rows}) must be a whole number, at least 1")
        if rows is not None and self.fixed:
            raise SettingError(f"rows ({rows}) cannot be chosen with {self.name} so set: it makes a number of its own")

    def plan(self, table: PrivateTable) -> Plan:
        """Price everything the release will ask, before it asks anything.

        Raises:
            SettingError: It reads the rows without a proof, and the table was not opened to allow that.
            MissingExtra: Something that it needs is not installed.
        """
        recipe, _ = self.chosen(table.schema)
        if recipe is not self:
            return recipe.plan(table)
        if self.guarantee is not Guarantee.PROVEN and not table._accept_unproven:
            raise SettingError(f"{self.name} so set has no proof; pass --accept-unproven to allow it")
        for module, extra in self.needs.items():
            if importlib.util.find_spec(module) is None:
                raise MissingExtra(module, extra)
        found = discovery_steps(table.schema)
        own = self.approximate.steps(table.schema) + (self.adapt.steps(table.schema) if self.adapt else ())
        scale = (1 - SHARE if found else 1) / sum(step.weight for step in own)
        own = tuple(dataclasses.replace(step, weight=step.weight * scale) for step in own)
        return Plan.calibrate(table.budget, (*found, *own), recipe=self.name)

    def run(
        self, table: PrivateTable, rows: int | None = None, seed: int | None = None, plan: Plan | None = None
    ) -> Release:
        """Make a release.

        Guarantees:
            - All looks at the rows together are (epsilon, delta)-DP, as the table's budget says.

        Cost:
            The whole budget of the table.

        Args:
            table: The private table.
            rows: How many synthetic rows; the noisy number of private ones by default.
            seed: Makes sampling repeatable. Noise cannot be seeded.
            plan: What `plan` returned, if it was looked at first.
        """
        recipe, _ = self.chosen(table.schema)
        if recipe is not self:
            return recipe.run(table, rows, seed, plan)
        self.check_rows(rows)
        if seed is not None and (not isinstance(seed, int) or seed < 0):
            raise SettingError(f"seed ({seed}) must be a whole number, at least 0")
        plan = plan or self.plan(table)
        if discovery_steps(table.schema):
            table = discover(table, plan)
        model = self.approximate.fit(table, plan)
        if self.adapt:
            model = self.adapt.adapt(model, table, plan)
        return Release(
            recipe=self,
            plan=plan,
            model=model,
            schema=table.schema,
            layout=table.layout,
            rows=rows or max(model.rows, 1),
            seed=int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]),
            unit=table.unit.described,
            unproven=table._unproven,
            secure=table._noise.secure,
            restore=table._restore,
        )


@dataclass(frozen=True, kw_only=True)
class Release:
    """A model, and the promise under which it was made. Synthetic rows are drawn from it chunk by chunk."""

    recipe: Recipe
    plan: Plan
    model: Model
    schema: Schema
    layout: pa.Schema
    rows: int
    seed: int
    unit: str
    unproven: tuple[str, ...] = ()
    secure: bool = True
    restore: Callable[[Any], Any] = lambda table: table

    @property
    def guarantee(self) -> Guarantee:
        """The recipe's, unless what happened says less."""
        broken = self.recipe.guarantee is Guarantee.PROVEN and self.unproven
        return Guarantee.NONE if broken or not self.secure else self.recipe.guarantee

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
        return self.restore(self.table)

    @property
    def settings(self) -> dict[str, Any]:
        """The recipe's, but for those that were chosen on the way: as the model was made."""
        chosen = self.model.settings if isinstance(self.model, Tuned) else {}
        return {**dataclasses.asdict(self.recipe), **chosen}

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

    @property
    def schema_text(self) -> str:
        """The schema as it is written, with a note on the target if its classes were rebalanced."""
        if self.schema.target is None or not self.classes:
            return self.schema.to_toml()
        return self.schema.to_toml({self.schema.target: words.rebalanced_note(self.classes)})

    def certificate(self, synthetic_sha256: str = "") -> Certificate:
        """State what was released, under which guarantee, from which events."""
        budget = self.plan.budget
        proven = self.guarantee is Guarantee.PROVEN
        return Certificate(
            threea_version=threea.__version__,
            recipe=self.recipe.name,
            settings=self.settings,
            guarantee=self.guarantee,
            epsilon=budget.epsilon,
            accounted_epsilon=self.plan.epsilon if proven else float("inf"),
            delta=budget.delta,
            adjacency=budget.adjacency,
            unit=self.unit,
            events=[line.to_json() for line in self.plan.lines],
            assumptions=[*self.recipe.assumptions, *self.unproven],
            rows=self.rows,
            classes=[share.to_json() for share in self.classes] or None,
            classes_note=words.REBALANCED if self.classes else "",
            schema_origin=self.schema.origin,
            schema_sha256=hashlib.sha256(self.schema_text.encode()).hexdigest(),
            synthetic_sha256=synthetic_sha256,
        )

    def save(self, out: str | PathLike[str], form: str = "parquet") -> list[Path]:
        """Write synthetic rows, certificate, report and schema to a new folder; return the files made."""
        return publish.write(self, out, form)
