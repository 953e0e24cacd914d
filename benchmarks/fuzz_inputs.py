"""Inputs for fuzzing the command: broken CSV and Parquet files, schemas, certificates, types and options."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.fuzz_tables import EPOCH, SCHEMA, drawn, schema_text
from threea.errors import SchemaError
from threea.table.schema import Schema

ROWS = 60


@dataclass
class Input:
    """One run of the command: what is in its folder by now, and its arguments."""

    family: str
    arguments: list[str]
    notes: list[str] = field(default_factory=list)
    """What was done to a good input, in order."""


def stays(chance: Random) -> list[dict[str, Any]]:
    """Draw plain rows that fit the schema."""
    return [
        {
            "person": f"p{row // 2}",
            "age": chance.choice([None, 30, 45, 60, 999]),
            "ward": chance.choice(["heart", "lung", "skin", "eye"]),
            "cost": round(chance.uniform(1, 5000), 2),
            "seen": f"2020-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}",
            "label": chance.choice(["no", "yes"]),
        }
        for row in range(ROWS)
    ]


def csv_bytes(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a plain CSV file."""
    lines = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
    return "\n".join([",".join(rows[0]), *lines, ""]).encode()


# --- bytes ---------------------------------------------------------------------------------------------------


def _place(content: bytes, chance: Random) -> int:
    return chance.randrange(len(content) + 1)


def _flip(content: bytes, chance: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 5, 50])):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _insert(piece: bytes) -> Callable[[bytes, Random], bytes]:
    def insert(content: bytes, chance: Random) -> bytes:
        place = _place(content, chance)
        return content[:place] + piece + content[place:]

    return insert


def _cut(content: bytes, chance: Random) -> bytes:
    start, stop = sorted((_place(content, chance), _place(content, chance)))
    return chance.choice([content[:start], content[stop:], content[:start] + content[stop:]])


def _lines(change: Callable[[list[bytes], Random], list[bytes]]) -> Callable[[bytes, Random], bytes]:
    return lambda content, chance: b"\n".join(change(content.split(b"\n") or [b""], chance))


def _ragged(lines: list[bytes], chance: Random) -> list[bytes]:
    place = chance.randrange(len(lines))
    changed = chance.choice([lines[place] + b",more", lines[place].rpartition(b",")[0], lines[place] + b"," * 40])
    return [*lines[:place], changed, *lines[place + 1 :]]


def _header_again(lines: list[bytes], chance: Random) -> list[bytes]:
    place = chance.randrange(len(lines))
    return [*lines[:place], lines[0], *lines[place:]]


def _same_names(lines: list[bytes], chance: Random) -> list[bytes]:
    names = lines[0].split(b",")
    names[chance.randrange(len(names))] = chance.choice([names[0], names[-1], b"", b'""', b"\xff", b"a" * 70000])
    return [b",".join(names), *lines[1:]]


SHARED: dict[str, Callable[[bytes, Random], bytes]] = {
    "bits flipped": _flip,
    "cut": _cut,
    "emptied": lambda content, chance: b"",
    "garbage": lambda content, chance: chance.randbytes(chance.choice([1, 100, 5000])),
    "byte order mark": lambda content, chance: b"\xef\xbb\xbf" + content,
    "NUL": _insert(b"\0"),
    "Latin-1": _insert("Müller,é".encode("latin-1")),
}
CSV: dict[str, Callable[[bytes, Random], bytes]] = {
    **SHARED,
    "ragged": _lines(_ragged),
    "header again": _lines(_header_again),
    "names": _lines(_same_names),
    "quote": _insert(b'"'),
    "quoted": _insert(b'"a""b\n,c"'),
    "separator": lambda content, chance: content.replace(b",", chance.choice([b";", b"\t", b"|", b" ", b",,"])),
    "huge field": _insert(b"x" * 2_000_000),
    "line ends": lambda content, chance: content.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n\n", b""])),
    "UTF-16": lambda content, chance: content.decode("utf-8", "replace").encode(chance.choice(["utf-16", "utf-16-be"])),
    "header alone": lambda content, chance: content.split(b"\n")[0],
    "no header": lambda content, chance: content.partition(b"\n")[2],
    "odd number": _insert(b"1e999"),
    "odd text": _insert("\N{SNOWMAN}\x1b[2J=cmd()".encode()),
}


