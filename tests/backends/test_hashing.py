"""Hashes of rows: of the values, the names and the key, and of nothing else."""

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.backends.hashing import column_hashes, row_hashes
from threea.budget import Budget
from threea.errors import LedgerError
from threea.ledger import Ledger
from threea.table.dialect import MISSING_TEXT

KEY, OTHER_KEY = b"k" * 32, b"o" * 32

COLUMNS: dict[str, pa.Array] = {
    "integers": pa.array([1, None, -3, 0]),
    "unsigned": pa.array([2**63, None, 3, 0], pa.uint64()),
    "floats": pa.array([0.5, None, -3.25, 0.0]),
    "halves": pa.array(np.array([0.5, 1.0, -3.25, 0.0], np.float16)),
    "booleans": pa.array([True, None, False, True]),
    "text": pa.array(["a", None, "", "ab"]),
    "long text": pa.array(["a", None, "", "ab"], pa.large_string()),
    "views": pa.array(["a", None, "", "ab"], pa.string_view()),
    "dictionary": pa.array(["a", None, "", "ab"]).dictionary_encode(),
    "days": pa.array([datetime.date(2020, 1, day + 1) for day in range(4)]),
    "days as date64": pa.array([datetime.date(2020, 1, day + 1) for day in range(4)], pa.date64()),
    "moments": pa.array([0, None, 2, 3], pa.timestamp("us", "UTC")),
    "decimals": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("2.5"), decimal.Decimal("0.0")]),
    "nothing": pa.nulls(4),
}


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_has_a_hash_that_does_not_depend_on_place(name: str) -> None:
    values = COLUMNS[name]
    whole = column_hashes(values, KEY)
    assert whole.dtype == np.uint64
    one_by_one = np.concatenate([column_hashes(values.slice(place, 1), KEY) for place in range(len(values))])
    np.testing.assert_array_equal(whole, one_by_one)
    np.testing.assert_array_equal(whole[1:3], column_hashes(values.slice(1, 2), KEY))


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("nothing", "booleans")])
def test_different_values_have_different_hashes(name: str) -> None:
    assert len(set(column_hashes(COLUMNS[name], KEY).tolist())) == len(COLUMNS[name])


def test_missing_is_neither_nothing_nor_zero() -> None:
    missing = int(column_hashes(pa.nulls(1), KEY)[0])
    assert missing == int(column_hashes(pa.array([None], pa.string()), KEY)[0])
    assert missing != int(column_hashes(pa.array([""]), KEY)[0])
    assert missing != int(column_hashes(pa.array([0]), KEY)[0])


def canonical(values: pa.Array) -> Any:
    return column_hashes(values, KEY, canonical=True)


