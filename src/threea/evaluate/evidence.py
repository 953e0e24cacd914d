"""What an evaluation looks at: a release, the rows it was made from, and rows it never saw."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.backends import open_backend
from threea.backends.hashing import row_hashes
from threea.errors import InputError, SettingError
from threea.evaluate.units import Units, doubts, guessed, numbered
from threea.parts import digest_of
from threea.table import codec
from threea.table.dialect import Dialect
from threea.table.layout import released, undeclared
from threea.table.reading_section import reading_of
from threea.table.schema import OTHER, Column, Kind, Schema
from threea.table.spreadsheet import as_drawn
from threea.table.writing import FORMATS

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A release beside the real rows.

    Args:
        schema: The release's schema.
        certificate: The release's certificate, as read.
        synthetic: The released rows.
        train: The private rows that the release was made from.
        holdout: Real rows of the same kind that it never saw.
        warnings: What the owner should know before trusting a score.
        unit: The column that names the person a real row is of, if one does.
    """

    schema: Schema
    certificate: dict[str, Any]
    synthetic: pa.Table
    train: pa.Table
    holdout: pa.Table
    warnings: tuple[str, ...] = ()
    unit: str | None = None

    @classmethod
    def load(
        cls,
        release: str | PathLike[str],
        train: Any,
        holdout: Any,
        dialect: Dialect | None = None,
        unit: str | None = None,
    ) -> Evidence:
        """Read a release's folder and the real rows, and check that they belong together.

        Args:
            release: The folder that `threea release` made.
            train: The private table: a path, or a pandas, polars or Arrow table.
            holdout: Real rows kept apart from the release.
            dialect: How the real rows are written, if they are CSV files and the release's schema does not say.
            unit: The column that names the person, if the certificate names none.

        Raises:
            InputError: The folder is no release, its rows were changed, or the tables do not fit it.
            SettingError: The certificate names another unit.
        """
        folder = Path(release)
        certificate = _certificate(folder)
        schema = _schema(folder, certificate)
        read = _synthetic(folder, certificate, schema.reading)
        synthetic = _typed(read, schema)
        stated = _unit(certificate, unit)
        tables = {
            "train": _read(train, "train", schema, dialect, stated),
            "holdout": _read(holdout, "holdout", schema, dialect, stated),
        }
        person = stated or guessed(schema, tables["train"])
        real = {role: _real(table, role, schema, person) for role, table in tables.items()}
        if schema.target is not None and schema[schema.target].kind.listed:
            classes = pc.count_distinct(real["holdout"][schema.target], mode="only_valid").as_py()
            if classes < 2:
                raise InputError(f"holdout has {classes} class of the target ({schema.target}); it needs at least 2")
        shared = _overlap(real["train"], real["holdout"], schema)
        warning = (
            f"{shared:.1%} of the holdout rows are equal to a training row; scores flatter if they are the same rows"
        )
        told = [warning] if shared > 0.01 else []
        told += doubts([real["train"], real["holdout"]], person, known=stated is not None)
        return cls(schema, certificate, synthetic, **real, warnings=tuple(told), unit=person)

    @property
    def units(self) -> tuple[Units, Units]:
        """Whose each training row is, and whose each holdout row: numbers that they share.

        Where no column is known to name the person, an id column that rows share is taken for it.
        """
        train, holdout = numbered([self.train, self.holdout], self._person)
        return train, holdout

    @property
    def released_units(self) -> Units:
        """Whose each released row is: people of the release's own, who are nobody in the other tables."""
        return numbered([self.synthetic], self._person if self._person in self.synthetic.column_names else None)[0]

    @property
    def _person(self) -> str | None:
        return self.unit or guessed(self.schema, self.train)

    @property
    def class_weights(self) -> dict[str, float]:
        """How much a released row counts by its class, if the classes were drawn in another ratio than the private one.

        Raises:
            InputError: The certificate's words on it cannot be read.
        """
        try:
            weights = {str(entry["class"]): float(entry["weight"]) for entry in self.certificate.get("classes") or []}
        except (KeyError, TypeError, ValueError):
            raise InputError("the certificate's classes lack weights; was it edited? make the release again") from None
        if not all(np.isfinite(weight) and weight > 0 for weight in weights.values()):
            raise InputError("a class's weight in the certificate must be a number > 0; make the release again")
        return weights

    @property
    def weights(self) -> Vector | None:
        """How much each released row counts, so that the classes have the private ratio; None if they have it."""
        column = self.schema[self.schema.target] if self.schema.target is not None else None
        if column is None or not column.kind.listed or not self.class_weights:
            return None
        named = [self.class_weights.get(name, 1.0) for name in (*column.categories, OTHER)]
        # A class that is missing has the code -1, and is not learned.
        by_row: Vector = np.array([*named, 1.0])[codec.encode_column(self.synthetic[column.name], column)]
        return by_row


