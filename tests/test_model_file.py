"""A release as one file: whole, the same everywhere, safe to read, and refused if a bit is wrong."""

import dataclasses
import hashlib
import io
import json
import random
import subprocess
import sys
import zipfile
from html import unescape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import threea
from benchmarks import hostile_models
from threea import hospital, model_file, plain_data
from threea.approximate.tree_model import TreeModel
from threea.drawing import LEAST_ROWS, default_note, default_rows
from threea.errors import InputError, SettingError
from threea.model_file import NAME, VERSION, load_release, packed
from threea.model_summary import ModelSummary
from threea.plain_data import CLASSES, NotPlain, restored, simplified
from threea.release import Release
from threea.report import render
from threea.table.cells import Bins
from threea.table.schema import Column, Kind, Schema
from threea.testing import SeededNoise

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.threea"))


@pytest.fixture(scope="module")
def release() -> Release:
    return threea.synthesize(hospital.stays(2_000), schema=hospital.schema(), epsilon=2.0, rows=500, seed=8)


@pytest.fixture(scope="module")
def saved(release, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "release"
    release.save(folder)
    return folder


def sealed(files):
    """Return an archive that checks itself, as anybody can make one."""
    return model_file._sealed(files)


def contents(data):
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        return {name: zipped.read(name) for name in zipped.namelist()}


class TestSaving:
    def test_a_release_has_five_files_and_the_certificate_names_the_model(self, saved):
        names = {"certificate.json", "model.threea", "report.html", "schema.toml", "synthetic.parquet"}
        assert {file.name for file in saved.iterdir()} == names
        stated = json.loads((saved / "certificate.json").read_text())
        assert stated["model_sha256"] == hashlib.sha256((saved / NAME).read_bytes()).hexdigest()

    def test_equal_releases_are_equal_bytes_and_say_when_they_were_made(self, release, saved):
        assert packed(release) == packed(dataclasses.replace(release)) == (saved / NAME).read_bytes()
        assert packed(dataclasses.replace(release, seed=release.seed + 1)) != packed(release)
        assert load_release(saved).certificate().created == release.certificate().created

    def test_it_is_an_ordinary_archive_without_pickles(self, saved):
        files = contents((saved / NAME).read_bytes())
        assert set(files) == {"release.json", "arrays.npz"}
        assert json.loads(files["release.json"])["version"] == VERSION
        with np.load(io.BytesIO(files["arrays.npz"]), allow_pickle=False) as arrays:
            assert len(arrays.files) > 10
            assert all(arrays[name].dtype.kind in "fiub" for name in arrays.files)

    def test_a_strangers_model_is_saved_without_a_file(self, release, tmp_path):
        class Own(TreeModel):
            pass

        tree = release.model.model
        own = Own(**{field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)})
        stranger = dataclasses.replace(release, model=own)
        assert packed(stranger) is None
        stranger.save(tmp_path / "out")
        assert not (tmp_path / "out" / NAME).exists()
        assert json.loads((tmp_path / "out" / "certificate.json").read_text())["model_sha256"] == ""
        with pytest.raises(InputError, match=r"model\.threea does not exist; give the folder"):
            load_release(tmp_path / "out")

    def test_too_large_a_model_is_saved_without_a_file(self, release, monkeypatch):
        monkeypatch.setattr(model_file, "MOST_BYTES", 1_000)
        assert packed(release) is None

    def test_what_a_draft_read_of_an_edited_column_is_not_written(self, release):
        """The digest of a private section could be guessed at; that of a column left as it is tells nothing new."""
        touched, left, *others = release.schema.columns
        marked = (
            dataclasses.replace(touched, as_read="feedfacecafe"),
            dataclasses.replace(left, as_read=left.digest),
            *others,
        )
        file = packed(dataclasses.replace(release, schema=dataclasses.replace(release.schema, columns=marked)))
        assert b"feedfacecafe" not in file
        assert left.digest.encode() in file


