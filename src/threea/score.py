"""What a release says of its own worth: plain data that follows from one noisy answer, so it may be published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
"""How often an interval holds what it is about."""
NAMES = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "calibration_bias": "predicted less observed rate",
    "r2": "R²",
    "mae": "mean absolute error",
}
"""What the figures are called."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A figure that a model trained on the release is expected to reach, and how far off that may be.

    Args:
        name: One of `NAMES`.
        value: The estimate; None if noise hides it.
        margin: Half the width of its interval: by the noise, and by the chance that chose the private rows.
        optimism: How much was taken off, because the private rows had a part in the release.
    """

    name: str
    value: float | None
    margin: float | None
    optimism: float = 0.0


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """What was predicted in a range of scores, and what was observed there.

    Args:
        predicted: Mean probability of the positive class.
        observed: Share of the positive class among the private rows, by noisy counts.
        margin: Half the width of its interval.
        share: Share of the private rows in this range.
    """

    predicted: float
    observed: float
    margin: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a model trained on the synthetic rows is expected to reach on rows like the private ones.

    Args:
        learner: Which model.
        rows: How many synthetic rows it learned from.
        task: ``two classes``, ``classes`` or ``number``.
        positive: Of two classes, the one whose probability is predicted.
        figures: What it is expected to reach, the main one first; none if nothing could be learned.
        calibration: Of two classes, predicted and observed rates by range of scores.
        counts: The noisy answer: a row of the histogram for each cell of the label.
        stddev: Of the noise on each count.
        note: What else is to be known.
    """

    learner: str
    rows: int
    task: str
    positive: str = ""
    figures: tuple[Expected, ...] = ()
    calibration: tuple[CalibrationPoint, ...] = ()
    counts: NDArray[np.float64]
    stddev: float = 0.0
    note: str = ""

    @property
    def sentence(self) -> str:
        """The score in a sentence."""
        main = self.figures[0] if self.figures else Expected("", None, None)
        if main.value is None or main.margin is None:
            return f"What a {self.learner} trained on this file would reach was not found: {self.note}"
        known = [each for each in self.figures[1:3] if each.value is not None and each.margin is not None]
        others = "".join(f", {NAMES[each.name]} {each.value:.3g} ± {each.margin:.2g}" for each in known)
        return (
            f"A {self.learner} trained on this file is expected to reach {NAMES[main.name]} {main.value:.3f} ±"
            f" {main.margin:.3f}{others} on rows like the private ones ({LEVEL:.0%}: privacy noise and sampling)."
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {
            "sentence": self.sentence,
            "learner": self.learner,
            "trained_on_rows": self.rows,
            "task": self.task,
            "positive": self.positive,
            "level": LEVEL,
            "figures": {
                each.name: {"value": each.value, "margin": each.margin, "optimism_taken_off": each.optimism}
                for each in self.figures
            },
            "calibration": [
                {"predicted": p.predicted, "observed": p.observed, "margin": p.margin, "share": p.share}
                for p in self.calibration
            ],
            "noise_stddev": self.stddev,
            "note": self.note,
        }