def _certificate(folder: Path) -> dict[str, Any]:
    path = folder / "certificate.json"
    try:
        certificate = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{folder} has no certificate.json; give a folder made by `threea release`") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON; was it edited? make the release again") from None
    if not isinstance(certificate, dict) or "synthetic_sha256" not in certificate:
        raise InputError(f"{path} names no hash of the synthetic rows; make the release again")
    return certificate


def _synthetic(folder: Path, certificate: dict[str, Any], written: Dialect | None) -> pa.Table:
    paths = [folder / f"synthetic.{form}" for form in FORMATS if (folder / f"synthetic.{form}").exists()]
    if not paths:
        raise InputError(f"{folder} has no synthetic rows; give a folder made by `threea release`")
    if digest_of(paths[0]) != certificate["synthetic_sha256"]:
        raise InputError(f"{paths[0]} is not the file that its certificate names: tampered with, or replaced; refused")
    # The file is what the certificate names: whatever line breaks its values hold are its own.
    read_as = replace(written or Dialect(), multiline=True) if paths[0].suffix == ".csv" else None
    table = open_backend(paths[0], dialect=read_as)[0].table()
    return as_drawn(table) if certificate.get("spreadsheet_safe") is True else table


def _schema(folder: Path, certificate: dict[str, Any]) -> Schema:
    path = folder / "schema.toml"
    schema = Schema.load(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != certificate.get("schema_sha256"):
        raise InputError(f"{path} is not the schema that the certificate names: tampered with, or replaced; refused")
    return schema


def _unit(certificate: dict[str, Any], unit: str | None) -> str | None:
    """Return the column that names the person, by the release's certificate or else by its owner."""
    stated = certificate.get("unit_column")
    if stated is not None and unit not in (None, stated):
        raise SettingError(f"unit ({unit}) is not that of the release ({stated}); leave it out")
    return unit if stated is None else str(stated)


def _read(data: Any, role: str, schema: Schema, dialect: Dialect | None, unit: str | None) -> pa.Table:
    ids = {column.name for column in schema.columns if column.kind is Kind.ID} | ({unit} if unit else set())
    table = open_backend(data, reading_of(data, dialect, schema.reading), ids)[0].table()
    missing = [column.name for column in schema.columns if column.name not in table.column_names]
    if missing:
        raise InputError(f"{role} lacks columns ({', '.join(missing)}) of the release; give the table it was made from")
    if not table.num_rows:
        raise InputError(f"{role} has no rows; give real rows")
    return table


def _real(table: pa.Table, role: str, schema: Schema, person: str | None) -> pa.Table:
    if person is not None and person not in table.column_names:
        raise InputError(f"{role} lacks the column that names the person ({person}); give a table that has it")
    typed = _typed(table.select([column.name for column in schema.columns]), schema)
    return typed if person is None or person in typed.column_names else typed.append_column(person, table[person])


def _typed(table: pa.Table, schema: Schema) -> pa.Table:
    """Return columns that were read as text with the types of their kinds, those as they are that do not parse."""
    wanted = released(schema, pa.schema([undeclared(name) for name in table.column_names]))
    return pa.table([_cast(table[field.name], field.type) for field in wanted], names=table.column_names)


def _cast(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return values.cast(kind) if pa.types.is_string(values.type) else values
    except pa.ArrowInvalid:
        return values


def _overlap(train: pa.Table, holdout: pa.Table, schema: Schema) -> float:
    """Return the share of holdout rows that equal a training row, whatever types the two tables hold them in."""
    columns = [_codes([train[column.name], holdout[column.name]], column.kind)[0] for column in schema.columns]
    seen, asked = (_row_marks([column[number] for column in columns]) for number in range(2))
    return float(np.isin(asked, seen).mean())


def _row_marks(columns: Sequence[Vector]) -> NDArray[np.uint64]:
    # Adding 0 turns -0 into 0, which equals it.
    arrays = [pa.array(column + 0.0, from_pandas=True) for column in columns]
    names = [str(index) for index in range(len(columns))]
    return row_hashes(pa.RecordBatch.from_arrays(arrays, names=names), b"equal rows, equal marks; nothing is hidden")


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table as numbers for a learner: categories as codes, missing as NaN.

    Args:
        names: The features.
        values: One row each, one column a feature.
        categorical: Positions of the features that are codes.
        target: Class codes, or numbers for a numeric target; NaN where missing.
        classes: What the class codes stand for; empty for a numeric target.
        weights: How much each row counts; None if all count the same.
        units: Whose each row is; None if each is a person of its own.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    categorical: tuple[int, ...]
    target: Vector
    classes: tuple[str, ...]
    weights: Vector | None = None
    units: Units | None = None

    def rows(self, chosen: NDArray[Any]) -> Matrix:
        """Return the rows at these positions, or those marked."""
        weights, units = (None if part is None else part[chosen] for part in (self.weights, self.units))
        return replace(self, values=self.values[chosen], target=self.target[chosen], weights=weights, units=units)

    def labelled(self) -> Matrix:
        """Return the rows whose target is known."""
        return self.rows(~np.isnan(self.target))


def matrices(tables: Sequence[pa.Table], schema: Schema) -> list[Matrix]:
    """Turn tables of one schema into matrices that share their codes.

    Values are taken as they are: nothing is clipped or binned. Ids are left out.

    Raises:
        SettingError: The schema has no target.
    """
    if schema.target is None:
        raise SettingError("the release has no target; there is nothing to predict")
    features = tuple(column for column in schema.valued if column.name != schema.target)
    target = schema[schema.target]
    labels, classes = _codes([table[target.name] for table in tables], target.kind)
    return [
        Matrix(tuple(column.name for column in features), values, listed_places(features), label, classes)
        for values, label in zip(numbers(tables, features), labels, strict=True)
    ]


def listed_places(columns: Sequence[Column]) -> tuple[int, ...]:
    """Return the positions of the columns that hold categories."""
    return tuple(index for index, column in enumerate(columns) if column.kind.listed)


def numbers(tables: Sequence[pa.Table], columns: Sequence[Column]) -> list[NDArray[np.float64]]:
    """Return each table as numbers: one row each, categories as codes that the tables share, NaN for missing."""
    coded = [_codes([table[column.name] for table in tables], column.kind)[0] for column in columns]
    return [
        np.column_stack([column[number] for column in coded]) if coded else np.zeros((table.num_rows, 0))
        for number, table in enumerate(tables)
    ]


def _codes(columns: Sequence[pa.ChunkedArray], kind: Kind) -> tuple[list[Vector], tuple[str, ...]]:
    """Return the columns as numbers, and what codes stand for if they are categories."""
    if kind is Kind.BOOLEAN:
        # Synthetic rows may write the same truth in another way than real ones.
        truth = Column(name="", kind=kind)
        coded = [codec.encode_column(column, truth) for column in columns]
        return [np.where(codes < 0, np.nan, codes) for codes in coded], truth.categories
    if not (kind.listed or kind is Kind.ID):
        unbounded = Column(name="", kind=kind, lower=-1e300, upper=1e300)
        return [codec.encode_column(column, unbounded) for column in columns], ()
    texts = [_text(column) for column in columns]
    words = sorted({word for text in texts for word in pc.unique(text).to_pylist() if word is not None})
    known = pa.array(words, pa.string())
    positions = [pc.index_in(text, value_set=known, skip_nulls=True).cast(pa.float64()) for text in texts]
    return [pc.fill_null(position, np.nan).to_numpy(zero_copy_only=False) for position in positions], tuple(words)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return plain.cast(pa.string())
