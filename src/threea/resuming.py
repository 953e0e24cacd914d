"""An interrupted release: found again by what was asked for, and told of before another is begun.

The door keeps the answers (`anonymize/transcript.py`); the finished model is kept beside them until the folder stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from threea import publish
from threea.anonymize.transcript import Transcript
from threea.anonymize.unfinished import busy, waiting
from threea.budget import Adjacency
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.model_file import NAME, load_release
from threea.place import Place
from threea.release import Release
from threea.table.reading_section import stated
from threea.table.schema import Schema

_DEFAULTS: Mapping[str, Any] = {
    "delta": 1e-6,
    "target": None,
    "target_kind": None,
    "dialect": None,
    "drop": (),
    "adjacency": Adjacency.ADD_REMOVE,
    "rows": None,
    "seed": None,
    "balance": False,
    "score": 0.0,
    "dataset": "unnamed",
    "unit": None,
    "max_rows_per_unit": 1,
    "accept_unproven": False,
}
"""Options that the answers, or the rows drawn from them, depend on, as `session.prepare` has them by default; beside
them epsilon, recipe and schema. Who reads the rows and where the files go may change."""
WITHOUT_LEDGER = "Without a ledger, a release that is interrupted cannot be resumed."
RESUMABLE = (
    "Interrupted, the whole plan stays charged, however little was asked;"
    " the same again with --resume goes on with the same answers."
)


def request_of(recipe: Recipe, schema: Schema | None, options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is asked for, option by option, as text."""
    described = "none" if schema is None else sha256(schema.to_toml().encode()).hexdigest()[:16]
    given = {name: options.get(name, default) for name, default in _DEFAULTS.items()}
    # Said alike from the command line and from Python.
    given |= {"dialect": stated(given["dialect"]), "drop": tuple(sorted(given["drop"])), "score": float(given["score"])}
    asked = {name: str(value) for name, value in given.items()}
    return {"recipe": repr(recipe), "schema": described, "epsilon": str(float(options["epsilon"])), **asked}


def transcript_of(
    ledger: Ledger | str | PathLike[str] | None, request: Mapping[str, str], *, resume: bool
) -> Transcript | None:
    """Return what will keep a release's answers, or has kept those of an interrupted one; None without a file for it.

    Raises:
        SettingError: There is nothing to resume.
    """
    path = ledger if isinstance(ledger, str | PathLike) else ledger.path if ledger and ledger.on_disk else None
    if path is None:
        if resume:
            raise SettingError("resume needs the ledger beside which the unfinished release waits; name it (--ledger)")
        return None
    return Transcript.found(path, request) if resume else Transcript(path, request)


def refused(recipe: Recipe) -> str:
    """Say why a release by a recipe cannot be resumed; nothing if it can."""
    if getattr(recipe.approximate, "prepays", False):
        return f"{recipe.name} so set trains on too many answers to keep"
    return "" if recipe.guarantee is Guarantee.PROVEN else f"{recipe.name} so set takes the rows themselves"


def told(ledger: str | None, dataset: str, unkept: str, transcript: Transcript | None) -> list[str]:
    """Return what a receipt says of interrupts, and of an unfinished release that waits.

    Args:
        ledger: The ledger's file, if there is one.
        dataset: The owner's name for the rows.
        unkept: Why it cannot be resumed all the same.
        transcript: Of the release that is told of, if it goes on with an unfinished one.
    """
    if ledger is None:
        return [] if unkept else [WITHOUT_LEDGER]
    if transcript is not None and transcript.resumed:
        return [f"It goes on with the unfinished release, for the same charge: {transcript.known} answers are known."]
    others = [other for other in waiting(ledger, dataset) if not busy(other.folder)]
    notes = [
        f"An unfinished release of this dataset waits since {other.begun}, at epsilon {other.request['epsilon']}: with"
        f" its options and --resume it costs nothing more. To give it up, remove {other.folder}."
        for other in others[:1]
    ]
    if unkept:
        return [*notes, f"Interrupted, the whole plan stays charged, and it cannot be resumed: {unkept}."]
    return [*notes, RESUMABLE]


def kept(options: Mapping[str, Any]) -> tuple[Transcript, Release] | None:
    """Return an unfinished release of which the files alone are missing; None if something is still to be asked.

    Args:
        options: As of `session.prepare`, the recipe and the schema as values.

    Raises:
        SettingError: There is nothing to resume, or the ledger does not hold what was charged for it.
        LedgerError: The ledger cannot be used.
    """
    request = request_of(options["recipe"], options["schema"], options)
    transcript = transcript_of(options["ledger"], request, resume=True)
    release = finished(transcript) if transcript else None
    if transcript is None or release is None:
        if transcript:
            transcript.close()
        return None
    with Ledger(options["ledger"]) as book:
        transcript.owed(book)
    return transcript, release


def finished(transcript: Transcript) -> Release | None:
    """Return the release that only its files are missing of; None if something is still to be asked."""
    return None if transcript.model is None else load_release(transcript.model)


def write(
    release: Release,
    place: Place,
    transcript: Transcript | None,
    *,
    progress: publish.Progress | None = None,
    check: Callable[[], object] | None = None,
    elsewhere: publish.Elsewhere | None = None,
) -> list[Path]:
    """Write a release as `publish.write` does; what was kept of it is removed once the folder stands."""

    def last() -> None:
        if check:
            check()
        if transcript:
            transcript.destined(place.final, place.path(NAME))

    kept = transcript is not None and transcript.waits
    try:
        return publish.write(release, place, progress, check=last, elsewhere=elsewhere, kept=kept)
    finally:
        if transcript and place.published:
            transcript.forget()
        elif transcript:
            transcript.close()
