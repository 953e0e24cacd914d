"""`pategan`: teachers on disjoint parts of the rows vote on what a generator makes; noisy votes teach a student."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.pate_generator import PateGenerator
from threea.approximate.column_histograms import ColumnHistograms
from threea.framework import Recipe

CLASSES, HISTOGRAMS, VOTES = 0.05, 0.25, 0.7
"""Shares of the budget. Chosen on Adult: columns are known well enough, classes are told apart by votes alone."""


@dataclass(frozen=True, kw_only=True)
class PATEGAN(Recipe):
    """A generator, a student who tells what it makes from real rows, and teachers who alone see these.

    Args:
        teachers: k, how many at most; fewer where each would have less than `rows_per_teacher` rows.
    """

    name: ClassVar[str] = "pategan"
    summary: ClassVar[str] = "teachers on disjoint parts vote on generated rows; a student and a generator learn of it"
    teachers: int = 1000
    rows_per_teacher: int = 2
    rounds: int = 2
    inputs: int = 500

    def __post_init__(self) -> None:
        _ = self.adapt

    @property
    def approximate(self) -> ColumnHistograms:
        """Rows per class, and the scale of every column."""
        return ColumnHistograms(classes=CLASSES, histograms=HISTOGRAMS)

    @property
    def adapt(self) -> PateGenerator:
        """Teachers, student and generator."""
        return PateGenerator(
            teachers=self.teachers,
            rows_per_teacher=self.rows_per_teacher,
            rounds=self.rounds,
            inputs=self.inputs,
            weight=VOTES,
        )