class TestLoading:
    def test_another_process_draws_the_same_rows(self, release, saved):
        code = (
            "import sys, hashlib, threea\n"
            "release = threea.load_release(sys.argv[1])\n"
            "for table in (release.table, release.sample(300, given={'died': True}, seed=4)):\n"
            "    print(hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest())\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True)
        tables = (release.table, release.sample(300, given={"died": True}, seed=4))
        wanted = [hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest() for table in tables]
        assert done.stdout.split() == wanted

    def test_a_folder_or_the_file_and_all_of_the_release(self, release, saved, tmp_path):
        alone = tmp_path / "elsewhere.threea"
        alone.write_bytes((saved / NAME).read_bytes())
        for loaded in (load_release(saved), load_release(str(saved / NAME)), load_release(alone)):
            assert loaded.table.equals(release.table)
            assert loaded.certificate() == release.certificate()
            assert (loaded.guarantee, loaded.rows, loaded.plan) == (release.guarantee, release.rows, release.plan)
            loaded.save(tmp_path / "again")
            assert (tmp_path / "again" / NAME).read_bytes() == alone.read_bytes()
            for file in (tmp_path / "again").iterdir():
                file.unlink()
            (tmp_path / "again").rmdir()

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_rows_come_back_as_the_kind_of_table_that_came_in(self, library, tmp_path):
        module = pytest.importorskip(library)
        stays = hospital.stays(300)
        frame = stays.to_pandas() if library == "pandas" else module.from_arrow(stays)
        made = threea.synthesize(frame, schema=hospital.schema(), epsilon=1.0, rows=20, recipe="independent")
        made.save(tmp_path / "out")
        drawn = load_release(tmp_path / "out").sample(10)
        assert isinstance(drawn, module.DataFrame)
        assert list(drawn.columns) == list(frame.columns)

    def test_the_seed_of_the_release_gives_its_own_rows_and_none_gives_others(self, release, saved):
        loaded = load_release(saved)
        assert loaded.sample(500, seed=8).equals(release.table)
        assert not loaded.sample(500).equals(loaded.sample(500))

    @pytest.mark.parametrize(("rows", "seed"), [(0, None), (-1, 3), (2.5, 1), (10, -1)])
    def test_impossible_numbers_are_refused(self, release, rows, seed):
        with pytest.raises(SettingError, match=r"must be a whole number"):
            release.sample(rows, seed=seed)

    def test_more_rows_than_a_chunk_has(self, release):
        many = release.sample((1 << 16) + 10, given={"died": True}, seed=1)
        assert many.num_rows == (1 << 16) + 10
        assert set(many["died"].to_pylist()) == {True}


class TestDamage:
    def test_a_flipped_bit_anywhere_is_refused_in_one_line(self, saved, tmp_path):
        """All bits of the ends, and some of the middle, with and without a certificate beside it."""
        data, random_bits = (saved / NAME).read_bytes(), random.Random(0)
        alone, beside = tmp_path / "alone.threea", tmp_path / NAME
        (tmp_path / "certificate.json").write_text((saved / "certificate.json").read_text())
        edges = [*range(400), *range(8 * len(data) - 1600, 8 * len(data))]
        for bit in [*edges, *random_bits.sample(range(8 * len(data)), 1_000)]:
            broken = bytearray(data)
            broken[bit // 8] ^= 1 << (bit % 8)
            for path in (alone, beside):
                path.write_bytes(broken)
                with pytest.raises(InputError, match=r"is damaged, or no model of threea's; take it from the release"):
                    load_release(path)

    @pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 1000, -1])
    def test_a_part_of_it_is_refused(self, saved, tmp_path, length):
        (tmp_path / "part.threea").write_bytes((saved / NAME).read_bytes()[:length])
        with pytest.raises(InputError, match="is damaged"):
            load_release(tmp_path / "part.threea")

    def test_another_releases_model_is_refused(self, release, saved, tmp_path):
        (tmp_path / "certificate.json").write_text((saved / "certificate.json").read_text())
        (tmp_path / NAME).write_bytes(packed(dataclasses.replace(release, seed=1)))
        with pytest.raises(InputError, match=r"is not the model that certificate\.json beside it names"):
            load_release(tmp_path)

    @pytest.mark.parametrize("text", ["{", "[" * 100_000, "null", "3"])
    def test_a_certificate_that_cannot_be_read_is_refused(self, saved, tmp_path, text):
        (tmp_path / "certificate.json").write_text(text)
        (tmp_path / NAME).write_bytes((saved / NAME).read_bytes())
        with pytest.raises(InputError, match="take the release again"):
            load_release(tmp_path)

    def test_what_is_not_there_or_too_large_is_refused(self, saved, tmp_path, monkeypatch):
        for path in (tmp_path / "none", tmp_path, saved / NAME / "below"):
            with pytest.raises(InputError, match="does not exist"):
                load_release(path)
        with pytest.raises(InputError, match="cannot be read"):
            load_release("a\0b")
        monkeypatch.setattr(model_file, "MOST_BYTES", 1_000)
        with pytest.raises(InputError, match="more than a model's 1,000"):
            load_release(saved)


