"""CSV and Parquet: what is read, what is refused, and that no refusal shows a value."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import threea
from threea.anonymize.open_table import open_table
from threea.backends import open_backend
from threea.backends.files import CsvBackend, ParquetBackend
from threea.budget import Budget
from threea.describe.propose_schema import propose_schema
from threea.errors import InputError
from threea.table.dialect import MISSING_TEXT, Dialect
from threea.table.layout import is_declared

CANARY = "canary7391"
OUT = 50


def csv(folder: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def types_of(path: Path) -> dict[str, pa.DataType]:
    layout = open_backend(path)[0].layout
    return dict(zip(layout.names, layout.types, strict=True))


def refusal(path: Path) -> str:
    """Open and read the file to its end; return the one line with which it is refused."""
    with pytest.raises(InputError) as caught:
        for _ in open_backend(path)[0].batches(open_backend(path)[0].layout.names):
            pass
    chain: list[BaseException | None] = [caught.value]
    while chain[-1] is not None:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    assert all(CANARY not in str(error) for error in chain)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def test_csv_declares_no_type_and_none_is_read_off_the_rows(tmp_path: Path) -> None:
    backend, _ = open_backend(csv(tmp_path, "x,y,z\n1,true,\n2,false,NA\n"))
    assert not any(is_declared(field) for field in backend.layout)
    assert backend.table().to_pydict() == {"x": ["1", "2"], "y": ["true", "false"], "z": [None, None]}


def test_csv_is_not_read_to_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = csv(tmp_path, "x,y\n1,2\n")
    monkeypatch.setattr(CsvBackend, "batches", None)
    assert open_backend(path)[0].layout.names == ["x", "y"]


def test_how_a_row_is_read_depends_on_no_other(tmp_path: Path) -> None:
    plain = "x,y\n" + "1,2\n3,4.5\n2020-01-01,true\n" * 10
    read = open_backend(csv(tmp_path, plain))[0].table()
    odd = open_backend(csv(tmp_path, plain + f"{CANARY},\n", "odd.csv"))[0].table()
    assert odd.schema == read.schema
    assert odd.slice(0, read.num_rows).to_pydict() == read.to_pydict()


def test_csv_of_many_blocks_is_read_to_its_end(tmp_path: Path) -> None:
    rows = 2_000_000
    path = csv(tmp_path, "x,y\n" + "1,2\n" * rows + f"{CANARY},3\n")
    assert path.stat().st_size < 1 << 23
    longer = csv(tmp_path, path.read_bytes() + b"4,5\n" * rows, "longer.csv")
    backend, _ = open_backend(longer)
    assert sum(batch.num_rows for batch in backend.batches(["y"])) == 2 * rows + 1


@pytest.mark.parametrize("missing", MISSING_TEXT)
def test_csv_texts_for_missing(tmp_path: Path, missing: str) -> None:
    table = open_backend(csv(tmp_path, f'x,y\n1,a\n{missing},b\n"{missing}",c\n'))[0].table()
    assert table["x"].to_pylist() == ["1", None, None]


def test_csv_quotes_commas_and_newlines(tmp_path: Path) -> None:
    path = csv(tmp_path, 'x,"a, ""b""\nc"\n"1, 2","say ""yes""\nor no"\n3,plain\n')
    assert open_backend(path, Dialect(multiline=True))[0].table().to_pydict() == {
        "x": ["1, 2", "3"],
        'a, "b"\nc': ['say "yes"\nor no', "plain"],
    }
    assert "its header line has a quote that is not closed" in refusal(path)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_csv_line_endings(tmp_path: Path, ending: str) -> None:
    path = csv(tmp_path, ending.join(["x,y", "1,a", "2,b"]))
    assert open_backend(path)[0].table().to_pydict() == {"x": ["1", "2"], "y": ["a", "b"]}


def test_csv_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert list(types_of(csv(tmp_path, b"\xef\xbb\xbfx,y\n1,a\n"))) == ["x", "y"]


@pytest.mark.parametrize("start", [b"\n\r\n", b"\xef\xbb\xbf\n", b"\xef\xbb\xbf\xef\xbb\xbf", b"\n\xef\xbb\xbf"])
def test_csv_begins_with_its_header_line(tmp_path: Path, start: bytes) -> None:
    assert open_backend(csv(tmp_path, start + b"x,y\n1,a\n"))[0].table().to_pydict() == {"x": ["1"], "y": ["a"]}


def test_csv_names_and_values_beyond_ascii(tmp_path: Path) -> None:
    table = open_backend(csv(tmp_path, "größe,名\n1,č\n"))[0].table()
    assert table.to_pydict() == {"größe": ["1"], "名": ["č"]}


def test_csv_compressed(tmp_path: Path) -> None:
    path = csv(tmp_path, gzip.compress(b"x,y\n1,a\n"), "rows.csv.gz")
    assert open_backend(path)[0].table().to_pydict() == {"x": ["1"], "y": ["a"]}


def test_csv_reads_the_asked_columns_only_in_the_asked_order(tmp_path: Path) -> None:
    backend, _ = open_backend(csv(tmp_path, "x,y,z\n1,a,2\n"))
    assert [batch.schema.names for batch in backend.batches(["z", "x"])] == [["z", "x"]]


def test_csv_of_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    path = csv(tmp_path, "x,y\n")
    assert list(types_of(path)) == ["x", "y"]
    with pytest.raises(InputError, match=r"^the table has no rows; there is nothing to learn from$"):
        threea.synthesize(path, target="y", epsilon=1.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"x,y\n1,a\n{CANARY},b,c\n", "a row has more or fewer values than the header; mend the file"),
        (f"x,y\n1,a\n{CANARY}\n", "a row has more or fewer values than the header; mend the file"),
        (
            f"x,y\n{CANARY},caf\xe9\n".encode("latin-1"),
            "its text is not UTF-8; if it comes from Excel, try --encoding",
        ),
        (
            f"x,caf\xe9\n{CANARY},1\n".encode("latin-1"),
            "its text is not UTF-8; if it comes from Excel, try --encoding",
        ),
        (f"x,y\n{CANARY},1\n".encode("utf-16-le"), "its text is not UTF-8"),
        (b"\n\n", "cannot be read as CSV"),
        (f"x,x\n{CANARY},1\n", r"columns (x) appear more than once; rename them"),
        (f"x,,\n{CANARY},1,2\n", "look like values; does it lack a header line?"),
        (f"x\n{CANARY}\n", "the table has 1 column; at least 2 are needed"),
        (b"", "is empty; give a CSV, Parquet or Excel file with rows"),
        (f"{CANARY}|1\n2|3\n", "the table has 1 column; at least 2 are needed, a feature and a target; if commas"),
    ],
)
def test_csv_refusals(tmp_path: Path, content: str | bytes, message: str) -> None:
    assert message in refusal(csv(tmp_path, content))


@pytest.mark.parametrize("seed", range(20))
def test_garbage_is_refused_or_read_but_never_crashes(tmp_path: Path, seed: int) -> None:
    import random

    content = random.Random(seed).randbytes(20_000)
    for name in ("garbage.csv", "garbage.parquet", "garbage.csv.gz"):
        assert "cannot be read as" in refusal(csv(tmp_path, content, name))


def test_csv_that_is_not_compressed_as_its_name_says(tmp_path: Path) -> None:
    assert "cannot be read as CSV" in refusal(csv(tmp_path, f"x,y\n{CANARY},1\n", "rows.csv.gz"))


def test_csv_cut_short_while_compressed(tmp_path: Path) -> None:
    whole = gzip.compress(b"x,y\n" + b"".join(f"{row},{row * row}\n".encode() for row in range(100_000)))
    assert "cannot be read as CSV" in refusal(csv(tmp_path, whole[: len(whole) // 2], "rows.csv.gz"))


def test_csv_row_broken_late_in_the_file(tmp_path: Path) -> None:
    content = "x,y\n" + "1,2\n" * 3_000_000 + f"{CANARY}\n"
    assert "a row has more or fewer values" in refusal(csv(tmp_path, content))


def rows(start: int = 0, count: int = 100) -> pa.Table:
    return pa.table({"x": list(range(start, start + count)), "y": [f"w{row % 3}" for row in range(count)]})


def test_parquet_file_and_folder_hold_the_same_rows(tmp_path: Path) -> None:
    pq.write_table(rows(), tmp_path / "all.parquet")
    folder = tmp_path / "parts"
    (folder / "deeper").mkdir(parents=True)
    pq.write_table(rows(0, 60), folder / "a.parquet")
    pq.write_table(rows(60, 40), folder / "deeper" / "b.parquet")
    (folder / "_SUCCESS").touch()
    whole, parts = open_backend(tmp_path / "all.parquet")[0], open_backend(folder)[0]
    assert parts.layout.equals(whole.layout)
    assert sorted(parts.table()["x"].to_pylist()) == whole.table()["x"].to_pylist()


def test_parquet_reads_in_bounded_batches(tmp_path: Path) -> None:
    pq.write_table(rows(count=200_000), tmp_path / "rows.parquet")
    sizes = [batch.num_rows for batch in open_backend(tmp_path / "rows.parquet")[0].batches(["x"])]
    assert max(sizes) <= 1 << 16
    assert sum(sizes) == 200_000


def test_parquet_cut_short(tmp_path: Path) -> None:
    table = pa.table({"x": [CANARY] * 1000, "y": list(range(1000))})
    pq.write_table(table, tmp_path / "rows.parquet", compression="none", use_dictionary=False)
    content = (tmp_path / "rows.parquet").read_bytes()
    assert CANARY.encode() in content
    for length in (1, 7, 100, len(content) // 2, len(content) - 1):
        assert "cannot be read as Parquet" in refusal(csv(tmp_path, content[:length], "cut.parquet"))


def test_parquet_damaged_in_the_middle(tmp_path: Path) -> None:
    table = pa.table({"x": [CANARY] * 1000, "y": list(range(1000))})
    pq.write_table(table, tmp_path / "rows.parquet", compression="zstd", use_dictionary=False)
    content = bytearray((tmp_path / "rows.parquet").read_bytes())
    content[4:400] = b"\xff" * 396
    assert "cannot be read as Parquet" in refusal(csv(tmp_path, bytes(content), "damaged.parquet"))


def test_parquet_text_that_is_not_utf8(tmp_path: Path) -> None:
    broken = CANARY[:-1].encode() + b"\xff"
    table = pa.table({"x": pa.array([CANARY, CANARY]), "y": [1, 2]})
    pq.write_table(table, tmp_path / "rows.parquet", compression="none", use_dictionary=False, write_statistics=False)
    content = (tmp_path / "rows.parquet").read_bytes()
    assert content.count(CANARY.encode()) == 2
    damaged = csv(tmp_path, content.replace(CANARY.encode(), broken, 1), "damaged.parquet")
    assert "its text is not UTF-8; if it comes from Excel, try --encoding" in refusal(damaged)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (pa.table({"x": [1]}), "column y is in one file and not in another"),
        (pa.table({"x": [1], "y": ["u"], "z": [1]}), "column z is in one file and not in another"),
        (pa.table({"x": [CANARY], "y": ["u"]}), "column x has type int64 in one file and string in another"),
        (pa.table({"y": ["u"], "x": [1]}), "the columns of one file are in another order than those of another"),
        (
            pa.table({"x": [1], "y": ["u"]}, schema=pa.schema([pa.field("x", pa.int64(), False), ("y", pa.string())])),
            "column x may be missing by one file's schema, and not by another's",
        ),
    ],
    ids=["a column less", "a column more", "another type", "another order", "not nullable"],
)
def test_parquet_folder_of_different_tables(tmp_path: Path, other: pa.Table, difference: str) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(rows(), folder / "a.parquet")
    pq.write_table(other, folder / "b.parquet")
    assert refusal(folder) == f"{folder}: {difference}; write all files alike"


def test_a_folder_that_is_partitioned_is_refused_without_its_values(tmp_path: Path) -> None:
    """The values in the names of its folders would not be read, and nobody would be told."""
    (tmp_path / "parts" / f"ward={CANARY}").mkdir(parents=True)
    pq.write_table(rows(), tmp_path / "parts" / f"ward={CANARY}" / "a.parquet")
    said = refusal(tmp_path / "parts")
    assert "is partitioned: names of folders hold the values of ward, and are not read" in said
    assert CANARY not in said


@pytest.mark.parametrize("width", [pa.int8(), pa.int16()])
def test_files_may_number_a_dictionary_in_bits_of_their_own(tmp_path: Path, width: pa.DataType) -> None:
    words = [f"w{number}" for number in range(300)]
    for name, some, kind in (("a", words[:100], width), ("b", words, pa.int16()), ("c", words[100:200], pa.int8())):
        coded = pa.array(some).dictionary_encode()
        column = pa.DictionaryArray.from_arrays(coded.indices.cast(kind), coded.dictionary)
        pq.write_table(pa.table({"x": column, "y": some}), tmp_path / f"{name}.parquet", row_group_size=60)
    backend, _ = open_backend(tmp_path)
    assert isinstance(backend, ParquetBackend)
    assert backend.layout.field("x").type == pa.dictionary(pa.int32(), pa.string())
    assert (
        backend.table()["x"].to_pylist() == backend.table()["y"].to_pylist() == [*words[:100], *words, *words[100:200]]
    )
    batches = [batch for part in backend.parts(2) for batch in part.batches(["x", "y"])]
    assert {batch.schema.field("x").type for batch in batches} == {backend.layout.field("x").type}
    assert sum(batch.num_rows for batch in batches) == 500


def test_parquet_folder_with_another_kind_of_file(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(rows(), folder / "a.parquet")
    csv(folder, f"x,y\n{CANARY},u\n", "b.csv")
    assert "cannot be read as Parquet" in refusal(folder)


def test_parquet_folder_without_files(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    assert refusal(folder).endswith("holds no Parquet file; name a file or a folder of them")


def test_parquet_without_rows(tmp_path: Path) -> None:
    pq.write_table(rows(count=0), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="the table has no rows"):
        threea.synthesize(tmp_path / "rows.parquet", target="y", epsilon=1.0)


def test_no_such_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "rows.csv").endswith("no such file; check the path")


MIXED = "i,r,b,d,t,c,n\n" + "".join(
    f"{row % 5},{row / 4},{'true' if row % 2 else 'false'},2020-01-{row % 28 + 1:02},2020-01-01 {row % 24:02}:00:00,"
    f"{'' if row % 7 == 3 else 'uvw'[row % 3]},\n"
    for row in range(400)
)
MIXED_TYPES = [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.string(), pa.string()]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("source", ["csv", "parquet", "folder"])
def test_files_come_out_with_the_types_they_went_in_with(tmp_path: Path, source: str, form: str) -> None:
    path: Any = csv(tmp_path, MIXED)
    if source != "csv":
        read = open_backend(path)[0].table()
        typed = [read[name].cast(kind) for name, kind in zip(read.column_names, MIXED_TYPES, strict=True)]
        path = tmp_path / "parts"
        path.mkdir()
        pq.write_table(pa.table(typed, names=read.column_names), path / "rows.parquet")
        path = path if source == "folder" else path / "rows.parquet"
    release = threea.synthesize(path, schema=propose_schema(path, "b")[0].confirm(), epsilon=1e4, rows=OUT, seed=2)
    assert release.layout.types == MIXED_TYPES
    release.save(tmp_path / "out", form)
    written = open_backend(tmp_path / "out" / f"synthetic.{form}")[0].table()
    assert written.schema.names == list("irbdtcn")
    assert form == "csv" or written.schema.types == MIXED_TYPES
    assert written.num_rows == OUT
    assert [name for name in written.schema.names if written[name].null_count] == ["c", "n"]


def test_an_odd_value_does_not_change_a_released_type_when_the_schema_is_given(tmp_path: Path) -> None:
    schema = propose_schema(csv(tmp_path, MIXED), "b")[0].confirm()
    plain = threea.synthesize(tmp_path / "rows.csv", schema=schema, epsilon=1.0, rows=5).layout
    odd = csv(tmp_path, MIXED + "unknown,?,maybe,someday,never,u,x\n")
    assert threea.synthesize(odd, schema=schema, epsilon=1.0, rows=5).layout == plain
    exposed = open_table(odd, schema=schema, budget=Budget(1.0), accept_unproven=True).expose("a test")
    assert exposed.count == 401
