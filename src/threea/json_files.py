"""Results as JSON: plain data, in files that appear whole or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from threea.errors import SettingError


def finite(value: Any) -> Any:
    """Return plain data with None for every number that JSON has no name for.

    Example:
        >>> finite({"epsilon": math.inf, "by_seed": (0.5, math.nan)})
        {'epsilon': None, 'by_seed': [0.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(result: Mapping[str, Any]) -> str:
    """Return a result as JSON text."""
    return json.dumps(finite(result), indent=2, allow_nan=False, default=str) + "\n"


def write_whole(file: Path, text: str) -> None:
    """Write a file that takes the place of an earlier one; whole, or not at all.

    Raises:
        SettingError: It cannot be written.
    """
    staging = file.with_name(f".{file.name}.part")
    try:
        staging.write_text(text, encoding="utf-8")
        staging.replace(file)
    except OSError as error:
        staging.unlink(missing_ok=True)
        raise SettingError(f"out ({file}) cannot be written: {error.strerror}; choose another place") from None