class TestForgery:
    """Files that check themselves and were not written by threea: refused, without running or allocating anything."""

    @pytest.fixture
    def files(self, saved):
        return contents((saved / NAME).read_bytes())

    def refused(self, tmp_path, data, said="is damaged"):
        path = tmp_path / "forged.threea"
        path.write_bytes(data)
        with pytest.raises(InputError, match=said):
            load_release(path)

    def changed(self, files, change):
        data = json.loads(files["release.json"])
        change(data)
        return sealed({**files, "release.json": json.dumps(data).encode()})

    def test_the_forgers_tool_makes_valid_files(self, files, tmp_path):
        path = tmp_path / "copy.threea"
        path.write_bytes(sealed(files))
        assert load_release(path).rows == 500

    def test_classes_that_are_not_listed(self, files, tmp_path):
        for name in ("Popen", "os.system", "PrivateTable", "builtins.eval", "Recipe"):
            self.refused(tmp_path, self.changed(files, lambda data, name=name: data["release"].update({"class": name})))

    def test_fields_and_kinds_that_do_not_fit(self, files, tmp_path):
        def fields(data):
            return data["release"]["fields"]

        for change in (
            lambda data: fields(data).update(strange=1),
            lambda data: fields(data).pop("model"),
            lambda data: fields(data).update(model=3),
            lambda data: fields(data).update(model={"array": 0}),
            lambda data: fields(data)["model"]["fields"].update(weights={"array": 10**6}),
            lambda data: fields(data)["model"]["fields"].update(weights="text"),
            lambda data: fields(data).update(promised={"enum": "Guarantee", "value": "holy"}),
            lambda data: fields(data).update(promised={"enum": "Release", "value": "proven"}),
            lambda data: fields(data).update(layout={"layout": "bm90IGEgc2NoZW1h"}),
            lambda data: fields(data).update(layout={"unknown": 1}),
            lambda data: data.update(format="other"),
            lambda data: data.update(version="1"),
            lambda data: data.pop("release"),
        ):
            self.refused(tmp_path, self.changed(files, change))

    def test_a_later_version_says_so(self, files, tmp_path):
        later = self.changed(files, lambda data: data.update(version=VERSION + 1))
        self.refused(tmp_path, later, f"of version {VERSION + 1}, this threea reads {VERSION}; update threea")

    def test_deep_nesting(self, files, tmp_path):
        for depth in (plain_data.DEEPEST + 2, 100_000):
            nested = files["release.json"].replace(b'"assumptions":[]', b'"assumptions":' + b"[" * depth + b"]" * depth)
            assert nested != files["release.json"]
            self.refused(tmp_path, sealed({**files, "release.json": nested}))

    def test_bombs(self, files, tmp_path):
        bomb = io.BytesIO()
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("0.npy", bytes(10_000_000))
        self.refused(tmp_path, sealed({**files, "arrays.npz": bomb.getvalue()}))
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.zeros(2))
        vast = buffer.getvalue().replace(b"(2,)", b"(1099511627776,)".ljust(4))
        with zipfile.ZipFile(bomb := io.BytesIO(), "w") as zipped:
            zipped.writestr("0.npy", vast)
        self.refused(tmp_path, sealed({**files, "arrays.npz": bomb.getvalue()}))

    def test_pickles_in_arrays(self, files, tmp_path):
        with zipfile.ZipFile(pickled := io.BytesIO(), "w") as zipped:
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.array([{"a": 1}], object), allow_pickle=True)
            zipped.writestr("0.npy", buffer.getvalue())
        self.refused(tmp_path, sealed({**files, "arrays.npz": pickled.getvalue()}))

    def test_files_more_or_less(self, files, tmp_path):
        self.refused(tmp_path, sealed({**files, "more": b""}))
        self.refused(tmp_path, sealed({"release.json": files["release.json"]}))


