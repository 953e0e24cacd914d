"""How much GANs give away as published, Laplace-GAN and PATE-GAN, and the proven form of the latter.

The tables have few rows, all at 0 but for one, which is at 0 or at 1. A promise holds for these as for any.

- **laplacegan**: eight rows. The noise layer hides what the discriminator says of a row in one step; over hundreds of
  steps the generator still learns whether there is one at 1.
- **pategan, stop**: one row and its teacher, with the default lambda of the authors' code. The accountant is looked at
  after an iteration, so the first one, however much it costs, is always made.
- **pategan, code**: two rows and two teachers, who both see the same part, as in the authors' code. If the one row is
  that part, it turns all votes.
- **pategan, paper**: the same, with each teacher seeing its own part; it stops too late, too.

`python -m benchmarks network_leaks` measures it; `python -m benchmarks.network_leaks chart` draws the chart again. The
results are a part of those of `published_leaks`, of which it keeps the rest.
"""

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import published_leaks as leaks
from threea.recipes import PATEGAN, LaplaceGANPublished, PATEGANPublished

FURTHER = (0.0, 1.0)
"""Where the one row is in which the tables differ."""
TRIALS = {"pategan, stop": 300, "pategan, code": 300}
"""Runs on each table; 150 of the others."""
ROWS = 200
"""How many are released: more tell no more of a generator of one number."""
LAPLACE = LaplaceGANPublished(latent=2, width=8, iterations=600, batch=8, learning_rate=0.01)
PATE = {"latent": 2, "width": 64, "batch": 64, "votes_noise": 1.0, "teacher_steps": 100, "student_steps": 100}
LEARNING_RATE = 0.05
"""Of PATE-GAN's networks, so that one step of the generator shows."""
PANELS = {
    "laplacegan": "laplacegan-published",
    "pategan, stop": "pategan-published, one teacher",
    "pategan, code": "pategan-published, the split of its code",
    "proven": "pategan",
}
CHART = Path(__file__).parent.parent / "docs" / "images" / "network-leaks.svg"


def neighbours(rows: int) -> tuple[pa.Table, pa.Table]:
    """Return two tables that differ in one row."""
    both = [[*([0.0] * (rows - 1)), further] for further in FURTHER]
    left, right = (pa.table({"amount": amounts, "label": ["all"] * rows}) for amounts in both)
    return left, right


def attacks() -> dict[str, leaks.Attack]:
    """Return what is attacked and how, by name."""
    one, two, code = (
        PATEGANPublished(teachers=teachers, split=split, learning_rate=LEARNING_RATE, **PATE)
        for teachers, split in ((1, "paper"), (2, "paper"), (2, "code"))
    )
    return {
        "laplacegan": leaks.Attack(LAPLACE, neighbours(8), rows=ROWS),
        "pategan, stop": leaks.Attack(one, neighbours(1), rows=ROWS),
        "pategan, code": leaks.Attack(code, neighbours(2), rows=ROWS),
        "pategan, paper": leaks.Attack(two, neighbours(2), rows=ROWS),
        "proven": leaks.Attack(PATEGAN(), neighbours(1), rows=ROWS),
        "proven, two": leaks.Attack(PATEGAN(), neighbours(2), rows=ROWS),
    }


def mode(name: str) -> str:
    """Return which mode is attacked."""
    return "proven" if name.startswith("proven") else "published"


def measured() -> dict[str, Any]:
    """Attack everything and say what came out."""
    results: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "settings": {"further_row": FURTHER, "rows_released": ROWS},
    }
    for name, attack in attacks().items():
        # In one process: networks are compiled once for all runs.
        results[name] = leaks.measured(mode(name), leaks.parts(attack, TRIALS.get(name, 150)), workers=1)
        print(f"{name}: at least {results[name]['epsilon']:.2f}", flush=True)
    return results


def main() -> None:
    """Attack the networks and draw what came out."""
    from benchmarks.record import RESULTS

    path = RESULTS / "published-leaks.json"
    entry = json.loads(path.read_text())
    if "chart" not in sys.argv[1:]:
        entry["results"]["networks"] = measured()
        path.write_text(json.dumps(entry, indent=2) + "\n")
    results = entry["results"]["networks"]
    leaks.draw(
        CHART,
        "What one row does to a release of a GAN",
        {title: results[name] for name, title in PANELS.items()},
        "mean of the released amounts",
        (f"the one row at {FURTHER[0]:g}", f"the one row at {FURTHER[1]:g}"),
    )


if __name__ == "__main__":
    main()
