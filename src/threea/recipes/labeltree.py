"""`labeltree`: a label-augmented tree of features, and a teacher that labels its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.teacher import Teacher
from threea.approximate.label_counts import RANGES
from threea.approximate.label_tree import LabelAugmentedTree
from threea.errors import SettingError
from threea.framework import Recipe

TAUGHT_RANGES = 4
"""Classes of a numeric target that a teacher will cut finer: of fewer, pairs of features stand out more. Chosen."""


@dataclass(frozen=True, kw_only=True)
class LabelTree(Recipe):
    """Approximate by a tree, adapt by a teacher.

    In brackets the share of the budget, where `teacher` is 0.4 and the rows are enough for pairs:

    1. Count the rows of each class [.012]; a numeric target [.05] is cut into ranges of about equally many rows.
    2. Count every feature's cells by class [.258]; more rows than noise, finer cells, down to single values.
    3. Choose a spanning tree of the features edge by edge, by the exponential mechanism: a pair is as good as the rows
       that its counts by class differ by from those of features independent given the class [.05 for all edges].
    4. Count the cells of each pair along the tree, by class [.28]. With too few rows for that, half of it counts pairs
       in all classes together, and half is a second look at the features that tell the classes apart; with too few for
       any pairs, this second look gets the shares of 3 and 4.
    5. Teacher: fit a logistic regression on the features' cells to rows drawn from the tree, which costs nothing, then
       correct it by noisy, clipped gradients over the private rows, each a Newton step under the tree's own Hessian,
       damped or, without pairs by class, ridged [.368 for 4 gradients]; count labels by ranges of its logits, and scale
       these to fit [.032; where a class is very rare, a gradient more]. Cells are finer than the tree's where that
       tells more. Of a numeric target: an ordinal regression with two weights for each cell, in finer ranges and cells
       [.4].
    6. Draw rows from the tree, several in the same cells, and let the teacher label a share 1 - alpha of them.

    Args:
        alpha: Share of labels that stay the tree's own: 1 keeps its density, and the ratio of the classes; 0 is all for
            the task.
        teacher: Share of the budget for the teacher, where there is a target.
        waves: Share of the teacher's budget that corrects its logits by random waves over two or three features at a
            time, where the target has classes [2 gradients]: what a teacher that adds features up cannot say.

    Example:
        >>> LabelTree(alpha=0.5)
        LabelTree(alpha=0.5, teacher=0.4, waves=0.0)

    Reference:
        Chow and Liu 1968 (trees); McKenna, Miklau and Sheldon 2021 (MST: choosing them privately).
    """

    name: ClassVar[str] = "labeltree"
    summary: ClassVar[str] = "a tree of features given the label, and a private teacher that labels its rows"
    alpha: float = 0.0
    teacher: float = 0.4
    waves: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise SettingError(f"alpha ({self.alpha}) must be from 0 to 1")
        if not 0.05 <= self.teacher <= 0.9:
            raise SettingError(f"teacher ({self.teacher}) must be from 0.05 to 0.9")
        if not 0 <= self.waves <= 0.8:
            raise SettingError(f"waves ({self.waves}) must be from 0 to 0.8")

    @property
    def approximate(self) -> LabelAugmentedTree:
        """L1: the distribution of the rows (steps 1 to 4)."""
        return LabelAugmentedTree(ranges=RANGES if self.alpha == 1 else TAUGHT_RANGES)

    @property
    def adapt(self) -> Teacher:
        """L2: what a classifier loses (steps 5 and 6)."""
        return Teacher(alpha=self.alpha, weight=self.teacher / (1 - self.teacher), waves=self.waves)
