"""Whether the attacks found a sign of memory: all of them together, so that many attacks make no more false alarms."""

from __future__ import annotations

from typing import Any

from threea.evaluate.pairs import holm

SHARE = 0.05
"""The share of releases that remember nothing, of which at most so many have a sign in any attack."""


def decided(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the attacks with ``sign`` and ``verdict``, a sentence that claims no more than the figures do.

    Guarantees:
        - Of releases that are independent of who is in the training rows, at most `SHARE` have a sign.
    """
    deciding = [figure for report in reports for figure in report["figures"] if figure["decides"]]
    adjusted = iter(holm([figure["p"] for figure in deciding]))
    return [
        _decided(report, [(next(adjusted), figure) for figure in report["figures"] if figure["decides"]])
        for report in reports
    ]


def _decided(report: dict[str, Any], deciding: list[tuple[float, dict[str, Any]]]) -> dict[str, Any]:
    claim = report["claim"]
    # As likely as another by chance, a figure says more if it is further above its baseline.
    p, worst = min(deciding, key=lambda entry: (entry[0], -_above(entry[1])), default=(1.0, {}))
    if not deciding:
        verdict = "Not tried: the rows left nothing to try it with. That is no sign of safety, nor of danger."
    elif p <= SHARE:
        low, high = worst["interval"]
        verdict = (
            f"A sign that {claim}: {worst['name']} is {worst['value']:.3f} [{low:.3f}, {high:.3f}], where a release "
            f"that remembers no row gives {worst['baseline']:g}. By chance any attack finds as much in at most "
            f"{p:.2g} of such releases."
        )
    else:
        verdict = f"No sign that {claim}. {report['cannot_show']}"
    shown = {key: value for key, value in report.items() if key != "claim"}
    return shown | {"sign": p <= SHARE, "verdict": verdict}


def _above(figure: dict[str, Any]) -> float:
    return float(figure["interval"][0] - figure["baseline"])
