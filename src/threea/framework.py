"""The 3A framework: Approximate, Adapt, Anonymize.

A query is a bounded function of one row. Its answer is the sum over all rows, plus noise, charged to the ledger.
Everything else is post-processing.

- **Approximate** the distribution of the private rows: an `Approximation` asks a few such queries and fits a `Model`.
- **Adapt** it to the learning task: an `Adaptation` may ask more, and returns an adapted model. Both together stand for
  ``alpha * L1 + (1 - alpha) * L2``, L1 the distance to the private distribution, L2 a classifier's loss; see `alpha`.
- **Anonymize**: every question of both stages goes through the private table (`anonymize/`), which clips, sums, charges
  and adds noise. A `Recipe` says which stages to use and how they share the budget; running it gives a `Release`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.certificate import Guarantee
from threea.describe import calendar_effects, discover
from threea.model_summary import ModelSummary
from threea.pricing import check_sampling, priced
from threea.progress import Progress, listening, tell
from threea.release import Release
from threea.table.conditions import Given
from threea.table.schema import Chunk, Schema

Adapted = TypeVar("Adapted", bound="Model", contravariant=True)


class Model(Protocol):
    """A distribution, or a finite set of rows, made from noisy answers: holds no private row; sampling is free."""

    @property
    def summary(self) -> ModelSummary:
        """What its noisy answers tell: the number of private rows, histograms, figures."""

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw rows, encoded columns by name; only such as fit the conditions, if any are given."""


class Approximation(Protocol):
    """Stage 1: fit a model to the private rows."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """What it will ask, and how it weighs its questions against one another."""

    def fit(self, table: PrivateTable, plan: Plan) -> Model:
        """Ask through the door and fit."""


class Adaptation(Protocol[Adapted]):
    """Stage 2: adapt a model to the learning task; `Adapted` says which models it takes."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """What it will ask; nothing if it works on samples alone."""

    def adapt(self, model: Adapted, table: PrivateTable, plan: Plan) -> Model:
        """Return a model whose samples serve the task better."""


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """Which stages to use, and how they share the budget."""

    name: ClassVar[str]
    summary: ClassVar[str]
    fixed: ClassVar[bool] = False
    """Whether it makes a finite set of rows, of its own size, and not a distribution to draw from."""

    def __post_init__(self) -> None:
        # What its stages refuse is refused when it is made.
        _ = self.approximate, self.adapt

    @property
    def guarantee(self) -> Guarantee:
        """What it promises, so set; less is said of a release if what happened says less."""
        return Guarantee.PROVEN

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a `claimed` guarantee takes for granted."""
        return ()

    @property
    def needs(self) -> Mapping[str, str]:
        """Modules that it imports, and the extra that each comes with."""
        return {}

    def chosen(self, schema: Schema) -> tuple[Recipe, str]:
        """Return the recipe that runs on tables of this schema, and why; itself, unless it picks among others."""
        return self, ""

    @property
    @abstractmethod
    def approximate(self) -> Approximation:
        """Stage 1."""

    @property
    def adapt(self) -> Adaptation[Any] | None:
        """Stage 2, if any."""
        return None

    def plan(self, table: PrivateTable, score: float = 0.0) -> Plan:
        """Price everything the release will ask, and its score, before it asks anything; raise if it cannot run."""
        return priced(self.chosen(table.schema)[0], table, score)

    def run(
        self,
        table: PrivateTable,
        rows: int | str | None = None,
        seed: int | None = None,
        plan: Plan | None = None,
        progress: Progress | None = None,
    ) -> Release:
        """Make a release: approximate, adapt, and anonymize every look at the rows on the way.

        Guarantees:
            - All looks at the rows together are (epsilon, delta)-DP, as the table's budget says.

        Args:
            table: The private table, whose whole budget is spent.
            rows: How many synthetic ones; by default, or if ``same``, by the noisy number of private ones (`drawing`).
            seed: Makes sampling repeatable. Noise cannot be seeded.
            plan: What `plan` returned, if it was looked at first.
            progress: Told which stage begins, and how far training is.
        """
        recipe, _ = self.chosen(table.schema)
        check_sampling(recipe, rows, seed)
        plan = plan or recipe.plan(table)
        with listening(progress):
            if discover.steps(table.schema):
                tell("discovering the schema", 0, 3)
                table = discover.discover(table, plan)
            tell("approximating", 1, 3)
            model = recipe.approximate.fit(table, plan)
            if recipe.adapt:
                tell("adapting", 2, 3)
                model = recipe.adapt.adapt(model, table, plan)
            calendars = calendar_effects.measured(model, table, plan)
            tell("done", 3, 3)
        table.check_ledger()
        return replace(Release.made(recipe, model, table, plan, rows=rows, seed=seed), calendars=calendars)