class TestHostileFiles:
    """Files of a few thousand bytes whose numbers ask for gigabytes, or that do not hang together."""

    def refused(self, tmp_path, change, kind="tree-1"):
        """Change a golden file and read it in a process with limits; a refusal takes one line."""
        files = contents((GOLDEN / f"{kind}.threea").read_bytes())
        data = json.loads(files["release.json"])
        change(data["release"]["fields"]["model"]["fields"])
        path = tmp_path / "hostile.threea"
        path.write_bytes(sealed({**files, "release.json": json.dumps(data).encode()}))
        assert hostile_models.ended(lambda: hostile_models.read_and_drawn(path)) == "refused"

    def test_a_group_of_cells_with_a_vast_number(self, tmp_path):
        def change(model):
            model["features"][0]["fields"]["merged"]["fields"]["groups"][-1] = 1 << 31

        self.refused(tmp_path, change)

    def test_more_categories_than_bytes(self, tmp_path):
        self.refused(tmp_path, lambda model: model["label"]["fields"]["cells"]["fields"].update(count=1 << 31))

    def test_more_random_numbers_than_a_network_takes(self, tmp_path):
        self.refused(tmp_path, lambda model: model.update(latent=17_000), "generator-1")

    def test_an_empty_array_of_vast_width(self, saved, tmp_path):
        files = contents((saved / NAME).read_bytes())
        arrays = contents(files["arrays.npz"])
        arrays["0.npy"] = hostile_models._with_header(np.zeros(0), "", (0, 1 << 40))
        path = tmp_path / "hostile.threea"
        path.write_bytes(sealed({**files, "arrays.npz": hostile_models._archive(list(arrays.values()))}))
        assert hostile_models.ended(lambda: hostile_models.read_and_drawn(path)) == "refused"

    def test_what_fails_while_rows_are_drawn_is_the_files_fault(self, release, saved, tmp_path):
        files = contents((saved / NAME).read_bytes())
        data = json.loads(files["release.json"])
        data["release"]["fields"]["restore"] = "text"
        path = tmp_path / "hostile.threea"
        path.write_bytes(sealed({**files, "release.json": json.dumps(data).encode()}))
        loaded = load_release(path)
        with pytest.raises(InputError, match=r"hostile\.threea is damaged, or no model of threea's"):
            loaded.sample(3)

    def test_a_bug_of_ours_is_not_told_as_a_files_fault(self, release):
        with pytest.raises(TypeError):
            dataclasses.replace(release, restore="text").sample(3)

    def test_numbers_that_are_no_sizes_have_no_bound(self, release, tmp_path):
        """A seed, a number of rows or of entries in a ledger may be larger than the file."""
        vast = dataclasses.replace(release, seed=2**63 + 5, rows=10**12)
        (tmp_path / NAME).write_bytes(packed(vast))
        assert load_release(tmp_path / NAME).seed == 2**63 + 5
        assert load_release(tmp_path / NAME).rows == 10**12

    def test_mutations_of_every_kind_of_model_are_drawn_or_refused(self):
        """As benchmarks/results/hostile-models.json has them of 20,000."""
        by_model = hostile_models.outcomes(5 * len(hostile_models.models()))
        assert len(by_model) == len(hostile_models.models())
        assert {outcome for counts in by_model.values() for outcome in counts} == {"refused", "drawn"}


