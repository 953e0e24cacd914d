"""What the studio says of an error: the command line's sentence, with the names of fields for those of flags."""

from __future__ import annotations

import re

from threea.errors import ThreeaError, bug, fate_of

_FIELDS = {
    "--separator": "“Separator”",
    "--encoding": "“Encoding”",
    "--decimal": "“Decimal mark”",
    "--date-format": "“Dates are written”",
    "--sheet": "“Sheet”",
    "--score": "“Share of the budget for a score”",
    "--dataset": "“Name of the dataset”",
    "--unit": "“Person to protect”",
    "--max-rows-per-unit": "“Rows per person, at most”",
    "--format csv --spreadsheet-safe": "“Of CSV: an apostrophe before text that a spreadsheet might run”",
    "--rows": "“Synthetic rows”",
    "--cap": "“Cap”",
    "--new-ledger": "“A new ledger”",
    "--ledger": "“Ledger”",
    "--recipe": "“Recipe”",
    "--target": "“Target”",
    "--delta": "“Delta”",
}
_FLAG = re.compile("|".join(sorted(map(re.escape, _FIELDS), key=len, reverse=True)))


def told(error: Exception) -> str:
    """Return one line about an error; of a bug of ours, where it is and nothing that it says.

    Example:
        >>> from threea.errors import InputError
        >>> told(InputError("a row has more values than the header; see --separator"))
        'a row has more values than the header; see “Separator”'
    """
    if not isinstance(error, ThreeaError):
        return f"{bug(error)}; please report it"
    return in_fields("; ".join(filter(None, [str(error), fate_of(error)])))


def in_fields(text: str) -> str:
    """Return a text that names flags with the names of the fields that they are here."""
    return _FLAG.sub(lambda found: _FIELDS[found[0]], text)
