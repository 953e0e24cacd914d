"""The readers' law on Dask: one more row in a DataFrame is one more row at the door, or a refusal.

pandas types each partition of a Dask DataFrame by itself, from the values in it. So what is checked is above all that
a row does not change how its partition's other rows are read.
"""

from __future__ import annotations

import datetime
import io
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from reader_law import KEY, READ, REFUSED, AtTheDoor, check_one_more_row, check_refusal

import threea
from threea import hospital
from threea.anonymize.open_table import open_table
from threea.backends import open_engine
from threea.backends.partitions import Declared
from threea.backends.source import _open_pandas, _pandas_array
from threea.backends.unit_tags import unit_tags
from threea.budget import Budget
from threea.errors import InputError
from threea.ledger import Ledger

pd = pytest.importorskip("pandas", reason="needs pandas")
dd = pytest.importorskip("dask.dataframe", reason="needs dask.dataframe")


@pytest.fixture(scope="module")
def client() -> Any:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.Client(**options, set_as_default=False) as client:
        yield client


@dataclass(frozen=True)
class Shown:
    """What a worker sees of a part: the columns' types, and each row's values with its unit tag."""

    unit: str | None

    def __call__(self, part: int, batches: Iterable[pa.RecordBatch]) -> Any:
        types, rows = [], []
        for batch in batches:
            batch.validate(full=True)
            types.append([str(field.type) for field in batch.schema])
            columns = [[repr(value) for value in column.to_pylist()] for column in batch.columns]
            if self.unit is not None:
                columns.append([tag.tobytes().hex() for tag in unit_tags(batch.column(self.unit), KEY)])
            rows += list(zip(*columns, strict=True))
        return types, rows


def at_the_workers(data: Any, client: Any, unit: str | None = None) -> AtTheDoor:
    """Read a Dask DataFrame as its workers do."""
    backend, _ = open_engine(data, cluster=client)
    rows = []
    for types, part in backend._pass(Shown(unit), tuple(backend.layout.names)):
        assert all(seen == [str(field.type) for field in backend.layout] for seen in types), "a batch has other types"
        rows += part
    return AtTheDoor(backend.layout, tuple(rows))


def csv_frame(folder: Path, *parts: str) -> Any:
    """Return a Dask DataFrame of CSV files that pandas reads one by one, with the types of the first."""
    paths = []
    for number, text in enumerate(parts):
        paths.append(folder / f"{number}.csv")
        paths[-1].write_text(text)
    meta = pd.DataFrame({"id": pd.Series(dtype="int64"), "x": pd.Series(dtype="float64")})
    return dd.from_map(pd.read_csv, paths, meta=meta)


