"""The paper's figures made again: what is drawn, what is left out, and what is refused."""

import builtins
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from benchmarks import figures as module
from benchmarks.figures import Points, figures, separable, toys
from threea.cli import app
from threea.errors import MissingExtra, SettingError
from threea.recipes import Independent


@pytest.fixture
def small(monkeypatch):
    """Few rows and few settings, so that pictures take seconds."""
    monkeypatch.setattr(module, "ROWS", 300)
    monkeypatch.setattr(module, "FIRST_ROWS", 600)
    monkeypatch.setattr(module, "SHOWN", 20)
    monkeypatch.setattr(module, "ALPHA", 1.0)
    monkeypatch.setattr(module, "TOY_SIGMA", {1.0: 0.2, 10.0: 0.1})
    monkeypatch.setattr(module, "DIGIT_EPSILONS", (1.0,))


def _mnist(folder: Path) -> None:
    """Write an archive of MNIST's shape: each class a bar at a place of its own."""
    rng = np.random.default_rng(0)
    digits = np.arange(120, dtype=np.uint8) % 10
    images = rng.integers(0, 30, (120, 28, 28)).astype(np.uint8)
    for image, digit in zip(images, digits, strict=True):
        image[2 * digit : 2 * digit + 3] = 255
    np.savez(folder / "mnist.npz", x_train=images[:100], y_train=digits[:100], x_test=images[100:], y_test=digits[100:])


def _told(result) -> str:
    return " ".join(result.output.split())


def test_figures_are_drawn_and_the_one_without_data_is_left_out_with_a_line(small, tmp_path):
    result = CliRunner().invoke(app, ["benchmark", "figures", "--data", str(tmp_path), "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in tmp_path.iterdir()) == ["figure1.svg", "figure2.svg"]
    assert "figure3.png is left out: " in _told(result)
    first = (tmp_path / "figure1.svg").read_text()
    assert len(re.findall(r"rows on the wrong side", first)) == 4
    second = (tmp_path / "figure2.svg").read_text()
    for word in ("moons", "circles", "blobs", "real", "published", "proven", "epsilon 10", "first feature"):
        assert word in second


def test_digits_are_drawn_where_the_data_folder_has_them(small, tmp_path, monkeypatch):
    _mnist(tmp_path)
    assert list(module.digit_recipes()) == ["clustmix, published", "clustmix, proven", "auto"]
    # The simplest recipe stands for the others, which take minutes on so many columns.
    monkeypatch.setattr(module, "digit_recipes", lambda: {"independent": Independent(bins=2)})
    plot, drawn = module._matplotlib(), []
    figure = module.figure3(plot, module.datasets.load("mnist", tmp_path), drawn.append)
    assert [axis.get_ylabel() for axis in figure.axes[::10]] == ["independent\nepsilon 1"]
    assert drawn == ["digits by independent at epsilon 1"]
    assert len(figure.axes) == 10, "no line of private digits"
    for number in (1, 2, 3):
        monkeypatch.setattr(module, f"figure{number}", lambda plot, *more: plot.figure())
    plot.close(figure)
    files = figures(tmp_path, data=tmp_path)
    assert [file.name for file in files] == ["figure1.svg", "figure2.svg", "figure3.png"]
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_a_class_without_an_image_is_none():
    names = [f"pixel{place}" for place in range(784)]
    table = pa.table({**{name: [1] for name in names}, "digit": ["4"]})
    found = module._one_of_each(table, "digit")
    assert [image is None for image in found] == [digit != 4 for digit in range(10)]
    assert found[4].shape == (28, 28)


def test_the_first_toy_is_separable_and_all_are_in_the_unit_square():
    first = separable()
    side = first.places @ [-0.3, 1] > 0.4
    assert (side == (first.labels == 0)).all()
    for toy in (first, *toys().values()):
        assert toy.places.min() >= 0
        assert toy.places.max() <= 1
        back = Points.of(toy.table)
        np.testing.assert_array_equal(back.places, toy.places)
        np.testing.assert_array_equal(back.labels, toy.labels)


def test_a_picture_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def fails(plot):
        raise ZeroDivisionError

    monkeypatch.setattr(module, "figure1", fails)
    with pytest.raises(ZeroDivisionError):
        figures(tmp_path, data=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SettingError, match=r"^out \(.*gone\) must be a folder that exists"):
        figures(tmp_path / "gone", data=tmp_path)


@pytest.mark.parametrize("option", ["datasets", "recipes", "epsilon", "seeds"])
def test_settings_of_tables_are_refused(option, tmp_path):
    result = CliRunner().invoke(app, ["benchmark", "figures", f"--{option}", "3", "--out", str(tmp_path)])
    assert isinstance(result.exception, SettingError)
    assert str(result.exception) == f"{option} (3) cannot be chosen for figures; leave it out"


@pytest.mark.parametrize(
    ("missing", "call"),
    [
        ("matplotlib", lambda folder: figures(folder, data=folder)),
        ("sklearn", lambda folder: toys()),
    ],
)
def test_an_extra_that_is_not_installed_is_named(missing, call, tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == missing:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"is not installed; pip install 'threea\["):
        call(tmp_path)
