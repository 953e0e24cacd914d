"""Exact replay of every proven recipe: what each question could change by on neighbouring tables, against its price."""

import dataclasses
import time
from typing import Any

from benchmarks.record import record
from threea.audit.replay import replay, settings
from threea.certificate import Guarantee
from threea.recipes import RECIPES

FEW: dict[str, dict[str, Any]] = {
    "dpmerf": {"features": 50, "iterations": 2, "batch": 4, "width": 4},
    "pategan": {"teachers": 20, "inputs": 50},
    "dpgan": {"epochs": 1.0, "rate": 0.2, "width": 4},
    "laplacegan": {"iterations": 3, "width": 4},
}
"""Of networks: fewer steps, which ask the same question again, and smaller ones."""


def main() -> None:
    """Replay the recipes, and write down the worst changes found."""
    results = []
    for name in RECIPES:
        recipe = RECIPES[name](**FEW.get(name, {}))
        if name == "auto" or recipe.guarantee is not Guarantee.PROVEN:
            continue
        start = time.process_time()
        questions = [dataclasses.asdict(question) | {"over": question.over} for question in replay(recipe)]
        seconds = round(time.process_time() - start, 1)
        results.append({"recipe": name, "processor_seconds": seconds, "questions": questions})
    tried = [str(setting) for setting in settings()]
    record("replay", {"epsilon": 1.0, "delta": 1e-6, "rows": 120, "tried": tried, "few": FEW}, results)


if __name__ == "__main__":
    main()
