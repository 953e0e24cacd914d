"""What was released, under which guarantee, from which events."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Guarantee(StrEnum):
    """How much a release may claim."""

    PROVEN = "proven"
    """Every look at the rows went through the door."""
    CLAIMED = "claimed"
    """A published method's own accounting; the assumptions say why it is not proven."""
    NONE = "none"
    """No claim at all."""


def now() -> str:
    """Return the time, to the second, in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class ClassShare:
    """How frequent a class is among the synthetic rows, and how frequent among the private ones, by noisy answers."""

    name: str
    share: float
    share_private: float

    @property
    def weight(self) -> float:
        """How much each synthetic row of the class must count for the private ratio."""
        return self.share_private / self.share

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        shares = {"share": self.share, "share_private": self.share_private, "weight": self.weight}
        return {"class": self.name, **shares}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The privacy facts of a release, for its recipients."""

    threea_version: str
    recipe: str
    settings: dict[str, Any]
    guarantee: Guarantee
    epsilon: float
    """The budget: the release is (epsilon, delta)-differentially private if the guarantee is `proven`."""
    accounted_epsilon: float
    """What the accountant says of the events at this delta; at most epsilon if proven."""
    delta: float
    adjacency: str
    unit: str
    """Whom it protects, in words: a row, or a person named by a column with at most so many rows."""
    unit_column: str | None
    """The column that names the person; null if every row is a unit."""
    max_rows_per_unit: int
    """How many rows of one person count."""
    events: list[dict[str, Any]]
    """What was charged: every look at the rows, also where they were handed out."""
    assumptions: list[str]
    arithmetic: str
    """How sums were added up and noise was drawn."""
    rows: int
    classes: list[dict[str, Any]] | None = None
    """Shares and weights of the target's classes, if their ratio is not the noisy private one."""
    classes_note: str = ""
    """What that means, in words."""
    schema_origin: str
    schema_untouched: list[str] = field(default_factory=list)
    """Columns whose description is still as it was read from the rows: nobody has said where it is public."""
    schema_rules: list[dict[str, str]] = field(default_factory=list)
    """What every row keeps, declared as public knowledge, and how it is kept."""
    schema_sha256: str
    synthetic_sha256: str = ""
    model_sha256: str = ""
    """Of `model.threea`; empty if a model that is not of threea's own making was not written."""
    report_sha256: str = ""
    """Of `report.html`, which states everything here but this."""
    ledger_head: dict[str, Any] | None = None
    """Number and hash of the ledger's last entry after the last charge, null without a ledger file. Fresh randomness
    in that entry makes the hash a commitment, which the owner alone can open."""
    spreadsheet_safe: bool = False
    """Whether text cells that a spreadsheet might run as formulas begin with an apostrophe."""
    score: dict[str, Any] | None = None
    """What a model trained on the rows is expected to reach, null if nobody asked."""
    children: dict[str, Any] | None = None
    """Of two tables, what is said of the child table: its key, bound, recipe, share, schema and hashes; else null."""
    created: str = field(default_factory=now)

    def to_json(self) -> str:
        """Return the certificate as JSON text; infinity is written as text, for JSON has no number for it."""
        data = {key: str(value) if value == float("inf") else value for key, value in asdict(self).items()}
        return json.dumps(data, indent=2, allow_nan=False) + "\n"
