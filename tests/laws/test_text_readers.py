"""The readers' law for text files and Excel: odd bytes as a line, and odd cells as a row, change no other row."""

import codecs
import gzip
import itertools

import pytest
import workbook
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_law import READ, REFUSED, at_the_door, check_one_more_row, check_refusal

from threea.anonymize.open_table import open_table
from threea.anonymize.open_tables import open_tables
from threea.backends import open_backend, unchanged
from threea.budget import Budget
from threea.errors import InputError
from threea.table.dialect import Dialect
from threea.table.linked_columns import COUNT
from threea.table.schema import Schema

CANARY, OWN = "canary-7391", "canary-8802"
"""A value of the table, and one of the row that is put in."""
NAMES = ("id", "amount", "note")
USUAL = {
    "id": ("p1", "1234", "0042", "2024-01-31", "x y"),
    "amount": ("5", "1.5", "1,5", "-3", "", "NA", "31.01.2024", "true"),
    "note": ("plain", 'said "hi"', "a,b;c\td|e", "", CANARY, "ä", "null"),
}
ODD = (
    *('"', '""', '"""', '"x', 'x"', 'x"y', '"x"y', '"x"y"z', ' "x"', '"x" ', '"a""b"', '""x"', "'"),
    *("\r", "\r\r", "x\ry", '"x\ry"', "\0", "\ufeff", "\u2028", "\x85", "\x0b", "\x1c", "\\", "\\n", "", " ", "\t"),
    *("1,5", "1.234", "1.234,5", "1e5", "-", "inf", "nan", "NA", "null", "NaN", "true", "0042", "1234", "1234.0"),
    *("31.01.2024", "2024-01-31", "31.13.2024", "01/31/2024", "x" * 5000, "ä", OWN, f'"{OWN}', "=1+1", "🙂"),
)
SEPARATORS = (",", ";", "\t", "|")
DIALECTS = st.builds(
    Dialect,
    separator=st.sampled_from(SEPARATORS),
    decimal=st.sampled_from([".", ","]),
    date_format=st.sampled_from([None, "%d.%m.%Y", "%m/%d/%Y"]),
    encoding=st.sampled_from(["utf-8", "cp1252", "utf-16", "utf-16-le", "shift_jis"]),
)


@pytest.fixture(autouse=True, scope="module")
def files_need_not_rest():
    """Files are written and read once: that one could be written again within a tick does not matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unchanged, "_TICK_NS", 0)
        yield


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Return a path that no file has had."""
    folder, numbers = tmp_path_factory.mktemp("tables"), itertools.count()
    return lambda ending: folder / f"t{next(numbers)}{ending}"


def line(cells, separator):
    """Write a row as any program does, with quotes where they are needed."""
    special = (separator, '"', "\r", "\n")
    quoted = ('"' + cell.replace('"', '""') + '"' if any(sign in cell for sign in special) else cell for cell in cells)
    return separator.join(quoted)


def encoded(text, encoding):
    """Return text as bytes, without the mark that begins a file."""
    return text.encode("utf-16-le" if encoding == "utf-16" else encoding, "replace")


def written(path, lines, ending, encoding):
    """Write lines of bytes to a file, and compress it if its name says so."""
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16" else b""
    content = mark + b"".join(each + encoded(ending, encoding) for each in lines)
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    return path


def read(path, dialect):
    return at_the_door(open_backend(path, dialect)[0], "id")


rows = st.tuples(*(st.sampled_from(USUAL[name]) for name in NAMES))
odd_texts = st.one_of(
    st.lists(st.sampled_from(ODD), min_size=1, max_size=4).map(lambda cells: (cells, True)),
    st.lists(st.sampled_from(ODD), min_size=3, max_size=3).map(lambda cells: (cells, True)),
    st.tuples(*(st.sampled_from(ODD) for _ in NAMES)).map(lambda cells: (list(cells), False)),
    st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=30).map(lambda text: ([text], True)),
)
"""Cells of an odd row, and whether they are written as they are, quotes and all."""


