"""`pategan`: teachers on disjoint parts of the rows vote on what a generator makes; noisy votes teach a student."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.pate_generator import PateGenerator
from threea.approximate.column_histograms import ColumnHistograms
from threea.framework import Recipe

CLASSES, HISTOGRAMS, VOTES = 0.05, 0.25, 0.7
"""Shares of the budget. Chosen: columns are known well enough so, and classes are told apart by votes alone."""


@dataclass(frozen=True, kw_only=True)
class PATEGAN(Recipe):
    """A generator, a student who tells what it makes from real rows, and teachers who alone see these.

    In brackets, shares of the budget:

    1. Count the rows of each class [.05] and the cells of every column [.25]: the scale of the columns, which the paper
       reads off the rows. The generator starts from these, whatever the class.
    2. Split the rows by a keyed hash into k parts, each with a teacher for every class, who learns the mean of its rows
       and tells real ones from generated ones by it.
    3. Let the teachers vote, real or generated, on rows that the generator made. All votes of a round get Gaussian
       noise and one charge; what a vote costs does not depend on how the teachers agree [.7 for all rounds].
    4. Teach the student the noisy votes: a discriminant of the same kind.
    5. Let the generator answer: rows become as much likelier as the student finds them real. Again from 3.

    This departs from the paper: Gaussian noise in place of Laplace, which would have to be larger; few rounds of many
    votes, as every vote is paid for; linear teachers and student, whom a generator can answer exactly, in place of
    networks that are trained step by step. What such teachers do not see is how columns go together within a class.

    Args:
        teachers: k, at most.
        rows_per_teacher: How many rows each has, by the noisy count, where that means fewer teachers.
        rounds: How often the teachers vote.
        inputs: On how many generated rows of each class, every time.

    Example:
        >>> PATEGAN(teachers=100).guarantee.value
        'proven'

    Reference:
        Jordon, Yoon and van der Schaar 2019, PATE-GAN: Generating synthetic data with differential privacy guarantees.
    """

    name: ClassVar[str] = "pategan"
    summary: ClassVar[str] = "teachers on disjoint parts vote on generated rows; a student and a generator learn of it"
    teachers: int = 1000
    rows_per_teacher: int = 2
    rounds: int = 2
    inputs: int = 250

    def training(self, size: int) -> float:
        """Return about how many multiplications the votes take, given how many numbers a row is."""
        # Most of a teacher's time is not spent on multiplications.
        return self.rounds * self.teachers * (self.inputs * size + 1e6) * 10.0

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