class TestPlainData:
    def test_values_come_back_as_they_were(self):
        value = {
            "numbers": (1, -2.5, 1e-300, float("inf"), -float("inf"), True, None),
            "text": ("", "é\ud800", "\0"),
            3: {(1, "two"): Kind.DATE},
            "cells": Bins(column="a", edges=(0.0, 1.0), special=(9.0,), missing=True, log=False),
            "schema": Schema((Column(name="a", kind=Kind.BOOLEAN), Column(name="b", kind=Kind.ID)), target="a"),
            "layout": pa.schema([pa.field("a", pa.dictionary(pa.int32(), pa.string()), nullable=False)]),
        }
        arrays = []
        data = json.loads(json.dumps(simplified(value, arrays), allow_nan=False))
        assert restored(data, arrays) == value
        assert np.isnan(restored(simplified(float("nan"), []), []))
        assert simplified((np.int64(3), np.float64(0.5), np.bool_(True)), []) == [3, 0.5, True]

    @pytest.mark.parametrize("kind", ["<f8", "<f4", "<i8", "<i2", "|b1", ">f8"])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_arrays_keep_type_shape_and_order(self, kind, order):
        array = np.asarray(np.arange(12).reshape(2, 3, 2).astype(kind), order=order)
        stored = model_file._stored(model_file._npz([array, array[:0], np.array(3.0)]))
        again = model_file._array(stored["0.npy"])
        assert np.array_equal(again, array)
        assert again.dtype == array.dtype.newbyteorder("=")
        assert again.strides == array.strides
        assert again.flags.writeable
        assert model_file._array(stored["1.npy"]).shape == (0, 3, 2)
        assert model_file._array(stored["2.npy"]).shape == ()

    @pytest.mark.parametrize(
        "value", [[1], {1, 2}, b"bytes", object(), len, Release, np.array(["a"]), np.array([None]), lambda: 1]
    )
    def test_what_is_not_plain_is_not_written(self, value):
        with pytest.raises(NotPlain):
            simplified((value,), [])

    def test_every_listed_class_exists_and_is_frozen(self):
        assert len(CLASSES) == sum(map(len, plain_data._HOMES.values())), "a name is listed twice"
        for name in CLASSES:
            kind = plain_data._class(name)
            assert kind.__name__ == name
            assert not dataclasses.is_dataclass(kind) or kind.__dataclass_params__.frozen


class TestGolden:
    """Files of every version that was ever written are read, and draw the rows that they drew then."""

    def test_there_is_one_of_each_kind_of_model_and_version(self):
        kinds = {"taught", "tree", "histograms", "gaussians", "gaussian_clusters", "graphical", "mixture", "network"}
        kinds |= {"points", "published", "generator", "dated"}
        assert {file.stem for file in FILES} == {f"{kind}-{version}" for kind in kinds for version in (1,)}
        assert VERSION == 1, "a new version needs golden files: tests/golden/make.py"
        models = {type(load_release(file).model).__name__ for file in FILES}
        others = ("GaussianClusters", "Points", "Taught")
        written = {name for name in CLASSES if name.endswith("Model") or name in others}
        # In the file of two tables, which tests/linked reads.
        written.remove("ConditionalNetModel")
        assert models == written
        (calendar,) = load_release(GOLDEN / "dated-1.threea").calendars
        assert set(calendar.weights) == {"weekday"}

    @pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
    def test_it_draws_the_same_rows(self, file):
        release = load_release(file)
        drawn = json.loads(json.dumps(release.sample(6, seed=1).to_pylist(), default=str))
        expected = json.loads(file.with_suffix(".json").read_text())
        assert len(expected) == 6
        for row, wanted in zip(drawn, expected, strict=True):
            assert row.keys() == wanted.keys()
            for name, value in wanted.items():
                # Numbers may differ in the last digits where another processor adds them up.
                assert row[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)
        assert release.certificate().guarantee in ("none", "claimed"), "made with noise for tests"
        assert release.summary.points is None or release.rows == len(release.summary.points["age"])


