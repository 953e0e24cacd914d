"""`labeltree`: a label-augmented tree of features, and a teacher that labels its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.teacher import Teacher
from threea.approximate.label_counts import RARE
from threea.approximate.label_tree import LabelAugmentedTree
from threea.errors import SettingError
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class LabelTree(Recipe):
    """Approximate by a tree, adapt by a teacher.

    Args:
        alpha: Share of labels that stay the tree's own: 1 keeps its density, and the ratio of the classes; 0 is all for
            the task.
        teacher: Share of the budget for the teacher, where there is a target.

    Example:
        >>> LabelTree(alpha=0.5)
        LabelTree(alpha=0.5, teacher=0.5)
    """

    name: ClassVar[str] = "labeltree"
    summary: ClassVar[str] = "a tree of features given the label, and a private teacher that labels its rows"
    alpha: float = 0.0
    teacher: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise SettingError(f"alpha ({self.alpha}) must be from 0 to 1")
        if not 0.05 <= self.teacher <= 0.9:
            raise SettingError(f"teacher ({self.teacher}) must be from 0.05 to 0.9")

    @property
    def approximate(self) -> LabelAugmentedTree:
        """L1: the distribution of the rows."""
        return LabelAugmentedTree(most=math.inf if self.alpha == 1 else RARE)

    @property
    def adapt(self) -> Teacher:
        """L2: what a classifier loses."""
        return Teacher(alpha=self.alpha, weight=self.teacher / (1 - self.teacher))
