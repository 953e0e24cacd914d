"""Rules that real rows break: the owner's to know, for every synthetic row keeps them."""

from __future__ import annotations

import pyarrow as pa

from threea.table import codec
from threea.table.schema import Schema


def broken_rules(table: pa.Table, schema: Schema) -> list[str]:
    """Return a sentence for each rule that some rows of a real table break.

    Args:
        table: Real rows.
        schema: With the rules.
    """
    if not schema.rules:
        return []
    chunk, columns = codec.encode(table, schema), {column.name: column for column in schema.valued}
    said = []
    for rule, (text, _) in zip(schema.rules, schema.kept_rules, strict=True):
        broken = int(rule.broken(chunk, columns).sum())
        if broken:
            share = f"{broken:,} of {table.num_rows:,} training rows ({broken / table.num_rows:.1%})"
            said.append(f"{share} break the rule {text}, which every synthetic row keeps: is it true of the table?")
    return said
