"""CSV as it is found: separators, encodings, decimal marks and dates; nothing of it decided by a row."""

import codecs
import gzip
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea.anonymize.open_table import open_table
from threea.backends import open_backend
from threea.backends.dialect import Dialect, Header, header, standard
from threea.budget import Budget
from threea.errors import InputError, SettingError
from threea.table.column_names import not_a_column, shown
from threea.table.dialect import dialect_of

CANARY = "canary7391"


def csv(folder: Path, content: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(path: Path, dialect: Dialect | None = None) -> dict[str, list[str | None]]:
    backend = open_backend(path, dialect=dialect)[0]
    return pa.Table.from_batches(list(backend.batches(backend.layout.names))).to_pydict()


def refusal(path: Path, dialect: Dialect | None = None) -> str:
    with pytest.raises(InputError) as caught:
        rows(path, dialect)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert CANARY not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("a,b", ","),
        ("a;b", ";"),
        ("a\tb", "\t"),
        ("a,b;c", ","),
        ('"a,x";b', ";"),
        ('"a;x","b"', ","),
        ("a", ","),
        ("a;b;c\td", ";"),
    ],
)
def test_the_separator_is_found_in_the_header_line(tmp_path: Path, line: str, separator: str) -> None:
    assert header(csv(tmp_path, f"{line}\n1;2,3\t4;;;;\n"), None).dialect.separator == separator


def test_the_separator_of_a_header_line_with_line_breaks(tmp_path: Path) -> None:
    found = header(csv(tmp_path, 'a;"b\nc"\n1;2,3\t4;;;;\n'), Dialect(multiline=True))
    assert (found.names, found.dialect.separator) == (["a", "b\nc"], ";")


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
def test_rows_are_read_with_any_separator(tmp_path: Path, separator: str) -> None:
    path = csv(tmp_path, f'x{separator}y\n1{separator}"a{separator}b"\n')
    assert rows(path, Dialect(separator=separator)) == {"x": ["1"], "y": [f"a{separator}b"]}


def test_rows_decide_nothing(tmp_path: Path) -> None:
    for body in ("1;2\n", "1,2;3\n", "ä;ö\n", "1\t2;3\n", '"";""\n'):
        found = header(csv(tmp_path, f"a;b\n{body}"), None)
        assert found == Header(["a", "b"], Dialect(separator=";", encoding="utf-8"), size=3, ending="\n")
    assert header(csv(tmp_path, b"a;b\n\xff\xfe;2\n"), None) == found


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("cp1252", "cp1252"),
        ("latin-1", "latin-1"),
        ("utf-16-le", "utf-16-le"),
    ],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.tsv"])
