"""What the owner chooses about a release: from a form's texts to an order, and from an order to `prepare`'s arguments.

An order is plain data that JSON can hold, so that the receipt on a page and the process that spends come from the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from threea.budget import check_delta, check_epsilon
from threea.errors import SettingError
from threea.publish import check_folder, check_format
from threea.session import make_recipe
from threea.studio.folder import Folder
from threea.table.dialect import Dialect, dialect_of
from threea.table.reading_section import stated
from threea.table.schema import Schema

NO_LEDGER, NEW_LEDGER = "none", "new"
"""What stands in the form for no ledger, and for a new one; others are chosen by `file:` and their path."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What stands in the form about the budget, as text."""

    epsilon: str = "1"
    delta: str = "1e-6"
    adjacency: str = "add-remove"
    max_rows_per_unit: str = "1"
    recipe: str = "auto"
    settings: str = ""
    rows: str = ""
    balance: str = ""
    score: str = ""
    form: str = "parquet"
    spreadsheet_safe: str = ""
    out: str = "release"
    dataset: str = ""
    ledger: str = NEW_LEDGER
    new_ledger: str = "ledger.db"
    cap: str = ""

    @classmethod
    def of(cls, form: Mapping[str, Any]) -> Choices:
        """Read the form; a box that is not ticked is not in it."""
        return cls(**{field.name: str(form.get(field.name, "")).strip() for field in fields(cls)})

    def order(
        self,
        folder: Folder,
        *,
        data: str,
        schema: Schema | None,
        target: str | None,
        unit: str | None,
        dialect: Dialect | None,
    ) -> dict[str, Any]:
        """Return what to order of a job.

        Raises:
            SettingError: A text cannot be what it should be.
        """
        check_format(self.form, spreadsheet_safe=bool(self.spreadsheet_safe))
        epsilon, delta = number("epsilon", self.epsilon), number("delta", self.delta)
        check_epsilon(epsilon)
        check_delta(delta)
        ledger = self._ledger(folder)
        return {
            "data": data,
            "out": str(check_folder(folder.inside(self.out))),
            "form": self.form,
            "spreadsheet_safe": bool(self.spreadsheet_safe),
            "schema": None if schema is None else schema.to_toml(marks=True),
            "dialect": None if dialect is None else asdict(dialect),
            "recipe": self.recipe,
            "settings": self._settings(),
            "options": {
                "epsilon": epsilon,
                "delta": delta,
                "target": target if schema is None else None,
                "adjacency": self.adjacency,
                "rows": _rows(self.rows),
                "balance": bool(self.balance),
                "score": number("score", self.score) if self.score else 0.0,
                "ledger": ledger,
                "new_ledger": self.ledger == NEW_LEDGER,
                "dataset": self.dataset,
                "cap": number("cap", self.cap) if self.cap and ledger else None,
                "unit": unit,
                "max_rows_per_unit": whole("rows per person", self.max_rows_per_unit) if unit else 1,
            },
        }

    def _ledger(self, folder: Folder) -> str | None:
        if self.ledger == NO_LEDGER:
            return None
        return str(folder.inside(self.new_ledger if self.ledger == NEW_LEDGER else self.ledger.removeprefix("file:")))

    def _settings(self) -> dict[str, str]:
        pairs = [line.strip() for line in self.settings.splitlines() if line.strip()]
        for pair in pairs:
            if "=" not in pair:
                raise SettingError(f"setting ({pair}) must be key=value")
        return {key.strip(): value.strip() for key, _, value in (pair.partition("=") for pair in pairs)}


def prepare_options(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `session.prepare` and `session.rehearse` for an order, but for the data."""
    return {
        **order["options"],
        "recipe": make_recipe(order["recipe"], order["settings"]),
        "schema": None if order["schema"] is None else Schema.from_toml(order["schema"]),
        "dialect": dialect_from(order["dialect"]),
    }


def dialect_said(form: Mapping[str, Any]) -> Dialect | None:
    """Read how a file is written off a form; None if it says nothing."""
    separator, encoding, decimal, date_format, sheet, multiline = (
        str(form.get(name, "")).strip() or None
        for name in ("separator", "encoding", "decimal", "date_format", "sheet", "multiline")
    )
    return stated(dialect_of(separator, encoding, decimal, date_format, sheet, multiline=multiline is not None))


def dialect_from(plain: Mapping[str, Any] | None) -> Dialect | None:
    """Return a dialect from plain data."""
    return None if plain is None else Dialect(**plain)


def digest(order: Mapping[str, Any]) -> str:
    """Return what tells one order from another."""
    return hashlib.sha256(json.dumps(order, sort_keys=True).encode()).hexdigest()


def number(name: str, text: str) -> float:
    """Read a number, or refuse it by name and value."""
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{name} ({text}) must be a number") from None


def whole(name: str, text: str) -> int:
    """Read a whole number, or refuse it by name and value."""
    try:
        return int(text)
    except ValueError:
        raise SettingError(f"{name} ({text}) must be a whole number, at least 1") from None


def _rows(text: str) -> int | str | None:
    return text or None if text in ("", "same") else whole("synthetic rows", text)
