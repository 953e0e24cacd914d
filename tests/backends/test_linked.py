"""Two views of a parent table and a child table: what a unit has in them is that unit's own affair."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.backends.files import ParquetBackend
from threea.backends.linked import linked
from threea.backends.memory import MemoryBackend
from threea.backends.units import UnitBackend
from threea.table.linked_columns import COUNT, PARENT

KEY = b"k" * 32
MOST, READ = 3, 2
LAW = settings(max_examples=30, deadline=None)
ABOVE = pa.schema([("person", pa.string()), ("age", pa.int64())])
BELOW = pa.schema([("person", pa.string()), ("ward", pa.string())])
NAMES = st.sampled_from(["ann", "bob", "", "carl", "dora", None])
PARENTS = st.lists(st.fixed_dictionaries({"person": NAMES, "age": st.integers(0, 3)}), max_size=8)
CHILDREN = st.lists(st.fixed_dictionaries({"person": NAMES, "ward": st.sampled_from(["a", "b", None])}), max_size=16)
Rows = list[dict[str, Any]]


def views(parents: Rows, children: Rows) -> tuple[Counter[Any], Counter[Any]]:
    """Return both views as multisets of rows; tables are cut into two chunks."""

    def held(rows: Rows, layout: pa.Schema) -> MemoryBackend:
        table = pa.Table.from_pylist(rows, schema=layout)
        return MemoryBackend(pa.concat_tables([table.slice(0, 3), table.slice(3)]))

    both = linked(
        held(parents, ABOVE), held(children, BELOW), key="person", most=MOST, read=READ, carried=["age"], secret=KEY
    )
    first, second = (Counter(tuple(row.values()) for row in view.table().to_pylist()) for view in both)
    return first, second


def of(person: str | None, rows: Rows) -> Rows:
    return [row for row in rows if row["person"] == person]


def without(person: str | None, rows: Rows) -> Rows:
    return [row for row in rows if row["person"] != person]


@LAW
@given(PARENTS, CHILDREN)
def test_a_unit_has_one_parent_its_clipped_count_and_few_children(parents: Rows, children: Rows) -> None:
    above, below = views(parents, children)
    known = {row["person"] for row in parents} - {None}
    counts = {person: len(of(person, children)) for person in known}
    assert Counter(row[0] for row in above.elements()) == Counter(dict.fromkeys(known, 1))
    assert {row[0]: row[2] for row in above} == {person: min(count, MOST) for person, count in counts.items()}
    kept = Counter(row[0] for row in below.elements())
    assert kept == Counter({person: min(count, READ) for person, count in counts.items() if count})
    # Beside each child stands the row that its parent has in the other view.
    assert {(row[0], *row[2:]) for row in below} <= set(above)


@LAW
@given(PARENTS, CHILDREN)
def test_what_a_unit_has_depends_on_its_own_rows_alone(parents: Rows, children: Rows) -> None:
    together = views(parents, children)
    apart = [views(of(person, parents), of(person, children)) for person in ("ann", "bob", "", "carl", "dora", None)]
    for position in (0, 1):
        assert together[position] == sum((view[position] for view in apart), Counter())


@LAW
@given(PARENTS, CHILDREN, st.sampled_from(["ann", "bob", "", None]))
def test_a_unit_less_takes_its_rows_and_changes_no_other(parents: Rows, children: Rows, person: str | None) -> None:
    """Whatever it is: with many rows, with children only, with a parent's row twice, or rows without a key."""
    before, after = views(parents, children), views(without(person, parents), without(person, children))
    for position, bound in ((0, 1), (1, READ)):
        assert not after[position] - before[position]
        assert (before[position] - after[position]).total() <= bound


@LAW
@given(PARENTS, CHILDREN, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(parents: Rows, children: Rows, random: Any) -> None:
    mixed = random.sample(parents, len(parents)), random.sample(children, len(children))
    assert views(*mixed) == views(parents, children)


def test_columns_are_read_apart_and_in_the_order_asked_for() -> None:
    parents = MemoryBackend(pa.table({"id": [7, 8], "age": [31, 32]}))
    children = MemoryBackend(pa.table({"id": pa.array([8, 9, 8], pa.int32()), "ward": ["a", "b", "c"]}))
    above, below = linked(parents, children, key="id", most=5, read=5, carried=["age"], secret=KEY)
    assert above.layout.names == ["id", "age", COUNT]
    assert below.layout.names == ["id", "ward", f"{PARENT}age", f"{PARENT}{COUNT}"]
    (rows,) = below.batches([f"{PARENT}{COUNT}", "ward", f"{PARENT}age"])
    assert rows.to_pydict() == {f"{PARENT}{COUNT}": [2, 2], "ward": ["a", "c"], f"{PARENT}age": [32, 32]}
    assert [batch.to_pydict() for batch in above.batches([COUNT])] == [{COUNT: [0, 2]}]


def test_files_and_memory_have_the_same_views(tmp_path: Path) -> None:
    """Also where each chunk has a dictionary of its own."""
    chunks = ({"id": ["a", "b"], "ward": ["x", "y"]}, {"id": ["c", "d"], "ward": ["z", "y"]})
    parents = pa.concat_tables(
        pa.table({name: pa.array(values).dictionary_encode() for name, values in chunk.items()}) for chunk in chunks
    )
    children = pa.table({"id": ["d", "c", "a", "a", "a", "nobody"], "nights": [1, 2, 3, 4, 5, 6]})
    files = []
    for name, table in (("parents", parents), ("children", children)):
        pq.write_table(table.unify_dictionaries(), tmp_path / f"{name}.parquet", row_group_size=2)
        files.append(ParquetBackend(tmp_path / f"{name}.parquet"))
    options: dict[str, Any] = {"key": "id", "most": 3, "read": 2, "carried": ["ward"], "secret": KEY}
    in_memory = linked(MemoryBackend(parents), MemoryBackend(children), **options)
    for one, other in zip(linked(*files, **options), in_memory, strict=True):
        assert one.table().to_pylist() == other.table().to_pylist()
        assert one.layout.equals(other.layout)
    assert in_memory[0].table().column(COUNT).to_pylist() == [3, 0, 1, 1]
    assert in_memory[1].table().column(f"{PARENT}ward").to_pylist() == ["y", "z", "x", "x"]


def test_the_laws_catch_a_bound_that_is_not_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    law = test_a_unit_has_one_parent_its_clipped_count_and_few_children.hypothesis.inner_test
    parents, children = [{"person": "ann", "age": 1}], [{"person": "ann", "ward": "a"}] * 5
    law(parents, children)

    def unbounded(self: UnitBackend, backend: Any, unit: str, max_rows: int, key: bytes) -> None:
        init(self, backend, unit, 1000, key)

    init = UnitBackend.__init__
    monkeypatch.setattr(UnitBackend, "__init__", unbounded)
    with pytest.raises(AssertionError):
        law(parents, children)