# --- inputs by family ----------------------------------------------------------------------------------------

RECIPES = ("independent",) * 6 + ("labeltree", "labeltree", "gaussians", "auto", "clustmix", "dpmix")


def _release(chance: Random, data: str, *, schema: bool) -> list[str]:
    recipe = chance.choice(RECIPES)
    rows = [] if recipe in ("dpmix", "clustmix") else ["--rows", "40"]
    described = ["--schema", "schema.toml"] if schema else ["--target", "label"]
    unit = chance.choice([[], [], [], ["--unit", "person"], ["--unit", "person", "--max-rows-per-unit", "2"]])
    form = chance.choice([[], [], ["--format", "csv"], ["--format", "parquet"]])
    common = ["--epsilon", chance.choice(["1", "3", "0.1"]), "--recipe", recipe, "--ledger", "ledger.db"]
    return ["release", data, *described, *common, *rows, *unit, *form, "--out", "out"]


def _or_draft(chance: Random, data: str, *, schema: bool) -> list[str]:
    if chance.random() < 0.2:
        return ["schema", data, "--target", "label", "--out", "draft.toml"]
    return _release(chance, data, schema=schema)


def _mutated(content: bytes, ways: dict[str, Callable[[bytes, Random], bytes]], chance: Random) -> tuple[bytes, list]:
    notes = [chance.choice(list(ways)) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
    for note in notes:
        content = ways[note](content, chance)
    return content, notes


def csv_input(chance: Random, folder: Path) -> Input:
    """Break a CSV file."""
    content, notes = _mutated(csv_bytes(stays(chance)), CSV, chance)
    name = chance.choice(["data.csv"] * 8 + ["data.txt", "data", "data.CSV", "data.parquet"])
    (folder / name).write_bytes(content)
    (folder / "schema.toml").write_text(SCHEMA)
    return Input("csv", _or_draft(chance, name, schema=chance.random() < 0.5), [*notes, name])


def parquet_bytes(table: pa.Table, chance: Random) -> bytes:
    """Return a table as a Parquet file of some form."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=chance.choice(["zstd", "none", "snappy"]), row_group_size=25)
    return sink.getvalue().to_pybytes()


def _not_utf8(content: bytes, chance: Random) -> bytes:
    return content.replace(chance.choice([b"ward", b"label", b"heart"]), b"w\xff\xfed"[: chance.choice([4, 4, 3])])


PARQUET: dict[str, Callable[[bytes, Random], bytes]] = {
    "bits flipped": _flip,
    "bits of the footer flipped": lambda content, chance: content[:-600] + _flip(content[-600:], chance),
    "cut": _cut,
    "garbage": SHARED["garbage"],
    "NUL": _insert(b"\0" * 16),
    "names that are not UTF-8": _not_utf8,
    "emptied": SHARED["emptied"],
    "untouched": lambda content, chance: content,
}


def parquet_input(chance: Random, folder: Path) -> Input:
    """Break a Parquet file, or a folder of them."""
    table = pa.Table.from_pylist(stays(chance))
    content, notes = _mutated(parquet_bytes(table, chance), PARQUET, chance)
    (folder / "schema.toml").write_text(SCHEMA)
    name = chance.choice(["data.parquet"] * 4 + ["data.csv", "parts"])
    if name == "parts":
        (folder / name).mkdir()
        (folder / name / "1.parquet").write_bytes(content)
        other = table.drop_columns(["age"]) if chance.random() < 0.5 else table
        (folder / name / "2.parquet").write_bytes(parquet_bytes(other, chance))
    else:
        (folder / name).write_bytes(content)
    return Input("parquet", _or_draft(chance, name, schema=chance.random() < 0.5), [*notes, name])


def schema_input(chance: Random, folder: Path) -> Input:
    """Mutate a schema's text."""
    text = schema_text(chance)
    (folder / "data.csv").write_bytes(csv_bytes(stays(chance)))
    (folder / "schema.toml").write_text(text, encoding="utf-8", newline="")
    return Input("schema", _release(chance, "data.csv", schema=True), [text])


def odd_input(chance: Random, folder: Path) -> Input:
    """Draw a valid but odd schema, and a table that fits it or not."""
    case = drawn(chance, many=chance.random() < 0.1)
    try:
        text = Schema.of(case.columns, target=case.target).confirm().to_toml()
    except SchemaError:
        text = SCHEMA
    (folder / "schema.toml").write_text(text)
    pq.write_table(case.table, folder / "data.parquet")
    flags = [
        part
        for key, value in case.options.items()
        if value is not None
        for part in (f"--{key.replace('_', '-')}", str(value))
    ]
    described = chance.choice([["--schema", "schema.toml"]] * 3 + [["--target", case.target or "y"]])
    arguments = ["release", "data.parquet", *described, *flags, "--ledger", "ledger.db", "--out", "out"]
    return Input("odd schema", arguments, [repr(case.columns), str(case.table.schema), str(case.table.num_rows)])


_ANY: list[tuple[pa.DataType, list[Any]]] = [
    *((getattr(pa, f"{sign}int{bits}")(), [0, 1, 100]) for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *((kind, [0.0, 1.5, None]) for kind in (pa.float32(), pa.float64())),
    *((kind, ["a", "b", ""]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, [b"a", b"\xff"]) for kind in (pa.binary(), pa.large_binary(), pa.binary(1), pa.binary_view())),
    *((pa.timestamp(unit, zone), [EPOCH]) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "+01:00")),
    *((pa.time64(unit), [3600]) for unit in ("us", "ns")),
    *((pa.duration(unit), [5]) for unit in ("s", "ns")),
    (pa.time32("ms"), [1000]),
    (pa.date32(), [0, 20000]),
    (pa.date64(), [0]),
    (pa.bool_(), [True, False]),
    (pa.null(), [None]),
    (pa.decimal128(5, 2), [1, 2]),
    (pa.decimal256(50, 10), [1, 2]),
    (pa.list_(pa.int8()), [[1], []]),
    (pa.list_(pa.float32(), 2), [[1.0, 2.0]]),
    (pa.struct([("a", pa.int8())]), [{"a": 1}]),
    (pa.map_(pa.string(), pa.int8()), [[("a", 1)]]),
]


def type_input(chance: Random, folder: Path) -> Input:
    """Give one column any Arrow type, missing values and a dictionary or not."""
    kind, pool = chance.choice(_ANY)
    missing, listed = chance.random() < 0.5, chance.random() < 0.4
    array = pa.array([None if missing and row % 5 == 4 else pool[row % len(pool)] for row in range(ROWS)], kind)
    if listed:
        try:
            array = array.dictionary_encode()
        except pa.ArrowException:
            listed = False
    table = pa.Table.from_pylist(stays(chance))
    name = chance.choice(["age", "ward", "label", "person", "cost", "seen"])
    changed = pa.field(name, array.type, nullable=missing or array.null_count > 0 or pa.types.is_null(kind))
    table = table.set_column(table.column_names.index(name), changed, array)
    try:
        pq.write_table(table, folder / "data.parquet")
    except pa.ArrowException:
        (folder / "data.parquet").write_bytes(b"PAR1")
    (folder / "schema.toml").write_text(SCHEMA)
    arguments = _or_draft(chance, "data.parquet", schema=chance.random() < 0.5)
    return Input("types", arguments, [f"{name}: {array.type}, missing {missing}"])


CERTIFICATES = (
    "null", "5", '"text"', "[]", "{}", "[" * 5000, '{"a":' * 5000, "NaN", "1e999", "", "\x00", "\ufeff{}", "true",
    '{"ledger_head": 5}', '{"ledger_head": {"entries": -1, "sha256": "zz"}}', '{"ledger_head": {"entries": 1e400}}',
    '{"ledger_head": {"entries": true, "sha256": null}}', '{"rows": null, "events": 3, "schema_sha256": []}',
)  # fmt: skip


def certificate_input(chance: Random, folder: Path, made: Path) -> Input:
    """Break the certificate of a release, for `ledger --verify` or `evaluate`."""
    shutil.copytree(made, folder / "release")
    shutil.copy(made.parent / "ledger.db", folder / "books.db")
    (folder / "data.csv").write_bytes(csv_bytes(stays(chance)))
    good = json.loads((made / "certificate.json").read_text())
    if chance.random() < 0.5:
        content = chance.choice(CERTIFICATES).encode()
    else:
        keys = chance.sample(sorted(good), k=chance.choice([1, 1, 2]))
        value = chance.choice([None, 5, -1, "x", [], {}, True, 1e308, "\x1b[2J", [[]]])
        content = json.dumps({key: value if key in keys else old for key, old in good.items()}).encode()
        content = content if chance.random() < 0.8 else _flip(content, chance)
    (folder / "release" / "certificate.json").write_bytes(content)
    if chance.random() < 0.2:
        chance.choice(sorted((folder / "release").iterdir())).unlink()
    verify = ["ledger", "books.db", "release", "--verify"]
    evaluate = ["evaluate", "release", "--train", "data.csv", "--holdout", "data.csv", "--out", "scores"]
    return Input("certificate", chance.choice([verify, verify, evaluate]), [content[:200].decode("utf-8", "replace")])


WRONG = (
    "", " ", "0", "-1", "nan", "inf", "-inf", "1e-400", "1e400", "x", "1,5", "999999999999999999999", "0.0000001", "é",
    "label", "person", "age", "none", "--out", "/", ".", "..", "missing/deep/out", "a" * 300, "\udcff", "out\n",
    "data.csv", "\x1b[2J", "parquet", "csv", "replace", "labeltree", "clustmix-published", "adsgan", "bins=0", "bins=2",
    "bins=x", "bins=99999999", "alpha=2", "alpha=nan", "=", "rate=0", "image=1,2", "points=0",
)  # fmt: skip
FLAGS = (
    "--epsilon", "--delta", "--schema", "--target", "--adjacency", "--unit", "--max-rows-per-unit", "--recipe", "--set",
    "--rows", "--ledger", "--dataset", "--cap", "--seed", "--format", "--out", "--separator", "--encoding", "--decimal",
    "--date-format", "--target-kind", "--new-ledger", "--dry-run", "--accept-unproven", "--confirm-schema",
    "--frobnicate", "--spreadsheet-safe",
)  # fmt: skip
SWITCHES = ("--spreadsheet-safe", "--new-ledger", "--dry-run", "--accept-unproven", "--confirm-schema")


def option_input(chance: Random, folder: Path) -> Input:
    """Give a good file and wrong options."""
    (folder / "data.csv").write_bytes(csv_bytes(stays(chance)))
    (folder / "schema.toml").write_text(SCHEMA)
    arguments = _release(chance, "data.csv", schema=chance.random() < 0.6)
    for _ in range(chance.choice([1, 1, 2, 3])):
        flag = chance.choice(FLAGS)
        value = [] if flag in SWITCHES else [chance.choice(WRONG)]
        if flag in arguments and chance.random() < 0.8:
            place = arguments.index(flag)
            arguments[place : place + 2] = [flag, *value] if chance.random() < 0.9 else []
        else:
            arguments += [flag, *value]
    if chance.random() < 0.1:
        arguments[1:2] = [chance.choice(WRONG)]
    if chance.random() < 0.05:
        arguments[0] = chance.choice(["releese", "schema", "ledger", "recipes", "evaluate", "demo --x", ""])
    return Input("options", arguments, [])