@st.composite
def tables(draw):
    """A table's lines, an odd line as bytes, where it is put, and how the file is written."""
    dialect = draw(DIALECTS)
    lines = [encoded(line(row, dialect.separator), dialect.encoding) for row in draw(st.lists(rows, max_size=6))]
    cells, raw = draw(odd_texts)
    text = dialect.separator.join(cells) if raw else line(cells, dialect.separator)
    odd = encoded(text.replace("\n", ""), dialect.encoding)
    if draw(st.booleans()):
        # Bytes that no program writes; a line's end among them would make two lines of it.
        place = draw(st.integers(0, len(odd)))
        odd = odd[:place] + draw(st.binary(min_size=1, max_size=3)).replace(b"\n", b"\xff") + odd[place:]
    at, ending = draw(st.integers(0, len(lines))), draw(st.sampled_from(["\n", "\r\n"]))
    suffix = draw(st.sampled_from([".csv", ".csv.gz", ".tsv"]))
    return lines, odd, at, dialect, ending, suffix


def check_law(fresh, lines, odd, at, dialect, ending="\n", suffix=".csv"):
    """Check the law for an odd line; an empty line is no row wherever it stands."""
    head = encoded(line(NAMES, dialect.separator or ","), dialect.encoding or "utf-8")
    encoding = dialect.encoding or "utf-8"
    without = read(written(fresh(suffix), [head, *lines], ending, encoding), dialect)
    path = written(fresh(suffix), [head, *lines[:at], odd, *lines[at:]], ending, encoding)
    # With the first half of a line's end before the second, a line is empty, too.
    if not odd or (ending == "\n" and odd == encoded("\r", encoding)):
        assert read(path, dialect) == without
        return READ
    return check_one_more_row(without, lambda: read(path, dialect), [CANARY, OWN])


def test_an_odd_line_is_a_row_or_a_refusal(fresh):
    """Of 1,500 odd lines many can be read: a reader that refuses all keeps the law, and is of no use."""
    outcomes = {READ: 0, REFUSED: 0}

    @settings(max_examples=1500)
    @given(table=tables())
    def check(table):
        outcomes[check_law(fresh, *table)] += 1

    check()
    assert min(outcomes.values()) > 100


BODY = [b"u,5,plain"] * 400 + [b'u,5,"said ""hi"""'] + [b"u,5,plain"] * 600
LINES = {
    "a quote that is not closed": (b'u,5,"x', REFUSED),
    "a quote that another line closes": (b'u,"5,x', REFUSED),
    "an unclosed quote after a closed one": (b'u,"x"y"z,"w', REFUSED),
    "a quote in the middle of a value": (b'u,5,5" pipe', READ),
    "a quote that ends early": (b'u,5,"x"y', READ),
    "doubled quotes": (b'u,5,"a""b"', READ),
    "a lone carriage return": (b"u,5,x\ru,6,y", REFUSED),
    "a lone carriage return in quotes": (b'u,5,"x\ry"', REFUSED),
    "a null": (b"u,5,\0", READ),
    "a byte order mark": (b"\xef\xbb\xbfu,5,x", READ),
    "not UTF-8": (b"u,5,\xff\xfe", REFUSED),
    "a line separator of Unicode": ("u,5,x\u2028y\x85z".encode(), READ),
    "only separators": (b",,", READ),
    "a blank": (b" ", REFUSED),
    "more values": (b"u,5,x,y", REFUSED),
    "fewer values": (b"u,5", REFUSED),
    "a long value": (b"u,5," + b"x" * (1 << 20), READ),
    "a value longer than two blocks": (b"u,5," + b"x" * (17 << 20), REFUSED),
}


@pytest.mark.parametrize("at", [0, 100, len(BODY)])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("name", LINES)
def test_what_becomes_of_a_line(fresh, name, ending, at):
    odd, outcome = LINES[name]
    assert check_law(fresh, BODY, odd, at, Dialect(), ending) == outcome


