"""Drawing dates by the calendar, from any model. Post-processing: nothing private is looked at.

The bin that a model drew a date from stays, and with it all that the model knows. The day and the time within the bin
are drawn anew, so that weekdays, months and times of day that stand out in the private rows do in the synthetic ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from threea.describe.calendar_effects import CALENDAR
from threea.model_summary import ModelSummary
from threea.table.calendar import Calendar
from threea.table.conditions import Given
from threea.table.schema import Chunk

if TYPE_CHECKING:
    from threea.framework import Model


@dataclass(frozen=True)
class Dated:
    """A model whose dates are drawn by the calendar.

    Args:
        model: Where rows are drawn from.
        calendars: Of its date columns, at least one; those that have weights are drawn anew.
    """

    model: Model
    calendars: tuple[Calendar, ...]

    @property
    def summary(self) -> ModelSummary:
        """The model's, and the noise on what was counted of dates."""
        summary = self.model.summary
        return replace(summary, noise={**summary.noise, CALENDAR: self.calendars[0].stddev})

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw rows of the model, and within each bin of a date a day and a time by the calendar.

        Guarantees:
            - A value stays in its bin, a missing or special one stays, and every condition still holds.
        """
        chunk = dict(self.model.sample(rows, rng, given))
        for calendar in (each for each in self.calendars if each.weights):
            name = calendar.cells.column
            chunk[name] = calendar.drawn(chunk[name], rng, (given or {}).get(name))
        return chunk