def test_a_word_among_numbers_of_one_csv_file_changes_no_other_row(client: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = "id,x\n1,0.5\n2,3\n", "id,x\n3,1\n4,2\n"
    without = at_the_workers(csv_frame(tmp_path / "a", first, second), client, "id")
    assert [row[1] for row in sorted(without.rows)] == ["0.5", "3.0", "1.0", "2.0"], "whole numbers are numbers"
    with_word = csv_frame(tmp_path / "b", first, second + "5,zzzz\n")
    end = check_one_more_row(without, lambda: at_the_workers(with_word, client, "id"), ["zzzz"], ordered=False)
    assert end == REFUSED


def long_ids(folder: Path, *last: int | None, **how: str) -> Any:
    """Return a Dask DataFrame of Parquet with ids of 17 digits, of which pandas makes floats where one is missing."""
    folder.mkdir()
    ids = [10**16 + 1, 10**16 + 2]
    pq.write_table(pa.table({"id": pa.array(ids), "x": [1.0, 2.0]}), folder / "0.parquet")
    later = pa.table({"id": pa.array([*ids, *last], pa.int64()), "x": [float(n) for n in range(2 + len(last))]})
    pq.write_table(later, folder / "1.parquet")
    return dd.read_parquet(folder, **how)


def test_a_row_without_an_id_changes_nobody_s_unit_tag(client: Any, tmp_path: Path) -> None:
    without = at_the_workers(long_ids(tmp_path / "a"), client, "id")
    assert len({row[-1] for row in without.rows}) == 2, "a person in two files is one person"
    with_none = long_ids(tmp_path / "b", None)
    end = check_one_more_row(without, lambda: at_the_workers(with_none, client, "id"), [10**16 + 1], ordered=False)
    assert end == REFUSED


def test_ids_of_a_dtype_that_has_room_for_missing_ones_are_read(client: Any, tmp_path: Path) -> None:
    """The remedy that the refusal names."""
    without = at_the_workers(long_ids(tmp_path / "a", dtype_backend="pyarrow"), client, "id")
    with_none = long_ids(tmp_path / "b", None, dtype_backend="pyarrow")
    cells = [10**16 + 1]
    assert check_one_more_row(without, lambda: at_the_workers(with_none, client, "id"), cells, ordered=False) == READ


def test_a_person_in_two_files_has_one_bound(client: Any, tmp_path: Path) -> None:
    """One row without an id made its file's ids floats, so that whoever is in both files counted twice."""
    with_none, _ = open_engine(long_ids(tmp_path / "b", None), cluster=client)
    said = "^column id is of dtype int64 in the Dask DataFrame, and a partition of dtype float64 does not fit it exact"
    with pytest.raises(InputError, match=said) as refusal:
        with_none.bounded("id", 1, KEY)
    check_refusal(refusal.value, [10**16 + 1])


NUMBERS = ("int64", "Int64", "float64", "int32", "uint64")
DTYPES = (*NUMBERS, "str", "object", "bool", "boolean", "category", "datetime64[us]")
USUAL = {
    "int": ("1", "2", "03", "-0", "12345678901234567"),
    "float": ("0.5", "1", "1.0", "-0", "2e3"),
    "word": ("a", "b", "01", "1.0", "NA x"),
    "truth": ("True", "False"),
    "moment": ("2020-01-01", "2021-12-31"),
    "none": ("",),
}
FITTING = {
    "int": ("int64", "Int64", "float64", "int32"),
    "float": ("float64",),
    "word": ("str", "object", "category"),
    "truth": ("bool", "boolean"),
    "moment": ("datetime64[us]", "str", "object"),
    "none": DTYPES,
}
LONG = ("9007199254740993", "18446744073709551615")
ODD = ("zzzz", "", "NA", "0.5", "1e400", "inf", "True", *LONG, "2020-01-01", " 7", "٣")
"""Cells that make pandas give a column another type."""


@st.composite
def csv_parts(draw: Any) -> tuple[str, list[list[str]], int, str]:
    """A dtype, the cells of a column in two files, and a cell more in one of them."""
    kind = draw(st.sampled_from(sorted(USUAL)))
    usual = st.sampled_from(USUAL[kind])
    parts = draw(st.lists(st.lists(usual, min_size=1, max_size=4), min_size=2, max_size=2))
    # Mostly one that fits.
    dtype = draw(st.sampled_from(FITTING[kind]) | st.sampled_from(FITTING[kind]) | st.sampled_from(DTYPES))
    return dtype, parts, draw(st.integers(0, 1)), draw(st.sampled_from(ODD) | usual)


def read_parts(dtype: str, parts: list[list[str]], low_memory: bool = True) -> AtTheDoor:
    """Read CSV files as partitions of a Dask DataFrame of this dtype, without a cluster."""
    meta = pd.DataFrame({"value": pd.Series(dtype=dtype), "row": pd.Series(dtype="int64")})
    read = Declared(meta, _open_pandas(meta)[0].layout, _pandas_array)
    rows: list[tuple[str, ...]] = []
    for cells in parts:
        text = "value,row\n" + "".join(f'"{cell}",{number}\n' for number, cell in enumerate(cells))
        dates = ["value"] if dtype.startswith("datetime") else None
        with warnings.catch_warnings():
            # Of pandas, on columns that look like dates and are none.
            warnings.simplefilter("ignore")
            part = read(pd.read_csv(io.StringIO(text), parse_dates=dates), ["value"])
        part.validate(full=True)
        assert part.schema.field("value").equals(read.layout.field("value"))
        column = part.column("value").combine_chunks()
        # Python's own moments do not reach as far.
        plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        tags = [tag.tobytes().hex() for tag in unit_tags(plain, KEY)]
        rows += [(repr(value), tag) for value, tag in zip(plain.to_pylist(), tags, strict=True)]
    return AtTheDoor(read.layout, tuple(rows))


@settings(max_examples=600)
@example(("int64", [["1", "2"], ["12345678901234567"]], 1, ""))
@example(("float64", [["0.5"], ["1", "2"]], 1, "zzzz"))
@example(("object", [["a"], ["01", "02"]], 1, "zzzz"))
@example(("str", [["a"], ["01", "1.0"]], 1, "zzzz"))
@example(("object", [["a"], ["1", "2"]], 1, "0.5"))
@example(("category", [["a", "b"], ["1", "2"]], 1, "zzzz"))
@given(csv_parts())
def test_a_cell_more_in_a_csv_file_changes_how_no_other_is_read(table: tuple[str, list[list[str]], int, str]) -> None:
    """Whatever pandas makes of a file's column for the sake of one cell."""
    dtype, parts, where, cell = table
    try:
        without = read_parts(dtype, parts)
    except InputError as refusal:
        event("refused without the row")
        check_refusal(refusal, [*parts[0], *parts[1]])
        return
    more = [[*cells, cell] if number == where else cells for number, cells in enumerate(parts)]
    event(check_one_more_row(without, lambda: read_parts(dtype, more), [*parts[0], *parts[1], cell], ordered=False))


@pytest.mark.parametrize(
    ("dtype", "parts", "read"),
    [
        ("float64", [["0.5", ""], ["1", "2"]], ["0.5", "None", "1.0", "2.0"]),
        ("str", [["a", "b"], ["", ""]], ["'a'", "'b'", "None", "None"]),
        ("object", [["a", ""], ["b", "c"]], ["'a'", "None", "'b'", "'c'"]),
        ("category", [["a", "b"], ["c", ""]], ["'a'", "'b'", "'c'", "None"]),
        ("Int64", [["1", "2"], ["", ""]], ["1", "2", "None", "None"]),
        ("boolean", [["True"], ["False", ""]], ["True", "False", "None"]),
        ("int32", [["1"], ["2"]], ["1", "2"]),
        ("float32", [["1", "-0"], ["", ""]], ["1.0", "0.0", "None", "None"]),
        ("float16", [["1"], ["2"]], ["1.0", "2.0"]),
    ],
)
def test_what_fits_a_partition_exactly_is_read(dtype: str, parts: list[list[str]], read: list[str]) -> None:
    assert [value for value, _ in read_parts(dtype, parts).rows] == read


def test_objects_of_one_kind_are_text_each_by_itself_and_mixed_ones_are_refused() -> None:
    """A reader that reads a file in pieces mixes numbers with texts, and `01` is 1 in one piece and 01 in another."""
    meta = pd.DataFrame({"value": pd.Series(dtype=object)})
    read = Declared(meta, _open_pandas(meta)[0].layout, _pandas_array)

    def texts(*values: Any) -> list[str | None]:
        return read(pd.DataFrame({"value": pd.Series(values, dtype=object)}), ["value"])["value"].to_pylist()

    assert texts(1, None, 2) == ["1", None, "2"]
    assert texts("01", float("nan"), "x") == ["01", None, "x"]
    assert texts(datetime.date(2020, 1, 2), None) == ["2020-01-02", None]
    for mixed in ((1, "01"), (1, 0.5), (True, 1), (datetime.date(2020, 1, 2), "zzzz"), (b"zzzz",), ([1],)):
        with pytest.raises(InputError, match=r"^column value is of dtype object in the Dask DataFrame") as refusal:
            texts(*mixed)
        check_refusal(refusal.value, ["zzzz"])


def test_a_partition_of_other_columns_is_refused() -> None:
    meta = pd.DataFrame({"value": pd.Series(dtype="int64"), "row": pd.Series(dtype="int64")})
    read = Declared(meta, _open_pandas(meta)[0].layout, _pandas_array)
    with pytest.raises(InputError, match=r"^a partition of the Dask DataFrame has other columns than the frame;"):
        read(pd.DataFrame({"row": [1], "value": [2]}), ["value"])


def test_a_dask_frame_is_released_by_one_call(client: Any) -> None:
    """Its size, which the receipt asked for, is not known before its rows are read."""
    frame = dd.from_pandas(hospital.stays(300).to_pandas(), npartitions=2)
    options = {"schema": hospital.schema(), "epsilon": 1.0, "recipe": "independent", "rows": 50}
    release = threea.synthesize(frame, unit="patient_id", max_rows_per_unit=2, cluster=client, **options)
    assert (release.guarantee, release.rows, type(release.frame)) == ("proven", 50, pd.DataFrame)


def test_a_partition_that_does_not_fit_costs_nothing(client: Any, tmp_path: Path) -> None:
    """Nor does a unit of floats; a column that no query asks for is looked at, too."""
    word = csv_frame(tmp_path, "id,x\n1,0.5\n", "id,x\n2,zzzz\n")
    ledger = Ledger()
    options = {"budget": Budget(1.0), "ledger": ledger, "cluster": client, "target": "id"}
    with pytest.raises(InputError, match=r"^column x is of dtype float64 in the Dask DataFrame, and a partition of"):
        open_table(word, **options)
    floats = dd.from_pandas(pd.DataFrame({"id": [1, 2], "person": [1.0, 2.0]}), npartitions=1)
    with pytest.raises(InputError, match=r"^unit \(person\) has type double"):
        open_table(floats, unit="person", **options)
    assert not list(ledger.releases())


def test_a_row_more_in_a_pandas_frame_or_a_delayed_one_is_a_row_more(client: Any) -> None:
    import dask

    frame = pd.DataFrame({"id": ["a", "b", "a", None], "x": [1, 2, 3, 4], "word": ["u", None, "w", "x"]})
    more = pd.concat([frame, pd.DataFrame({"id": ["b"], "x": [7], "word": ["seven"]})])
    for read in (
        lambda rows: dd.from_pandas(rows, npartitions=2, sort=False),
        lambda rows: dd.from_delayed([dask.delayed(rows[:2]), dask.delayed(rows[2:])], meta=rows[:0]),
    ):
        without = at_the_workers(read(frame), client, "id")

        def with_row(read: Any = read) -> AtTheDoor:
            return at_the_workers(read(more), client, "id")

        assert check_one_more_row(without, with_row, ["seven"], ordered=False) == READ


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_a_folder_whose_files_differ_in_type_is_refused_unread(engine: str, tmp_path: Path) -> None:
    """By their footers, and before a worker is started."""
    for number, kind in enumerate((pa.int64(), pa.float64())):
        pq.write_table(pa.table({"id": pa.array([1, 2], kind), "x": [1, 2]}), tmp_path / f"{number}.parquet")
    with pytest.raises(InputError, match="column id has type int64 in one file and double in another; write all"):
        open_engine(tmp_path, engine=engine)