@pytest.mark.parametrize("odd", [b'u,5,"x', b"u,5,x\ry,6,z", b"u,5,\xff"])
def test_a_line_at_the_edge_of_a_block(fresh, odd):
    """Blocks of 8 MB are parsed by themselves: what a line holds does not depend on where one ends."""
    rest = b"u,5," + b"x" * 1019
    body = [rest] * 8191
    for shift in range(0, 1024, 93):
        lines = [b"u,5," + b"y" * shift, *body, b'u,5,"said ""hi"""', b"v,6,w"]
        assert check_law(fresh, lines, odd, len(lines) - 2, Dialect()) == REFUSED
        assert check_law(fresh, lines, b'u,5,"a,b"', len(lines) - 2, Dialect()) == READ


def test_empty_lines_are_no_rows_wherever_they_stand(fresh):
    for at in (0, 5, len(BODY)):
        for ending in ("\n", "\r\n"):
            check_law(fresh, BODY, b"", at, Dialect(), ending)


def test_a_row_is_never_taken_for_a_name(fresh):
    """A header line with a quote that is not closed is refused: what closes it would be somebody's row."""
    path = fresh(".csv")
    path.write_text(f'id,"amount\n{CANARY},"note\nu,5\n')
    with pytest.raises(InputError) as caught:
        open_backend(path)
    check_refusal(caught.value, [CANARY])
    assert "its header line has a quote that is not closed" in str(caught.value)


CELLS = (
    *(3, 0.1, 1e300, -7.25, 45000, True, False, None, "", " ", "NA", "text", "1,5", "1.234", "=1+1", '"', "a\nb", OWN),
    *((workbook.ERROR, "#N/A"), (workbook.FORMULA, ("1+1", "2")), (workbook.FORMULA, ("1+1", None))),
    *((workbook.DAY, "45000"), (workbook.MOMENT, "45000.5"), (workbook.DAY, "-5"), (workbook.DAY, "1e9")),
    *((workbook.HOURS, "1.5"), (workbook.ERROR, "#DIV/0!"), "x" * 5000, "31.01.2024", "2024-01-31", "🙂"),
)
cells = st.sampled_from(CELLS)
sheet_rows = st.lists(st.lists(cells, min_size=3, max_size=3), max_size=5)


@settings(max_examples=50)
@given(
    table=sheet_rows,
    odd=st.lists(cells, min_size=1, max_size=4),
    place=st.integers(0, 5),
    dialect=st.builds(Dialect, decimal=st.sampled_from([".", ","]), date_format=st.sampled_from([None, "%d.%m.%Y"])),
)
def test_an_odd_cell_of_a_sheet_changes_no_other_row(fresh, table, odd, place, dialect):
    at, head = min(place, len(table)), ["id", "amount", "note"]
    without = read(workbook.write(fresh(".xlsx"), [head, *table]), dialect)
    path = workbook.write(fresh(".xlsx"), [head, *table[:at], odd, *table[at:]])
    nothing = (None, "", (workbook.FORMULA, ("1+1", None)))
    if all(cell in nothing or (isinstance(cell, tuple) and cell[0] == workbook.ERROR) for cell in odd):
        # Nor is a row of empty cells, for which errors are taken.
        assert read(path, dialect) == without
        return
    check_one_more_row(without, lambda: read(path, dialect), [OWN])


ID_TEXTS = ("1234", "1.234", "1,234", "1234.0", "01234", "31.01.2024", "2024-01-31", "NA", "null", "nan", " 1234", "x")


@settings(max_examples=200)
@given(
    ids=st.lists(
        st.one_of(st.sampled_from(ID_TEXTS), st.text(st.characters(codec="utf-8", exclude_characters="\r\n")))
    ),
    dialect=st.builds(
        Dialect,
        decimal=st.sampled_from([None, ".", ","]),
        date_format=st.sampled_from([None, "%d.%m.%Y"]),
        missing=st.sampled_from([None, ("x",)]),
    ),
)
def test_ids_are_told_apart_as_they_came(fresh, ids, dialect):
    """No mark, date format or missing text makes one person of two; an empty id is no id."""
    path = written(
        fresh(".csv"), [line(row, ",").encode() for row in [("id", "y"), *((i, "1") for i in ids)]], "\n", "utf-8"
    )
    backend = open_backend(path, dialect, ids=("id",))[0]
    assert backend.table()["id"].to_pylist() == [text or None for text in ids]
    tags = [row[-1] for row in at_the_door(backend, "id").rows]
    assert len(set(tags)) == len(set(ids))