DAY = datetime.date(2020, 2, 29)
MIDNIGHT = datetime.datetime(2020, 2, 29)
ALIKE: dict[str, list[pa.Array]] = {
    "31": [
        *(pa.array([31], kind) for kind in (pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64())),
        *(pa.array([text]) for text in ("31", "31.0", "+31", "3.1e1")),
        pa.array([decimal.Decimal("31.00")]),
        pa.array([31]).dictionary_encode(),
    ],
    "0.1": [pa.array([0.1]), pa.array([0.1], pa.float32()), pa.array(["0.1"]), pa.array([decimal.Decimal("0.10")])],
    "-3e-20": [pa.array([-3e-20]), pa.array([-3e-20], pa.float32()), pa.array(["-3e-20"])],
    "zero": [pa.array([0]), pa.array([-0.0]), pa.array(["-0.0"]), pa.array([False]), pa.array(["FALSE"])],
    "beyond a float": [pa.array([2**53 + 1]), pa.array([str(2**53 + 1)]), pa.array([2**53 + 1], pa.uint64())],
    "a nanosecond": [pa.array([1], pa.timestamp("ns")), pa.array(["1970-01-01 00:00:00.000000001"])],
    "beyond 2**63": [pa.array([2**63], pa.uint64()), pa.array([2.0**63]), pa.array([str(2**63)])],
    "beyond 2**64": [pa.array([1e30]), pa.array([str(10**30)]), pa.array(["1e30"])],
    "2**62": [pa.array([2**62]), pa.array([2.0**62]), pa.array([str(2**62)]), pa.array([2**62], pa.uint64())],
    "infinity": [pa.array([float("inf")]), pa.array(["inf"]), pa.array(["1e400"])],
    "a leap day": [
        *(pa.array([DAY], kind) for kind in (pa.date32(), pa.date64())),
        *(pa.array([MIDNIGHT], pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
        *(pa.array([text]) for text in ("2020-02-29", "2020-02-29 00:00", "2020-02-29T00:00:00.000000000Z")),
        pa.array(["2020-02-29T01:30:00+01:30"]),
    ],
    "before 1970": [
        pa.array([-1_000_001], pa.timestamp("us")),
        pa.array(["1969-12-31 23:59:58.999999"]),
    ],
    "missing": [
        pa.nulls(1),
        pa.array([float("nan")]),
        pa.array([None], pa.int8()),
        *(pa.array([text]) for text in MISSING_TEXT),
    ],
    "a word": [pa.array(["pear"]), pa.array(["pear"]).dictionary_encode(), pa.array(["pear"], pa.string_view())],
}


@pytest.mark.parametrize("name", ALIKE)
def test_how_a_value_is_stored_does_not_matter(name: str) -> None:
    hashes = {int(canonical(values)[0]) for values in ALIKE[name]}
    assert len(hashes) == 1


def test_values_that_are_not_alike_differ() -> None:
    firsts = [int(canonical(values[0])[0]) for values in ALIKE.values()]
    assert len(set(firsts)) == len(firsts)


@pytest.mark.parametrize(
    "text", ["2020-02-30", "2021-02-29", "1900-02-29", "2020-1-1", "12a", "--1", "1.2.3", "trueish"]
)
def test_what_only_looks_like_a_value_is_text(text: str) -> None:
    alone, among = canonical(pa.array([text])), canonical(pa.array(["2020-02-28", text, "1"]))
    assert alone[0] == among[1], "decided by the value alone"
    assert among[1] not in (among[0], among[2])


def test_single_precision_is_read_as_it_is_written() -> None:
    rng = np.random.default_rng(3)
    wide = np.concatenate([rng.normal(size=2000), 10 ** rng.uniform(-40, 38, 2000), 2.0 ** np.arange(-40, 40)])
    values = pa.array(wide.astype(np.float32))
    np.testing.assert_array_equal(canonical(values), canonical(values.cast(pa.string())))


def test_the_same_rows_have_one_fingerprint_as_csv_parquet_and_frames(tmp_path: Path) -> None:
    stays = hospital.stays(300)
    objects = stays.to_pandas().astype(object)
    # As an object, a float of 32 bits would be one of 64.
    objects["creatinine"] = stays.column("creatinine").cast(pa.string()).to_pylist()
    pq.write_table(stays, tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(stays, tmp_path / "rows.csv")
    stays.to_pandas().to_csv(tmp_path / "pandas.csv", index=False)
    sources = [stays, stays.to_pandas(), pl.from_arrow(stays)]
    sources += [objects, *(tmp_path / name for name in ("rows.parquet", "rows.csv", "pandas.csv"))]
    with Ledger() as ledger:
        open_table(sources[0], budget=Budget(1.0), ledger=ledger, dataset="first")
        for source in sources[1:]:
            with pytest.raises(LedgerError, match="first"):
                open_table(source, budget=Budget(1.0), ledger=ledger, dataset="second")


def test_how_text_is_stored_does_not_matter() -> None:
    hashes = [column_hashes(COLUMNS[name], KEY).tolist() for name in ("text", "long text", "views", "dictionary")]
    assert all(found == hashes[0] for found in hashes)


def test_how_wide_a_number_is_stored_does_not_matter() -> None:
    kinds = [pa.int8(), pa.int64(), pa.uint16(), pa.float32(), pa.float64()]
    hashes = [column_hashes(pa.array([1, 2, 100], kind), KEY).tolist() for kind in kinds]
    assert all(found == hashes[0] for found in hashes)


def test_no_rows_have_no_hashes() -> None:
    for values in COLUMNS.values():
        assert len(column_hashes(values.slice(0, 0), KEY)) == 0
    assert len(row_hashes(batch_of(a=pa.array([], pa.string())), KEY)) == 0


def test_names_and_key_matter() -> None:
    plain = row_hashes(batch_of(a=["u", "v"], b=[1, 2]), KEY)
    renamed = row_hashes(batch_of(a=["u", "v"], c=[1, 2]), KEY)
    assert not set(plain.tolist()) & set(renamed.tolist())
    assert not set(plain.tolist()) & set(row_hashes(batch_of(a=["u", "v"], b=[1, 2]), OTHER_KEY).tolist())


def test_swapping_two_columns_values_changes_the_hash() -> None:
    assert row_hashes(batch_of(a=[1], b=[2]), KEY)[0] != row_hashes(batch_of(a=[2], b=[1]), KEY)[0]


def test_the_order_of_columns_does_not_matter() -> None:
    left, right = batch_of(a=["u"], b=[1]), batch_of(b=[1], a=["u"])
    assert row_hashes(left, KEY)[0] == row_hashes(right, KEY)[0]


@given(
    texts=st.lists(st.one_of(st.none(), st.text(max_size=12)), min_size=1, max_size=30),
    cut=st.integers(0, 30),
)
def test_rows_hash_the_same_however_they_are_cut(texts: list[str | None], cut: int) -> None:
    batch = batch_of(a=pa.array(texts, pa.string()), b=list(range(len(texts))))
    cut = min(cut, len(texts))
    parts = [row_hashes(batch.slice(0, cut), KEY), row_hashes(batch.slice(cut), KEY)]
    np.testing.assert_array_equal(np.concatenate(parts), row_hashes(batch, KEY))


@given(st.lists(st.text(max_size=8), min_size=2, max_size=50, unique=True))
def test_different_texts_differ(texts: list[str]) -> None:
    """Two of at most 50 texts share a 64-bit hash by chance in fewer than one of 1e16 lists."""
    assert len(set(column_hashes(pa.array(texts), KEY).tolist())) == len(texts)


def test_many_rows_have_as_many_hashes() -> None:
    """100,000 random 64-bit numbers repeat with probability 3e-10; the rows and the key are fixed besides."""
    numbers = np.arange(100_000)
    batch = batch_of(a=numbers, b=[f"row {number % 317}" for number in numbers])
    assert len(np.unique(row_hashes(batch, KEY))) == len(numbers)


def test_hashes_choose_parts_evenly() -> None:
    """A fixed key and fixed rows; for random ones the largest of 16 deviations exceeds 5 sigma once in 1e5."""
    part = row_hashes(batch_of(a=list(range(160_000))), KEY) % np.uint64(16)
    counts = np.bincount(part.astype(np.int64), minlength=16)
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(10_000 * 15 / 16)
