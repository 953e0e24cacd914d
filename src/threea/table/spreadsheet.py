"""Cells that no spreadsheet runs: text that begins like a formula gets an apostrophe before it."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from threea.table.layout import is_text, plain
from threea.table.schema import Kind, Schema

_BEGINS_LIKE_A_FORMULA = r"^[=+\-@\t\r]"
_MADE_INERT = r"^'([=+\-@\t\r])"
_NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?%?")
"""Nothing is run where a cell holds a number, whatever it begins with."""
_TEXT = (Kind.CATEGORICAL, Kind.ORDINAL, Kind.ID)
"""Kinds whose values are text; a negative number is none."""


def formula_columns(schema: Schema, layout: pa.Schema) -> tuple[str, ...]:
    """Return the text columns of whose listed values a spreadsheet would run one. Post-processing: no row is read.

    Example:
        >>> schema = Schema.of({"note": {"kind": "categorical", "categories": ["=1+1", "a-b"]}})
        >>> formula_columns(schema, pa.schema({"note": pa.string()}))
        ('note',)
    """
    listed = ((c, layout.field(c.name).type) for c in schema.columns if c.kind in _TEXT and c.name in layout.names)
    return tuple(c.name for c, kind in listed if is_text(plain(kind)) and any(map(_is_run, c.categories)))


def _is_run(text: str) -> bool:
    return bool(re.match(_BEGINS_LIKE_A_FORMULA, text)) and not _NUMBER.fullmatch(text)


def inert(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return the rows with an apostrophe before every text cell that begins with =, +, -, @, tab or carriage return.

    Example:
        >>> schema = Schema.of({"note": {"kind": "categorical", "open_ended": True}})
        >>> inert(pa.record_batch({"note": ["=1+1", "a-b"]}), schema).column("note").to_pylist()
        ["'=1+1", 'a-b']
    """
    for position, field in enumerate(batch.schema):
        values = batch.column(position)
        if pa.types.is_dictionary(field.type):
            values = values.cast(field.type.value_type)
        if schema[field.name].kind in _TEXT and is_text(values.type):
            batch = batch.set_column(position, field.name, _inert(values.cast(pa.string())))
    return batch


def as_drawn(table: pa.Table) -> pa.Table:
    """Return rows that were made inert as they were before.

    Example:
        >>> as_drawn(pa.table({"note": ["'=1+1", "'quoted'"]})).column("note").to_pylist()
        ['=1+1', "'quoted'"]
    """
    for position, field in enumerate(table.schema):
        if is_text(field.type):
            plain = pc.replace_substring_regex(table.column(position), _MADE_INERT, r"\1")
            table = table.set_column(position, field.name, plain)
    return table


def _inert(values: pa.Array) -> pa.Array:
    escaped = pc.binary_join_element_wise("'", values, "")
    return pc.if_else(pc.match_substring_regex(values, _BEGINS_LIKE_A_FORMULA), escaped, values)
