"""The command that says what is installed, and whether it works."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

import typer

from threea.cli import terminal
from threea.cli.options import Json

_EXTRA = re.compile(r"extra\s*==\s*['\"](?P<extra>[\w-]+)['\"]")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_FEATURES = ("all", "dev", "docs")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(doctor)


def doctor(as_json: Json = False) -> None:
    """Say what is installed, which extras are missing and how to get them. Exit code 1: noise cannot be drawn."""
    found = examined()
    _show(found)
    terminal.result(found)
    if not found["noise"]:
        raise typer.Exit(1)


def examined() -> dict[str, Any]:
    """Return what is installed, by what it is for."""
    import threea

    return {
        "threea": threea.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "noise": _noise_works(),
        "core": packages(""),
        "extras": {extra: packages(extra) for extra in _extras()},
    }


def packages(extra: str) -> dict[str, str | None]:
    """Return the version of each package of an extra, None for those that are missing; of the core if empty."""
    wanted = {}
    for requirement in importlib.metadata.requires("threea") or ():
        found, name = _EXTRA.search(requirement), _NAME.match(requirement)
        if name and name[0] != "threea" and (found["extra"] if found else "") == extra:
            wanted[name[0]] = _version(name[0])
    return wanted


def _extras() -> list[str]:
    provided = importlib.metadata.metadata("threea").get_all("Provides-Extra") or []
    return [extra for extra in provided if extra not in _NOT_FEATURES]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _noise_works() -> bool:
    from threea.anonymize.noise import SecureNoise

    try:
        SecureNoise()
    except Exception:
        return False
    return True


def _show(found: dict[str, Any]) -> None:
    terminal.say(f"threea {found['threea']}, Python {found['python']}, {found['system']}, {found['cores']} cores")
    terminal.say("noise: drawn by OpenDP" if found["noise"] else "noise: OpenDP does not load; install opendp again")
    rows = [["core", "yes", _listed(found["core"]), ""]]
    for extra, versions in found["extras"].items():
        whole = all(versions.values())
        rows.append([extra, "yes" if whole else "no", _listed(versions), "" if whole else _remedy(extra)])
    terminal.table(["extra", "installed", "packages", "to install"], rows)


def _listed(versions: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or '(missing)'}" for name, version in versions.items())


def _remedy(extra: str) -> str:
    """Return the command that installs an extra into the Python that runs this one: from the clone, if it is one."""
    import threea

    clone = Path(threea.__file__).resolve().parents[2]
    source = f"-e '{clone}[{extra}]'" if (clone / "pyproject.toml").is_file() else f"'threea[{extra}]'"
    return f"{sys.executable} -m pip install {source}"
