"""How a network was trained, as a picture: its loss, step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from threea.model_summary import CurveFigure
from threea.report.charts import coordinate
from threea.report.words import shown

_WIDTH, _HEIGHT = 1000.0, 100.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A loss, ready to be placed on the page."""

    name: str
    path: str
    highest: str
    lowest: str
    summary: str
    """The picture in words, for those who cannot see it."""


def curve(figure: CurveFigure) -> Curve:
    """Lay out a loss from left to right, its lowest value at the bottom and its highest at the top.

    Example:
        >>> curve(CurveFigure("generator", (3.0, 1.0, 2.0))).path
        'M0 0L500 100L1000 50'
    """
    losses = [loss if math.isfinite(loss) else 0.0 for loss in figure.losses]
    low, high = min(losses), max(losses)
    across, up = _WIDTH / max(len(losses) - 1, 1), _HEIGHT / max(high - low, 1e-300)
    points = [f"{coordinate(index * across)} {coordinate((high - loss) * up)}" for index, loss in enumerate(losses)]
    return Curve(
        name=figure.name,
        path=f"M{'L'.join(points)}",
        highest=f"{high:.3g}",
        lowest=f"{low:.3g}",
        summary=f"Loss of the {shown(figure.name)} from {losses[0]:.3g} to {losses[-1]:.3g}",
    )
