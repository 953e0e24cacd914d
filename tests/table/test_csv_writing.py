"""CSV files are written in the dialect in which they are read: what is written is read as it was."""

import datetime
import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea.backends import open_backend, unchanged
from threea.backends.dialect import standard
from threea.table.csv_writing import native
from threea.table.dialect import Dialect
from threea.table.writing import RowWriter

DAY, MOMENT = datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 18, 30)
TABLE = pa.table(
    {
        "n": pa.array([1, None]),
        "x": pa.array([1234.5, -1e-07]),
        "d": pa.array([DAY, None]),
        "t": pa.array([MOMENT, MOMENT.replace(second=5, microsecond=7)]),
        "w": pa.array(['say "yes"', "a;b,c\td|e"]),
        "v": pa.array(["ä", ""]),
        "b": pa.array([True, None]),
    }
)


def written(table: pa.Table, dialect: Dialect | None) -> bytes:
    file = io.BytesIO()
    with RowWriter(file, "csv", table.schema, dialect) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    return file.getvalue()


@pytest.mark.parametrize(
    ("dialect", "lines"),
    [
        (
            None,
            'n,x,d,t,w,v,b\n1,1234.5,2024-01-31,2024-01-31 18:30:00.000000,"say ""yes""",ä,true\n'
            ',-1e-7,,2024-01-31 18:30:05.000007,"a;b,c\td|e","",\n',
        ),
        (
            Dialect(separator=";", decimal=",", date_format=("%d.%m.%Y", "%d.%m.%Y %H:%M"), encoding="cp1252"),
            'n;x;d;t;w;v;b\n1;1234,5;31.01.2024;31.01.2024 18:30;"say ""yes""";ä;true\n'
            ';-1e-7;;2024-01-31 18:30:05.000007;"a;b,c\td|e";"";\n',
        ),
        (
            Dialect(separator=",", decimal=",", date_format="%m/%d/%y %H:%M:%S.%f", encoding="utf-16"),
            'n,x,d,t,w,v,b\n1,"1234,5",2024-01-31,01/31/24 18:30:00.000000,"say ""yes""",ä,true\n'
            ',-1e-7,,01/31/24 18:30:05.000007,"a;b,c\td|e","",\n',
        ),
    ],
    ids=["plain", "german", "american"],
)
def test_rows_are_written_as_their_file_was(dialect: Dialect | None, lines: str) -> None:
    assert written(TABLE, dialect).decode(dialect.encoding or "utf-8" if dialect else "utf-8") == lines


texts = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=8)


@given(
    rows=st.lists(st.tuples(texts, texts), max_size=5),
    separator=st.sampled_from([",", ";", "\t", "|", " "]),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32", "gb18030"]),
)
def test_any_text_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], separator: str, encoding: str
) -> None:
    dialect = Dialect(separator=separator, encoding=encoding)
    table = pa.table(
        {"a b": [a for a, _ in rows], "c": [c for _, c in rows]}, pa.schema({"a b": "string", "c": "string"})
    )
    path = Path(tmp_path_factory.mktemp("t") / "t.csv")
    path.write_bytes(written(table, dialect))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unchanged, "_TICK_NS", 0)
        backend = open_backend(path, dialect, ids=("a b", "c"))[0]
    assert backend.table().to_pylist() == [{"a b": a or None, "c": c or None} for a, c in rows]


FORMATS = [
    "%d.%m.%Y",
    "%m/%d/%y",
    "%Y%m%d",
    "%d.%m.%Y %H",
    "%d.%m.%y %H:%M",
    "%d-%m-%Y %H:%M:%S",
    "%d.%m.%Y %H:%M:%S.%f",
]


@given(
    moments=st.lists(
        st.datetimes(datetime.datetime(1, 1, 1)).flatmap(
            lambda t: st.sampled_from(
                [t, t.replace(microsecond=0), t.replace(hour=5, minute=0, second=0, microsecond=0)]
            )
        ),
        min_size=1,
    ),
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    formats=st.lists(st.sampled_from(FORMATS), max_size=2, unique=True),
)
def test_dates_and_numbers_are_read_as_they_were_written(
    moments: list[datetime.datetime], numbers: list[float], formats: list[str]
) -> None:
    dialect = Dialect(decimal=",", date_format=tuple(formats))
    for values in (pa.array(moments), pa.array([moment.date() for moment in moments]), pa.array(numbers)):
        texts = native(values, dialect).cast(pa.string())
        read = standard(pa.record_batch({"x": texts}), dialect).column(0)
        assert read.cast(values.type).equals(values)
