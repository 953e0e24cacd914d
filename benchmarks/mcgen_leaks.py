"""How much MC-GEN gives away as published, with its paper's noise and with that of its code, and the proven form.

- **clusters**: as many rows at 0 as at 1, just what a cluster needs, and some in the middle. The mean is in the middle
  but for one further row, at 0.45 or 0.55, so that row decides which end is farther from the mean. There MDAV starts
  its first cluster, and the middle goes with the other end. Which end is by itself shows in how lopsided the released
  amounts are.
- **noise**: all rows are in the middle but for one at each end and one further row, which is in the middle or at 1.
  There is one cluster, so no row moves another. The further row changes its mean and its variance by no more than
  Algorithm 1 says; its authors' code has less noise. It shows in how far apart the released amounts are, or in their
  mean where all are the same.

`python -m benchmarks mcgen_leaks` measures it; `python -m benchmarks.mcgen_leaks chart` draws the chart again. The
results are a part of those of `published_leaks`, of which it keeps the rest.
"""

import datetime
import json
import sys
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from benchmarks import published_leaks as leaks
from threea.recipes import RECIPES, MCGenPublished

K, ENDS, MIDDLE = 0.4, 200, 99
"""With the one further row 500 rows, so that a cluster has at least 200."""
FURTHER = {"clusters": (0.45, 0.55), "noise": (0.5, 1.0)}
"""Where the one row is in which the tables differ."""
TRIALS = 4000
PANELS = {
    "clusters": "mcgen-published",
    "code": "mcgen-published, the noise of its code",
    "proven": "mcgen",
}
CHART = Path(__file__).parent.parent / "docs" / "images" / "mcgen-leaks.svg"


def neighbours(pair: Literal["clusters", "noise"]) -> tuple[pa.Table, pa.Table]:
    """Return two tables that differ in one row."""
    ends = ENDS if pair == "clusters" else 1
    shared = [0.0] * ends + [0.5] * (2 * ENDS + MIDDLE - 2 * ends) + [1.0] * ends
    both = [[*shared, further] for further in FURTHER[pair]]
    left, right = (pa.table({"amount": amounts, "label": ["all"] * len(amounts)}) for amounts in both)
    return left, right


def attacks() -> dict[str, leaks.Attack]:
    """Return what is attacked and how, by name; the proven form if there is one."""
    clusters, noise = neighbours("clusters"), neighbours("noise")
    found = {
        "clusters": leaks.Attack(MCGenPublished(k=K), clusters, "lopsided"),
        "clusters, means": leaks.Attack(MCGenPublished(k=K, draw="means"), clusters, "lopsided"),
        "code": leaks.Attack(MCGenPublished(k=1.0, noise="code"), noise, "spread"),
        "code, means": leaks.Attack(MCGenPublished(k=1.0, noise="code", draw="means"), noise),
        "one cluster": leaks.Attack(MCGenPublished(k=1.0), noise, "spread"),
        "one cluster, means": leaks.Attack(MCGenPublished(k=1.0, draw="means"), noise),
    }
    if "mcgen" in RECIPES:
        found["proven"] = leaks.Attack(RECIPES["mcgen"](), clusters, "lopsided")
        found["proven, noise"] = leaks.Attack(RECIPES["mcgen"](), noise, "spread")
    return found


def mode(name: str) -> str:
    """Say whether an attack is on the proven form."""
    return "proven" if name.startswith("proven") else "published"


def measured() -> dict[str, Any]:
    """Run all attacks."""
    results: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "settings": {"k": K, "rows": 2 * ENDS + MIDDLE + 1, "rows_at_each_end": ENDS, "further_row": FURTHER},
    }
    for name, attack in attacks().items():
        results[name] = leaks.measured(mode(name), leaks.parts(attack, TRIALS))
        print(f"{name}: at least {results[name]['epsilon']:.2f}", flush=True)
    return results


def main() -> None:
    """Attack MC-GEN and draw what came out."""
    from benchmarks.record import RESULTS

    path = RESULTS / "published-leaks.json"
    entry = json.loads(path.read_text())
    if "chart" not in sys.argv[1:]:
        entry["results"]["mcgen"] = measured()
        path.write_text(json.dumps(entry, indent=2) + "\n")
    results = entry["results"]["mcgen"]
    leaks.draw(
        CHART,
        "What one row does to a release of MC-GEN",
        {title: results[name] for name, title in PANELS.items() if name in results},
        "what is looked at: see the text",
        ("the one row on the left", "the one row on the right"),
    )


if __name__ == "__main__":
    main()