class TestFieldsOfEarlierVersions:
    def test_what_no_version_reads_any_more_is_passed_over(self, saved, tmp_path):
        """A release that was the best of several said so; the model is read without it."""
        files = contents((saved / NAME).read_bytes())
        data = json.loads(files["release.json"])
        trial = {"recipe": "mst", "figure": "auc", "value": 0.7, "margin": None}
        data["release"]["fields"]["tried"] = [{"class": "Tried", "fields": trial}]
        earlier = tmp_path / NAME
        earlier.write_bytes(sealed({**files, "release.json": json.dumps(data).encode()}))
        assert load_release(earlier).sample(5, seed=1).equals(load_release(saved / NAME).sample(5, seed=1))

    def test_a_field_that_no_version_had_is_refused(self, saved, tmp_path):
        files = contents((saved / NAME).read_bytes())
        data = json.loads(files["release.json"])
        data["release"]["fields"]["best"] = []
        made = tmp_path / NAME
        made.write_bytes(sealed({**files, "release.json": json.dumps(data).encode()}))
        with pytest.raises(InputError, match="is damaged, or no model of threea's"):
            load_release(made)


class TestHowManyRows:
    @pytest.mark.parametrize(
        ("summary", "rows"),
        [
            (ModelSummary(private_rows=240, private_rows_stddev=80.0), 240),
            (ModelSummary(private_rows=239, private_rows_stddev=80.0), LEAST_ROWS),
            (ModelSummary(private_rows=2.4, private_rows_stddev=0.1), 2),
            (ModelSummary(private_rows=-5.0, private_rows_stddev=0.0), LEAST_ROWS),
            (ModelSummary(private_rows=0, private_rows_stddev=0.0), 1),
            (ModelSummary(), LEAST_ROWS),
            (ModelSummary(points={"x": np.zeros(7)}), 7),
        ],
    )
    def test_a_count_that_may_be_noise_says_nothing(self, summary, rows):
        assert default_rows(summary, 10, same=True) == rows
        assert bool(default_note(summary, rows)) == (rows == LEAST_ROWS and summary.private_rows is not None)

    @pytest.mark.usefixtures("usual_rows")
    def test_a_release_has_500_000_rows_at_least(self):
        table = threea.open_table(hospital.stays(300), schema=hospital.schema(), budget=threea.Budget(1.0))
        assert threea.recipes.Independent().run(table).rows == 500_000

    def test_more_rows_than_a_small_table_has_are_drawn_and_it_says_so(self):
        few, many = (ModelSummary(private_rows=count, private_rows_stddev=5.0) for count in (768, 600_000))
        drawn = [default_rows(few, 10), default_rows(many, 10), default_rows(few, 20_000)]
        assert drawn == [LEAST_ROWS, 600_000, 1_500]
        assert "More rows were drawn than the noisy count of private rows (768 ± 5)" in default_note(few, LEAST_ROWS)
        assert default_note(many, 600_000) == ""

    def test_many_rows_of_a_person_do_not_fill_a_disk(self):
        """300 rows, of a person's up to a million counted: the noisy count is of the order of ten million."""
        options = {"unit": "patient_id", "max_rows_per_unit": 1_000_000, "noise": SeededNoise(3)}
        table = threea.open_table(hospital.stays(300), schema=hospital.schema(), budget=threea.Budget(1.0), **options)
        release = threea.recipes.LabelTree().run(table)
        assert release.summary.private_rows_stddev > 1e6
        assert release.summary.private_rows > 1e5, "as many rows would be drawn"
        assert release.rows == LEAST_ROWS
        assert "does not stand out from its noise, so 2,000 rows were drawn" in release.rows_note
        assert release.rows_note in unescape(render(release, release.certificate(), release.table))

    def test_a_set_of_five_points_is_not_a_count_of_private_rows(self):
        """It was: a table of 3,000 rows was reported with a noisy count of 5."""
        release = threea.synthesize(
            hospital.stays(3_000), schema=hospital.schema(), epsilon=1.0, recipe=threea.recipes.DPMix(points=5)
        )
        assert release.rows == len(release.summary.points["age"]) <= 10
        assert release.summary.private_rows is None
        assert "private rows:" not in render(release, release.certificate(), release.table)
