"""The loss of a training, in the report."""

from dataclasses import replace
from pathlib import Path

import pytest

from threea.certificate import Guarantee
from threea.model_file import load_release
from threea.model_summary import CurveFigure
from threea.report import render
from threea.report.curve import curve

GOLDEN = Path(__file__).parents[1] / "golden" / "generator-1.threea"


@pytest.mark.parametrize(
    ("promised", "said"),
    [
        (Guarantee.PROVEN, "computed from noisy answers and synthetic rows, never from private ones"),
        (Guarantee.NONE, "computed from private rows, without a proof"),
    ],
)
def test_the_caption_says_what_the_loss_was_computed_from(promised: Guarantee, said: str) -> None:
    release = replace(load_release(GOLDEN), promised=promised)
    page = render(release, release.certificate(), release.table.slice(0, 50))
    assert "How the generator was trained" in page
    assert said in page
    assert f'd="{curve(release.summary.figures[0]).path}"' in page  # type: ignore[arg-type]


def test_a_curve_fills_its_picture_and_says_where_it_began_and_ended() -> None:
    drawn = curve(CurveFigure("critic", (4.0, 2.0, 3.0, 3.0, float("nan"))))
    assert drawn.path.startswith("M0 0L250 50")
    assert (drawn.highest, drawn.lowest) == ("4", "0")
    assert drawn.summary == "Loss of the critic from 4 to 0"
    assert curve(CurveFigure("critic", (1.0,))).path == "M0 0"
