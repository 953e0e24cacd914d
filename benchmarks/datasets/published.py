"""Figures that others published. They are theirs: not measured here, and shown as such."""

from __future__ import annotations

from dataclasses import dataclass

METHODS = ("Real", "DP-GAN", "PATE-GAN", "ADS-GAN (no DP)", "DP-MERF", "ClustMix")
"""The columns of the ClustMix paper's Table 1."""


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the ClustMix paper's Table 1.

    Args:
        dataset: As the paper names it.
        rows: The number of rows it states.
        features: The number of features it states.
        scores: By method, in the order of `METHODS`: AUC, for MNIST accuracy.
    """

    dataset: str
    rows: int
    features: int
    scores: tuple[float, ...]

    @property
    def by_method(self) -> dict[str, float]:
        """The scores by method."""
        return dict(zip(METHODS, self.scores, strict=True))


TABLE1 = {
    row.dataset: row
    for row in (
        Published("adult", 32_561, 14, (0.931, 0.511, 0.732, 0.821, 0.650, 0.863)),
        Published("census", 299_285, 40, (0.952, 0.529, 0.544, 0.856, 0.686, 0.906)),
        Published("credit", 284_807, 29, (0.973, 0.435, 0.739, 0.911, 0.772, 0.969)),
        Published("isolet", 4_366, 617, (0.988, 0.618, 0.529, 0.924, 0.547, 0.903)),
        Published("MIMIC-III mortality", 58_976, 18, (0.896, 0.632, 0.473, 0.530, 0.728, 0.749)),
        Published("MIMIC-III length of stay", 57_171, 25, (0.728, 0.497, 0.501, 0.550, 0.508, 0.624)),
        Published("MNIST", 60_000, 784, (0.972, 0.403, 0.563, 0.710, 0.650, 0.818)),
    )
}
"""Table 1 of the ClustMix paper: LightGBM trained on synthetic rows, tested on held-out real ones, at epsilon 1."""

MEAN_DISTANCE_TO_REAL = dict(zip(METHODS, (0.0, 0.402, 0.337, 0.162, 0.271, 0.087), strict=True))
"""The last line of that table."""

MCGEN_BASELINE = {
    1: {
        "pima": {"svm": 0.80, "logistic": 0.78, "boosting": 0.75},
        "adult": {"svm": 0.84, "logistic": 0.89, "boosting": 0.91},
        "phishing": {"svm": 0.96, "logistic": 0.98, "boosting": 0.96},
    },
    2: {
        "pima": {"svm": 0.82, "logistic": 0.80, "boosting": 0.85},
        "adult": {"svm": 0.85, "logistic": 0.86, "boosting": 0.83},
        "phishing": {"svm": 0.96, "logistic": 0.94, "boosting": 0.94},
    },
}
"""Table 1 of the MC-GEN paper, by scenario: accuracy when real rows train and real rows test."""

MCGEN_SIZES = {"pima": (768, 8), "adult": (48_842, 14), "phishing": (11_055, 30)}
"""Rows and features of its datasets, as the paper states them (section 5.2)."""

MCGEN_ROUNDS = 100
"""How many experiments each of its figures is the mean of (section 5.3)."""

MCGEN_FIGURES = {
    "k": {1: {"pima": 4, "adult": 5, "phishing": 6}, 2: {"pima": 7, "adult": 8, "phishing": 9}},
    "epsilon": {1: {"pima": 10, "adult": 11, "phishing": 12}, 2: {"pima": 13, "adult": 14, "phishing": 15}},
}
"""The paper's pictures by what is along them, scenario and dataset. Their values are nowhere in its text."""
