"""What a job does, in its own process: the order comes on standard input, what happens goes to standard output.

The same steps as `threea release` and `threea evaluate`: a place is claimed, the release is prepared, run and written.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from threea.errors import BudgetRefused, ThreeaError, bug, fate_of, outcome, stated

Tell = Callable[..., None]


def main() -> None:
    """Do what is asked, and say how it ended; a message never holds a value of the table."""
    order = json.load(sys.stdin)
    try:
        {"release": release, "evaluate": evaluate}[order["task"]](order, tell)
    except KeyboardInterrupt as error:
        _end("stopped", fate_of(error) or stated(charged=False, written=False))
    except ThreeaError as error:
        kind = "refused" if isinstance(error, BudgetRefused) else "failed"
        _end(kind, "; ".join(filter(None, [str(error), fate_of(error)])))
    except Exception as error:
        _end("failed", f"{bug(error)}; {fate_of(error) or stated(charged=False, written=False)}; please report it")


def tell(**said: Any) -> None:
    """Say something to the studio, if it is still there: a release that was paid for goes on without it."""
    with suppress(OSError):
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def _end(kind: str, message: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tell(outcome=kind, message=message)


def release(order: dict[str, Any], tell: Tell) -> None:
    """Make a release, as `threea release` does."""
    from threea import publish, resuming
    from threea.cost import size_of
    from threea.report.notes import notes
    from threea.session import prepare
    from threea.studio.choices import prepare_options

    tell(stage="opening the table", done=0, of=0)
    options = prepare_options(order)
    with publish.claim(order["out"], order["form"], ledger=options["ledger"]) as place:
        prepared = prepare(order["data"], **options)
        table = prepared.table
        publish.take_room(place, (table.schema, table.layout), prepared.rows, size_of(order["data"]))
        with outcome(lambda: prepared.fate(written=place.published)):
            tell(receipt=str(prepared))
            made = prepared.made(lambda stage, done, of: tell(stage=stage, done=done, of=of))
            made = replace(made, spreadsheet_safe=order["spreadsheet_safe"])
            resuming.write(
                made,
                place,
                prepared.transcript,
                progress=lambda done: tell(stage="writing synthetic rows", done=done, of=made.rows),
                check=prepared.table.check_ledger,
            )
            told = notes(made, order["form"]) + ([made.score.sentence] if made.score else [])
            _finished(f"Guarantee: {made.guarantee}. {made.rows:,} synthetic rows.", told)


def evaluate(order: dict[str, Any], tell: Tell) -> None:
    """Evaluate a release, as `threea evaluate` does."""
    from threea.evaluate import evaluation
    from threea.evaluate.evidence import Evidence
    from threea.evaluate.owner_report import answers
    from threea.studio.choices import dialect_from

    tell(stage="reading the tables", done=0, of=0)
    folder = evaluation.check_place(order["release"], order["out"])
    dialect = dialect_from(order["dialect"])
    evidence = Evidence.load(order["release"], Path(order["train"]), Path(order["holdout"]), dialect)
    scores = evaluation.evaluate(evidence, progress=lambda stage: tell(stage=stage, done=0, of=0))
    evaluation.save(scores, evidence, folder)
    found = [f"{answer.question} {answer.verdict}. {answer.text}" for answer in answers(scores)]
    _finished("Evaluated.", [*found, *scores["warnings"]])


def _finished(message: str, notes: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tell(notes=notes)
    tell(outcome="done", message=message)


if __name__ == "__main__":
    main()