def schema_of(**kinds):
    return Schema.of(
        {
            name: {"kind": "integer", "lower": 0, "upper": 9} if kind == "integer" else {"kind": kind}
            for name, kind in kinds.items()
        }
    )


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_a_unit_is_who_its_id_says(fresh, suffix, described):
    dialect, head = Dialect(decimal=",", date_format="%d.%m.%Y"), ["id", "y"]
    body = [[text, "1"] for text in ID_TEXTS for _ in range(2)]
    path = fresh(suffix)
    if suffix == ".xlsx":
        workbook.write(path, [head, *body])
    else:
        written(path, [line(row, ",").encode() for row in [head, *body]], "\n", "utf-8")
    said = {"schema": schema_of(id="id", y="integer")} if described else {"target": "y"}
    table = open_table(path, budget=Budget(1.0), unit="id", dialect=dialect, **said)
    # From inside, as no recipe may look: how many persons there are, and that each has one row that counts.
    view = table._interior.backend
    assert view.units == len(ID_TEXTS)
    assert view.table().num_rows == len(ID_TEXTS)


def test_keys_of_two_tables_are_told_apart_as_they_came(fresh):
    parents = written(fresh(".csv"), [b"id,x", *(line([text, "1"], ",").encode() for text in ID_TEXTS)], "\n", "utf-8")
    children = [line([text, "1"], ",").encode() for text in (*ID_TEXTS, "absent", "1.2345")]
    children = written(fresh(".csv"), [b"id,y", *children], "\n", "utf-8")
    tables = open_tables(
        parents,
        children,
        key="id",
        children_at_most=3,
        budget=Budget(1.0),
        schema=schema_of(id="id", x="integer"),
        child_schema=schema_of(id="id", y="integer"),
        dialect=Dialect(decimal=",", date_format="%d.%m.%Y"),
    )
    above, below = (each._interior.backend.table() for each in (tables.parents, tables.children))
    assert sorted(above["id"].to_pylist()) == sorted(below["id"].to_pylist()) == sorted(ID_TEXTS)
    assert set(above[COUNT].to_pylist()) == {1}


@settings(max_examples=100)
@given(
    table=st.lists(rows, max_size=6),
    odd=st.sampled_from([f'p,1,"{OWN}\n{OWN}"', "p,1,x\ry", f'"p\r\n",1,{OWN}', f'p,1,"{OWN}']),
)
def test_with_line_breaks_rows_are_what_the_parser_makes_of_the_bytes(fresh, table, odd):
    """A row with line breaks is one row where its quotes are well-formed; a certificate says that this is assumed."""
    dialect = Dialect(multiline=True)
    lines = [line(NAMES, ","), *(line(row, ",") for row in table)]
    without = read(written(fresh(".csv"), [each.encode() for each in lines], "\n", "utf-8"), dialect)
    path = written(fresh(".csv"), [each.encode() for each in [*lines, odd]], "\n", "utf-8")
    try:
        seen = read(path, dialect)
    except InputError as refusal:
        check_refusal(refusal, [CANARY, OWN])
        assert odd.count('"') % 2 or odd == "p,1,x\ry"
        return
    assert seen.rows[:-1] == without.rows
    assert odd.count('"') == 2


def test_a_row_with_line_breaks_may_stand_at_the_edge_of_a_block(fresh):
    body = "".join(f'{number},1,"{"x" * 1000}\n{number}"\n' for number in range(20_000))
    path = fresh(".csv")
    path.write_text(f"id,amount,note\n{body}")
    seen = read(path, Dialect(multiline=True))
    assert [row[0] for row in seen.rows] == [repr(str(number)) for number in range(20_000)]
    assert all(row[2].endswith(f"\\n{number}'") for number, row in enumerate(seen.rows))
    path.write_text(f'id,amount,note\n1,1,"{"x" * (17 << 20)}\n')
    with pytest.raises(InputError, match="a value spans too much of it"):
        read(path, Dialect(multiline=True))
