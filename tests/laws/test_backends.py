"""The law of every engine: equal sums to the bit, however the rows are stored, cut or ordered."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest

from threea import codec, hospital
from threea.anonymize.bounding import integer_sum, step_of
from threea.anonymize.opening import _fingerprint
from threea.anonymize.query import Count, Features, Grouped, Marginal, Moments, Stack
from threea.backends import MemoryBackend, RowBackend, base, open_backend
from threea.backends.files import CsvBackend, ParquetBackend
from threea.backends.units import UnitBackend

ROWS = 2_000
STAYS = hospital.stays(ROWS)
# Written as text, a 32-bit float comes back as another 64-bit one.
STAYS = STAYS.set_column(STAYS.column_names.index("creatinine"), "creatinine", STAYS["creatinine"].cast(pa.float64()))
SCHEMA = codec.fit(hospital.schema(), STAYS.schema)
SECRET = bytes(32)


class OnlySums:
    """An engine with no verb but `sum`, which cuts the rows its own way."""

    def __init__(self, table):
        self._table, self.layout = table, table.schema.remove_metadata()

    def sum(self, function, columns):
        parts = [
            function(batch)
            for start in range(0, ROWS, 331)
            for batch in self._table.slice(start, 331).select(list(columns) or ["age"]).combine_chunks().to_batches()
        ]
        return np.sum(parts[::-1], axis=0)


def _shuffled(table, seed=5):
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))


def _memory(folder):
    return MemoryBackend(STAYS)


def _rechunked(folder):
    return MemoryBackend(pa.concat_tables([STAYS.slice(start, 61) for start in range(0, ROWS, 61)]))


def _in_another_order(folder):
    return MemoryBackend(_shuffled(STAYS))


def _parquet_file(folder):
    pyarrow.parquet.write_table(STAYS, folder / "stays.parquet", row_group_size=173)
    return ParquetBackend(folder / "stays.parquet")


def _parquet_folder(folder):
    (folder / "stays").mkdir()
    for number, start in enumerate(range(0, ROWS, 450)):
        pyarrow.parquet.write_table(STAYS.slice(start, 450), folder / "stays" / f"{number}.parquet")
    return ParquetBackend(folder / "stays")


def _csv(folder):
    pyarrow.csv.write_csv(STAYS, folder / "stays.csv")
    return CsvBackend(folder / "stays.csv")


def _dictionaries(folder):
    coded = STAYS
    for name in ("ward", "diagnosis", "patient_id"):
        place = coded.schema.get_field_index(name)
        coded = coded.set_column(place, name, coded.column(name).dictionary_encode())
    return MemoryBackend(coded)


def _all_rows_of_each_person(folder):
    return UnitBackend(MemoryBackend(STAYS), "patient_id", ROWS, b"key")


def _persons_in_csv(folder):
    return UnitBackend(_csv(folder), "patient_id", ROWS, b"key")


def _everyone_sampled(folder):
    units = UnitBackend(MemoryBackend(_shuffled(STAYS)), "patient_id", ROWS, b"key")
    return units.sampled(np.ones(units.units, np.bool_))


def _pandas(folder):
    return open_backend(STAYS.to_pandas())[0]


def _polars(folder):
    polars = pytest.importorskip("polars")
    return open_backend(polars.from_arrow(STAYS))[0]


ENGINES = [
    _rechunked,
    _in_another_order,
    _parquet_file,
    _parquet_folder,
    _csv,
    _dictionaries,
    _all_rows_of_each_person,
    _persons_in_csv,
    _everyone_sampled,
    _pandas,
    _polars,
    lambda folder: OnlySums(STAYS),
]


def _angles(chunk):
    """Return vectors of all lengths, half of them longer than the bound."""
    ages = chunk["age"][:, None] * np.arange(1, 20)
    return np.sin(ages) * np.nan_to_num(chunk["lactate"], nan=0.1)[:, None]


_NUMBERS = tuple(column for column in SCHEMA.modelled if column.kind.numeric)
QUERIES = [
    Count(),
    *(Marginal((column.cells(9),)) for column in SCHEMA.modelled),
    Marginal((SCHEMA["died"].cells(9), SCHEMA["cost"].cells(9), SCHEMA["ward"].cells(9))),
    Moments(_NUMBERS),
    Features(function=_angles, columns=("age", "lactate"), shape=(19,), l2=2.0, l1=3.0),
    Grouped(SCHEMA["ward"].cells(9), Moments(_NUMBERS, 1)),
    Stack((Count(), Marginal((SCHEMA["age"].cells(9),)), Moments(_NUMBERS))),
]


def sums(engine, query, *, l1):
    step = step_of(query.l1 if l1 else query.l2)

    def row_sum(batch):
        return integer_sum(query, codec.encode(batch, SCHEMA), batch.num_rows, step=step, l1=l1)

    return engine.sum(row_sum, query.columns)


@pytest.fixture(scope="module")
def expected():
    """The sums of the table in memory, each checked to see rows at all."""
    found = {(number, l1): sums(_memory(None), query, l1=l1) for number, query in enumerate(QUERIES) for l1 in (0, 1)}
    assert all(np.any(total) for total in found.values())
    return found


@pytest.mark.parametrize("make", ENGINES, ids=lambda make: make.__name__.strip("_<>"))
def test_every_engine_gives_the_same_sums(make, tmp_path, expected):
    engine = make(tmp_path)
    for (number, l1), total in expected.items():
        found = sums(engine, QUERIES[number], l1=bool(l1))
        assert found.dtype == np.int64
        assert np.array_equal(found, total)


@pytest.mark.parametrize("make", ENGINES[:-1], ids=lambda make: make.__name__.strip("_<>"))
def test_every_engine_with_rows_hands_over_all_of_them(make, tmp_path):
    engine = make(tmp_path)
    assert isinstance(engine, RowBackend)
    table = engine.table()
    assert table.num_rows == ROWS
    assert table.schema.names == engine.layout.names == STAYS.schema.names
    assert table.schema.types == engine.layout.types
    assert sorted(table["patient_id"].cast(pa.string()).to_pylist()) == sorted(STAYS["patient_id"].to_pylist())
    assert engine.count_values("diagnosis") == {
        pair["values"]: pair["counts"] for pair in pc.value_counts(STAYS["diagnosis"]).to_pylist()
    }


# Text in a CSV file is hashed as text, so it stands apart.
SAME_ROWS = [_rechunked, _in_another_order, _parquet_file, _parquet_folder, _all_rows_of_each_person, _dictionaries]


@pytest.mark.parametrize("make", SAME_ROWS, ids=lambda make: make.__name__.strip("_"))
def test_the_fingerprint_is_of_the_rows_alone(make, tmp_path):
    assert _fingerprint(make(tmp_path), SECRET) == _fingerprint(_memory(tmp_path), SECRET)


def test_the_fingerprint_of_a_csv_file_does_not_hang_on_the_order_of_its_lines(tmp_path):
    pyarrow.csv.write_csv(_shuffled(STAYS), tmp_path / "shuffled.csv")
    assert _fingerprint(_csv(tmp_path), SECRET) == _fingerprint(CsvBackend(tmp_path / "shuffled.csv"), SECRET)


def test_the_fingerprint_tells_tables_apart():
    changed = STAYS.set_column(4, "age", pc.add(STAYS["age"], pa.scalar(1, pa.int16())))
    twice = pa.concat_tables([STAYS, STAYS.slice(0, 1)])
    swapped = STAYS.rename_columns(
        ["lactate" if n == "cost" else "cost" if n == "lactate" else n for n in STAYS.column_names]
    )
    prints = [_fingerprint(MemoryBackend(table), SECRET) for table in (STAYS, STAYS.slice(1), changed, twice, swapped)]
    assert len(set(prints)) == len(prints)
    assert _fingerprint(MemoryBackend(STAYS), b"another secret") not in prints


def test_sums_of_no_rows_are_zeros():
    empty = MemoryBackend(STAYS.slice(0, 0))
    for query in QUERIES:
        assert np.array_equal(sums(empty, query, l1=False), np.zeros(query.size, np.int64))


def test_a_table_of_more_rows_than_stay_exact_is_refused(monkeypatch):
    monkeypatch.setattr(base, "MAX_ROWS", ROWS - 1)
    with pytest.raises(base.InputError, match="stay exact"):
        sums(MemoryBackend(STAYS), Count(), l1=False)
