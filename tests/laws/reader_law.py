"""The readers' law, as functions that a test of any reader calls.

One more row in what the user holds is one more row at the door: the other rows, the layout and the unit tags stay as
they are. Or reading refuses, in words that hold no cell's value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from threea.backends.unit_tags import unit_tags
from threea.errors import InputError, SettingError

KEY = bytes(range(32))
"""Of unit tags: any key will do, as long as it is the same for both tables."""
READ, REFUSED = "read", "refused"


@dataclass(frozen=True)
class AtTheDoor:
    """A table as the door is handed it.

    Args:
        layout: Names, order, types and notes of the columns.
        rows: Each row's values, and its unit tag where there is a unit.
    """

    layout: pa.Schema
    rows: tuple[tuple[str, ...], ...]


def at_the_door(backend: Any, unit: str | None = None) -> AtTheDoor:
    """Read a backend that hands over rows; every batch must have the types that the layout declares."""
    layout = backend.layout
    rows: list[tuple[str, ...]] = []
    for batch in backend.batches(layout.names):
        assert batch.schema.names == layout.names
        assert [field.type for field in batch.schema] == [field.type for field in layout], "a batch has other types"
        batch.validate(full=True)
        columns = [[repr(value) for value in column.to_pylist()] for column in batch.columns]
        if unit is not None:
            columns.append([tag.tobytes().hex() for tag in unit_tags(batch.column(unit), KEY)])
        rows += zip(*columns, strict=True)
    return AtTheDoor(layout, tuple(rows))


def check_one_more_row(
    without: AtTheDoor, read_with: Callable[[], AtTheDoor], cells: Iterable[Any], *, ordered: bool = True
) -> str:
    """Check the law for a table and the same table with one more row.

    Args:
        without: The table, as it was read.
        read_with: Reads the table with one more row.
        cells: Values of the table and of the row, which no refusal may say.
        ordered: Whether the other rows must keep their order; an engine of many workers keeps none.

    Returns:
        `READ` or `REFUSED`, so that a test can ask that not everything is refused.
    """
    try:
        seen = read_with()
    except (InputError, SettingError) as refusal:
        check_refusal(refusal, cells)
        return REFUSED
    assert seen.layout.equals(without.layout, check_metadata=True), "the layout follows a row"
    assert len(seen.rows) == len(without.rows) + 1, f"one more row in is {len(seen.rows) - len(without.rows)} more"
    more, fewer = Counter(seen.rows) - Counter(without.rows), Counter(without.rows) - Counter(seen.rows)
    assert not fewer, "another row, or its unit tag, has changed"
    assert more.total() == 1
    if ordered:
        here = next((i for i, (a, b) in enumerate(zip(seen.rows, without.rows, strict=False)) if a != b), -1)
        assert here < 0 or seen.rows[here + 1 :] == without.rows[here:], "the other rows have changed their order"
    return READ


def check_refusal(refusal: BaseException, cells: Iterable[Any]) -> None:
    """Check that a refusal is one line that says no cell's value, and that what led to it says none either."""
    assert "\n" not in str(refusal)
    words = " ".join(_texts(refusal))
    for cell in cells:
        text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
        # Shorter ones are in any sentence.
        assert len(text.strip()) < 4 or text.strip() not in words, "a refusal says a cell's value"


def _texts(error: BaseException | None) -> list[str]:
    if error is None:
        return []
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    return [str(error), repr(error), *notes, *_texts(error.__cause__), *_texts(error.__context__)]
