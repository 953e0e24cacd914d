"""Whether a release is good enough to train models on, in one sentence."""

from __future__ import annotations

from typing import Any

from threea.report.words import shown

NEAR, FAR = 0.02, 0.05
"""What a model may lose by training on the release, in AUC or R², to be as good as on real rows, or useful with care.
Chosen."""


def verdict(utility: dict[str, Any] | None, fidelity: dict[str, Any]) -> dict[str, str]:
    """Return a ``tone`` (good, fair or bad) and a ``sentence``."""
    broken = list(dict.fromkeys(entry["column"] for entry in fidelity["broken"]))
    aside = ""
    if broken:
        named = ", ".join(shown(name, 30) for name in broken[:3]) + (" and others" if len(broken) > 3 else "")
        aside = f"; values of {len(broken)} column{'s' if len(broken) > 1 else ''} are not as in real rows ({named})"
    if utility is None:
        said = "There is no target, so whether the release is good enough for training was not measured"
        return {"tone": "fair", "sentence": f"{said}{aside}."}
    metric, name = ("r2", "R²") if utility["task"] == "regression" else ("auc", "AUC")
    scores = utility["learners"]["lightgbm"]
    real, synthetic = scores["real"][metric]["value"], scores["synthetic"][metric]["value"]
    if real is None or synthetic is None:
        said = f"{name} is undefined on these holdout rows, so whether the release is good enough was not measured"
        return {"tone": "fair", "sentence": f"{said}{aside}."}
    lost = real - synthetic
    loss = f"{name} {synthetic:.3f} instead of {real:.3f}"
    if lost <= NEAR:
        return {"tone": "good", "sentence": f"Good enough for training: models reach {loss}{aside}."}
    if lost <= FAR:
        return {"tone": "fair", "sentence": f"Good enough for training where {lost:.3f} may be lost: {loss}{aside}."}
    return {"tone": "bad", "sentence": f"Not good enough for training: models lose {lost:.3f} ({loss}){aside}."}
