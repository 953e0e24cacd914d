"""Whether a ledger holds what a release's certificate says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from threea.errors import SettingError
from threea.ledger.books import Books, ReleaseRow
from threea.ledger.chain import LedgerHead, canonical
from threea.ledger.ledger import Ledger


def check_certificate(ledger: Ledger, certificate: Mapping[str, Any]) -> LedgerHead:
    """Look a certificate's release up in the ledger; return the head that the certificate names.

    What it says of its budget (epsilon, delta), of whom it protects (adjacency, unit) and of its events must be what
    the ledger entered for one release of a dataset, as far as the ledger went then.

    Raises:
        SettingError: The ledger did not go through that head, or has entered something else.
    """
    if certificate.get("ledger_head") is None:
        raise SettingError("was made without a ledger, so its spending is not in this one")
    try:
        head = LedgerHead.from_json(certificate["ledger_head"])
    except ValueError:
        raise SettingError("has a certificate whose ledger_head is none; take the one that threea wrote") from None
    if head.entries > ledger.head.entries:
        older = f"saw entry {head.entries} of its ledger, this one ends at {ledger.head.entries}"
        raise SettingError(f"{older}: an older copy, or another ledger; find the newest copy")
    if not ledger.holds(head):
        raise SettingError(f"is not in this ledger: entry {head.entries} is another; find the ledger it was made with")
    try:
        stated = _stated(certificate)
    except (ArithmeticError, KeyError, TypeError, ValueError, AttributeError):
        raise SettingError("has a certificate without budget, unit or events; take the one that threea wrote") from None
    with ledger.transaction(writing=False) as books:
        entered = list(_entered(books, head.entries, stated["events"]))
    if not entered:
        raise SettingError(f"has nothing charged up to entry {head.entries}; find the ledger it was made with")
    # Of equally many differences, those from the latest.
    differences = min((_different(stated, facts) for facts in reversed(entered)), key=len)
    if differences:
        raise SettingError(f"has a certificate that was changed: {differences[0]}; take the one that threea wrote")
    return head


def _stated(certificate: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "epsilon": float(certificate["epsilon"]),
        "delta": float(certificate["delta"]),
        "protection": f"{certificate['adjacency']}, {certificate['unit']}",
        "events": Counter(canonical({**event, "count": event["count"]}) for event in certificate["events"]),
    }


def _entered(books: Books, until: int, stated: Counter[str]) -> Iterator[dict[str, Any]]:
    """Give what the ledger says of each release that was charged up to an entry, had it ended there.

    Rows that were handed out are entered as releases of their own. They belong to the release whose certificate states
    them.
    """
    handed_out: dict[str, Counter[str]] = {}
    charged = [(row, events) for row in books.releases.values() if (events := _events(books, row, until))]
    for row, events in charged:
        if _is_exposure(books, row):
            handed_out[row.dataset] = handed_out.get(row.dataset, Counter()) + events
    for row, events in charged:
        exposed = _is_exposure(books, row)
        others = handed_out.get(row.dataset, Counter()) - (events if exposed else Counter())
        yield {
            # Whoever was handed the rows has them: no budget was entered.
            "epsilon": None if exposed else row.epsilon,
            "delta": row.delta,
            "protection": books.datasets[row.dataset].terms,
            "events": events + (others & (stated - events)),
        }


def _events(books: Books, row: ReleaseRow, until: int) -> Counter[str]:
    """Return what a release was charged up to an entry, each line as often as it was charged."""
    charged = Counter[str]()
    for charge in books.charges[row.id]:
        charged[charge.line] += charge.times * (charge.entry <= until)
    return Counter(
        canonical({"name": name, **books.lines[row.id, name].event, "count": count})
        for name, count in charged.items()
        if count
    )


def _is_exposure(books: Books, row: ReleaseRow) -> bool:
    line = books.lines.get((row.id, "expose"))
    return line is not None and row.planned == 1 and row.epsilon == float("inf")


def _different(stated: Mapping[str, Any], entered: Mapping[str, Any]) -> list[str]:
    """Say in which facts a certificate and the ledger differ."""
    told = []
    for name in ("epsilon", "delta"):
        if entered["epsilon"] is not None and stated[name] != entered[name]:
            told.append(f"{name} is {stated[name]:g}, and {entered[name]:g} in the ledger")
    if stated["protection"] != entered["protection"]:
        told.append(f"it protects ({stated['protection']}), and ({entered['protection']}) in the ledger")
    strange, missing = (stated["events"] - entered["events"]), (entered["events"] - stated["events"])
    if strange or missing:
        ours = f"{missing.total()} of the ledger's not in it"
        told.append(f"{strange.total()} of its events are not the ledger's, {ours}")
    return told