def test_encodings(tmp_path: Path, encoding: str, said: str | None, name: str) -> None:
    content = "größe;y\nä;é\n".encode(encoding)
    path = csv(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
    assert rows(path, Dialect(encoding=said)) == {"größe": ["ä"], "y": ["é"]}


def test_a_mark_beside_an_encoding_that_was_said(tmp_path: Path) -> None:
    for encoding, mark in (("utf-16-le", codecs.BOM_UTF16_LE), ("utf-8", codecs.BOM_UTF8), ("UTF8", codecs.BOM_UTF8)):
        path = csv(tmp_path, mark + "x,y\nä,1\n".encode(encoding))
        assert rows(path, Dialect(encoding=encoding)) == {"x": ["ä"], "y": ["1"]}


def test_big_endian_with_its_mark(tmp_path: Path) -> None:
    path = csv(tmp_path, codecs.BOM_UTF16_BE + "x,y\nä,1\n".encode("utf-16-be"))
    assert rows(path) == {"x": ["ä"], "y": ["1"]}


@pytest.mark.parametrize(
    ("content", "said", "message"),
    [
        (f"x,y\n{CANARY},é\n".encode("latin-1"), None, "its text is not UTF-8; if it comes from Excel, try --encoding"),
        (f"x,y\n{CANARY},é,3\n".encode("latin-1"), None, "a row has more or fewer values than the header"),
        (f"x,é\n{CANARY},1\n".encode("latin-1"), None, "its text is not UTF-8; if it comes from Excel, try --encoding"),
        (f"x,y\n{CANARY},".encode() + b"\x81\n", "cp1252", "its text is not in the encoding that was named"),
        (f"x,y\n{CANARY},1\n".encode(), "utf-16", "its header line is not UTF-16; name its encoding"),
        (f"x,y\n{CANARY},1\n".encode("utf-16-le"), None, "its text is not UTF-8"),
        (b'"' + b"x" * (1 << 20), None, "its header line is longer than 1,048,576 bytes; is it a CSV file?"),
        (f'x,"y\n{CANARY},1\n'.encode(), None, "its header line has a quote that is not closed"),
        (f'"x,y\n{CANARY},1\n'.encode(), None, "its header line has a quote that is not closed"),
        (b"\xef\xbb\xbf\n", None, "it is empty; give a file with a header line and rows"),
    ],
)
def test_refusals_name_the_likely_cause(tmp_path: Path, content: bytes, said: str | None, message: str) -> None:
    assert message in refusal(csv(tmp_path, content), Dialect(encoding=said))


def test_decimal_commas() -> None:
    read = ["1,5", "-0,25", ",5", "1,2e3", "1.234", "1.234,5", "12.345.678", "1.5", "1,", "a,b", "1,2,3", "x 1,5", None]
    want = ["1.5", "-0.25", ".5", "1.2e3", "1234", "1234.5", "12345678", "1.5", "1,", "a,b", "1,2,3", "x 1,5", None]
    batch = pa.RecordBatch.from_pydict({"x": read})
    assert standard(batch, Dialect(decimal=",")).to_pydict() == {"x": want}
    assert standard(batch, Dialect()).to_pydict() == {"x": read}


@pytest.mark.parametrize(
    ("form", "text", "iso"),
    [
        ("%d.%m.%Y", "31.1.2020", "2020-01-31"),
        ("%d.%m.%Y", "31.01.20", "31.01.20"),
        ("%d.%m.%y", "31.01.68", "2068-01-31"),
        ("%d.%m.%y", "31.01.69", "1969-01-31"),
        ("%m/%d/%Y", "01/31/2020", "2020-01-31"),
        ("%Y%m%d", "20200131", "2020-01-31"),
        ("%d.%m.%Y %H:%M", "31.01.2020 7:05", "2020-01-31T07:05:00"),
        ("%d.%m.%Y %H:%M:%S.%f", "31.01.2020 07:05:09.5", "2020-01-31T07:05:09.500000"),
        ("%d.%m.%Y", "2020-01-31", "2020-01-31"),
        ("%d.%m.%Y", "x31.01.2020", "x31.01.2020"),
        ("%d*%m(%Y", "31*01(2020", "2020-01-31"),
        ("%d.%m.%Y", None, None),
    ],
)
def test_dates(form: str, text: str | None, iso: str | None) -> None:
    batch = pa.RecordBatch.from_pydict({"x": pa.array([text], pa.string())})
    assert standard(batch, Dialect(date_format=form)).to_pydict() == {"x": [iso]}


texts = st.one_of(st.none(), st.text(max_size=12), st.from_regex(r"\A[0-9.,+-]{0,9}\Z"))


@given(st.lists(texts, min_size=1, max_size=8))
def test_each_value_is_read_by_itself(values: list[str | None]) -> None:
    dialect = Dialect(decimal=",", date_format="%d.%m.%Y")
    together = standard(pa.RecordBatch.from_pydict({"x": pa.array(values, pa.string())}), dialect).column(0)
    alone = [standard(pa.RecordBatch.from_pydict({"x": pa.array([v], pa.string())}), dialect).column(0) for v in values]
    assert together.to_pylist() == pa.concat_arrays(alone).to_pylist()


def test_a_german_file_from_its_bytes_to_a_private_table(tmp_path: Path) -> None:
    lines = [f"{day}.03.2020;{day},5;{'gut' if day % 2 else 'schön'}\n" for day in range(1, 29)]
    path = csv(tmp_path, ("tag;menge;güte\n" + "".join(lines)).encode("cp1252"))
    dialect = Dialect(encoding="cp1252", decimal=",", date_format="%d.%m.%Y")
    table = open_table(path, target="güte", budget=Budget(1.0), dialect=dialect)
    assert [column.name for column in table.schema.columns] == ["tag", "menge", "güte"]
    assert rows(path, dialect)["tag"][:2] == ["2020-03-01", "2020-03-02"]
    assert rows(path, dialect)["menge"][:2] == ["1.5", "2.5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ""}, "separator () must be one character, such as ';', '|' or a tab"),
        ({"separator": ";;"}, "separator (;;) must be one character"),
        ({"separator": '"'}, "must be one character"),
        ({"separator": "ä"}, "must be one character"),
        ({"decimal": ";"}, "decimal (;) must be a point or a comma"),
        ({"encoding": "klingon"}, "encoding (klingon) is unknown; try utf-8, cp1252, latin-1 or utf-16"),
        ({"encoding": "hex"}, "encoding (hex) is unknown"),
        ({"encoding": "a\0b"}, "is unknown"),
        ({"encoding": "iso2022_jp"}, "encoding (iso2022_jp) lets a line change how the next is read; convert the file"),
        ({"encoding": "utf-7"}, "lets a line change"),
        ({"encoding": "unicode_escape"}, "lets a line change"),
        ({"date_format": "dd.mm.yyyy"}, "date_format (dd.mm.yyyy) needs a day, a month and a year, such as %d.%m.%Y"),
        ({"date_format": "%d.%m.%Y %p"}, "may hold each of %d %m %Y %y %H %M %S %f once"),
        ({"date_format": "%d.%m.%Y %d"}, "may hold each of"),
        ({"date_format": "%d.%m.%Y %M"}, "has a part of the time without what it is part of"),
        ({"date_format": "%d.%m.%Y%"}, "may hold each of"),
    ],
)
def test_what_no_file_is_written_in(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        Dialect(**options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_options_as_typed() -> None:
    assert dialect_of("tab", None, None, None) == dialect_of("\\t", None, None, None) == Dialect(separator="\t")
    assert dialect_of(None, None, None, None) == Dialect()


def test_a_dialect_is_for_csv_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "rows.parquet")
    with pytest.raises(SettingError, match=r"^separator, decimal: these describe CSV or Excel files, and"):
        open_backend(tmp_path / "rows.parquet", dialect=Dialect(separator=";", decimal=","))
    assert open_backend(tmp_path / "rows.parquet", dialect=Dialect())[0].layout.names == ["a", "b"]


@pytest.mark.parametrize(
    "names",
    [["39", "male"], ["2020-01-31", "x"], ["", "x"], ["x", "12.5"], ["+49 30 1234", "x"], ["1e5", "x"], ["NA", "x"]],
)
def test_names_that_may_be_a_row_are_not_shown(names: list[str]) -> None:
    for message in (not_a_column("target", "y", names), shown(names)):
        assert all(name not in message for name in names if len(name) > 1)
        assert "does it lack a header line?" in message


def test_names_are_shown_up_to_a_screenful() -> None:
    assert shown(["age", "x1", "größe"]) == "age, x1, größe"
    assert shown([f"c{number}" for number in range(60)]).endswith("c49 and 10 more")


def test_a_file_without_a_header_line_shows_no_value(tmp_path: Path) -> None:
    path = csv(tmp_path, f"39,{CANARY},yes\n40,{CANARY},no\n")
    with pytest.raises(SettingError) as caught:
        open_table(path, target="income", budget=Budget(1.0))
    assert CANARY not in str(caught.value)
    assert "target (income) is not a column of the table; some of its column names look like values" in str(
        caught.value
    )
    repeated = csv(tmp_path, f"39,{CANARY},{CANARY}\n")
    assert "appear more than once" in refusal(repeated)


def test_a_parquet_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"abcdefgh": [1], "b": [2]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"abcdefgh", b"\xff" * 8))
    assert "cannot be read as Parquet: a column's name is not UTF-8; rename it" in refusal(path)


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "folder/" + "x" * 300, "a\0b.csv", "\udcff.csv"])
def test_paths_that_lead_nowhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        open_backend(tmp_path / name)
    assert len(str(caught.value).splitlines()) == 1
    str(caught.value).encode()


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pa, "input_stream", denied)
    assert refusal(csv(tmp_path, "x,y\n1,2\n")).endswith("it may not be read; ask for permission to read it")
    monkeypatch.setattr(Path, "stat", denied)
    with pytest.raises(InputError, match=r"cannot be read: Permission denied; check the path and its permissions$"):
        open_backend(tmp_path / "other.csv")


def test_a_refused_file_leaves_no_reader_open(tmp_path: Path) -> None:
    """What a dropped reader writes, or a process that ends for it, shows in another process alone."""
    import random

    for seed in range(5):
        csv(tmp_path, random.Random(seed).randbytes(50_000), f"garbage{seed}.csv")
    csv(tmp_path, b"x,y\n" + b"\xff,\xfe,3\n" * 2_000_000, "ragged.csv")
    code = """
import sys, pathlib
from threea.backends import open_backend
from threea.errors import InputError
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.csv")):
    for columns in (1, None):
        try:
            backend = open_backend(path)[0]
            for batch in backend.batches(backend.layout.names[:columns]):
                pass
        except InputError:
            print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "refused\n" * 12
