"""The 3A framework: Approximate, Adapt, Anonymize.

A query is a bounded function of one row. Its answer is the sum over all rows, plus noise, charged to the ledger.
Everything else is post-processing.

- **Approximate** the distribution of the private rows: an `Approximation` asks a few such queries and fits a `Model`.
- **Adapt** the model to the learning task, so that classifiers trained on its samples lose little: an `Adaptation` may
  ask more, and returns an adapted model. Together they stand for ``alpha * L1 + (1 - alpha) * L2``: L1 the distance to
  the private distribution, L2 the loss of a classifier; a recipe that can weigh them has a setting `alpha`.
- **Anonymize**: every question of both stages goes through the private table (`anonymize/`), which clips, sums, charges
  and adds noise. A `Recipe` says which stages to use and how they share the budget; running it gives a `Release`.

A model holds no rows. Sampling from it is free, as often and as much as one likes.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.certificate import Guarantee
from threea.describe.discover import SHARE, discover
from threea.describe.discover import steps as discovery_steps
from threea.errors import MissingExtra, SettingError
from threea.model_summary import Histogram
from threea.release import Release
from threea.table.schema import Chunk, Schema

Progress = Callable[[str, int, int], None]
"""Told which stage begins, how much is done, and of how much."""


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


class Approximation(Protocol):
    """Stage 1: fit a model to the private rows."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """What it will ask, and how it weighs its questions against one another."""
        ...

    def fit(self, table: PrivateTable, plan: Plan) -> Model:
        """Ask through the door and fit."""
        ...


class Adaptation(Protocol):
    """Stage 2: adapt a model to the learning task."""

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
        if self.guarantee is not Guarantee.PROVEN and not table.accepts_unproven:
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
        self,
        table: PrivateTable,
        rows: int | None = None,
        seed: int | None = None,
        plan: Plan | None = None,
        progress: Progress | None = None,
    ) -> Release:
        """Make a release: approximate, adapt, and anonymize every look at the rows on the way.

        Guarantees:
            - All looks at the rows together are (epsilon, delta)-DP, as the table's budget says.

        Cost:
            The whole budget of the table.

        Args:
            table: The private table.
            rows: How many synthetic rows; the noisy number of private ones by default.
            seed: Makes sampling repeatable. Noise cannot be seeded.
            plan: What `plan` returned, if it was looked at first.
            progress: Told which stage begins.
        """
        recipe, _ = self.chosen(table.schema)
        if recipe is not self:
            return recipe.run(table, rows, seed, plan, progress)
        self.check_rows(rows)
        check_seed(seed)
        plan, tell = plan or self.plan(table), progress or _silent
        if discovery_steps(table.schema):
            tell("discovering the schema", 0, 3)
            table = discover(table, plan)
        tell("approximating", 1, 3)
        model = self.approximate.fit(table, plan)
        if self.adapt:
            tell("adapting", 2, 3)
            model = self.adapt.adapt(model, table, plan)
        tell("done", 3, 3)
        table.check_ledger()
        return Release.made(self, model, table, plan, rows=rows, seed=seed)


def check_seed(seed: int | None) -> None:
    """Refuse a seed that is none.

    Raises:
        SettingError: It is not a whole number of at least 0.
    """
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise SettingError(f"seed ({seed}) must be a whole number, at least 0")


def _silent(stage: str, done: int, of: int) -> None:
    """Tell nobody."""
