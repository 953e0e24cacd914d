"""The ledger: what each dataset has spent, in one file that no crash, race or damage lets forget."""

from threea.ledger.books import Account, Books, ChargeRow, DatasetRow, LineRow, ReleaseRow
from threea.ledger.chain import LedgerHead
from threea.ledger.ledger import Ledger, open_ledger

__all__ = [
    "Account",
    "Books",
    "ChargeRow",
    "DatasetRow",
    "Ledger",
    "LedgerHead",
    "LineRow",
    "ReleaseRow",
    "open_ledger",
]
