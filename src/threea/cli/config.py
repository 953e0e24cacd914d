"""Defaults from a file: `threea.toml` in the working folder, or the one that `--config` names.

It saves typing, and lowers no promise: what weakens one must be typed each time (see docs/guides/configuration.md).
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from threea.errors import SettingError

NAME = "threea.toml"
KEYS: Mapping[str, tuple[type, ...]] = {
    "epsilon": (int, float),
    "delta": (int, float),
    "adjacency": (str,),
    "unit": (str,),
    "max_rows_per_unit": (int,),
    "ledger": (str,),
    "dataset": (str,),
    "cap": (int, float),
    "schema": (str,),
    "target": (str,),
    "target_kind": (str,),
    "recipe": (str,),
    "rows": (int, str),
    "score": (int, float),
    "format": (str,),
    "separator": (str,),
    "encoding": (str,),
    "decimal": (str,),
    "date_format": (str,),
    "sheet": (str,),
}
"""What the file may hold, and of which types: the options' names."""
_PATHS = ("ledger", "schema")
_TYPED = {
    "confirm_schema": "confirms that a schema is public",
    "accept_unproven": "allows methods without a proof",
    "new_ledger": "begins a ledger that knows of no spending",
    "cluster": "sends rows to other machines",
    "engine": "may send rows to other machines",
}
"""What must be typed each time, and why."""
_ARGUMENTS = {"file": "ledger"}
"""Arguments, which have other names than the options: the ledger of the command that shows one."""
_FROM_FILE = "DEFAULT_MAP"


def read(context: typer.Context, value: Path | None) -> Path | None:
    """Take the file's values as defaults of a command's options: what is typed wins."""
    if context.resilient_parsing:
        return value
    file = Path(NAME) if value is None else value
    if value is not None or os.path.lexists(file):
        found = load(file, named=value is not None)
        named = {name: found[key] for name, key in _ARGUMENTS.items() if key in found}
        context.default_map = {**found, **named}
        context.obj = file
    return value


def load(file: Path, *, named: bool) -> dict[str, Any]:
    """Read a file of defaults.

    Args:
        file: The file.
        named: Whether its user named it; one that only lies there must be their own.

    Raises:
        SettingError: It cannot be read, belongs to another user, or holds something that it may not.
    """
    try:
        foreign = hasattr(os, "getuid") and file.stat().st_uid != os.getuid()
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"config ({file}) cannot be read: {error.strerror}; check the path") from None
    except (ValueError, RecursionError):
        raise SettingError(f"config ({file}) is not TOML; mend it, or name another with --config") from None
    if foreign and not named:
        raise SettingError(f"{file} belongs to another user; if you trust it, say --config {file}, or remove it")
    for key, value in data.items():
        problem = _problem(key, value)
        if problem:
            raise SettingError(f"{file}: {problem}")
    _refuse_weak(file, data)
    return {key: str(file.parent / value) if key in _PATHS else value for key, value in data.items()}


def _problem(key: str, value: object) -> str | None:
    if key in _TYPED:
        flag = key.replace("_", "-")
        return f"{key} {_TYPED[key]}, so it must be typed each time; remove it, and say --{flag}"
    if key not in KEYS:
        close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
        guess = f"did you mean {close[0]}? " if close else ""
        return f"key ({key}) is unknown; {guess}known: {', '.join(KEYS)}"
    if isinstance(value, bool) or not isinstance(value, KEYS[key]):
        wanted = "text in quotes" if KEYS[key] == (str,) else "a number" if str not in KEYS[key] else "a number or text"
        return f"{key} ({value}) must be {wanted}"
    return None


def _refuse_weak(file: Path, data: Mapping[str, Any]) -> None:
    """Refuse a budget that a receipt would warn of: who spends so must say so."""
    from threea.report import words

    weak = words.weakness(float(data.get("epsilon", 0)), float(data.get("delta", 0)))
    if weak:
        raise SettingError(f"{file}: {weak.rstrip('.')}; remove it, and say it on the command line")


def taken(context: typer.Context) -> dict[str, Any]:
    """Return what a command took from the file, by key."""
    values = _known(context).items()
    return {_ARGUMENTS.get(key, key): value for key, value in values if _source(context, key) == _FROM_FILE}


def told(context: typer.Context) -> str:
    """Say what was taken from the file, and what was typed in its place; nothing where there is none."""
    values = taken(context)
    others = [f"--{key.replace('_', '-')}" for key in _known(context) if _ARGUMENTS.get(key, key) not in values]
    said = [f"From {context.obj}: {', '.join(f'{key} {value}' for key, value in values.items())}."] if values else []
    said += [f"Typed in place of {context.obj}: {', '.join(others)}."] if others else []
    return " ".join(said)


def refuse_lost_ledger(context: typer.Context, ledger: Path | None, *, new: bool) -> None:
    """Refuse a ledger of the file's that is not there: made anew, it would know of no spending.

    Raises:
        SettingError: It is not there, and a new one was not asked for.
    """
    if ledger is not None and "ledger" in taken(context) and not new and not os.path.lexists(ledger):
        raise SettingError(f"ledger ({ledger}) of {context.obj} does not exist; find it, or begin it with --new-ledger")


def _known(context: typer.Context) -> dict[str, Any]:
    """Return the file's values that this command has options for."""
    names = {parameter.name for parameter in context.command.params}
    return {key: value for key, value in (context.default_map or {}).items() if key in names}


def _source(context: typer.Context, key: str) -> str:
    source = context.get_parameter_source(key)
    return "" if source is None else source.name
