"""Public tables of signals: spoken letters and written digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.datasets.dataset import Dataset, existing, read, uniform_schema
from benchmarks.datasets.published import TABLE1
from threea.errors import InputError


def isolet(folder: Path) -> Dataset:
    """Load ISOLET as two classes: 6,238 spoken letters of isolet1 to isolet4, is one a vowel?

    Split 70 to 30, which leaves the 4,366 training rows that the paper states. Public: all features are in [-1, 1].
    """
    table = read(folder, "isolet.parquet", keep=["letter", "part", "vowel"])
    table = table.filter(pc.not_equal(table["part"], "isolet5")).drop_columns(["letter", "part"])
    features = [name for name in table.column_names if name != "vowel"]
    described = {"kind": "real", "lower": -1.0, "upper": 1.0, "nullable": False}
    return Dataset(
        name="isolet",
        title="ISOLET, UCI 54, vowels",
        table=table,
        target="vowel",
        schema=uniform_schema(features, described, "vowel", ["0", "1"]),
        published=TABLE1["isolet"],
        held_out=0.3,
    )


def mnist(folder: Path) -> Dataset:
    """Load MNIST: 60,000 written digits to train and 10,000 to test, as published.

    Public: pixels are from 0 to 255, and 0 is the empty background. The score is accuracy, delta is 1e-5.
    """
    path = existing(folder, "mnist.npz")
    try:
        with np.load(path) as arrays:
            images = np.concatenate([arrays["x_train"], arrays["x_test"]])
            digits = np.concatenate([arrays["y_train"], arrays["y_test"]])
            tested = len(arrays["y_test"])
    except (KeyError, ValueError, OSError):
        raise InputError(f"{path} is not the MNIST archive that README.md of the data folder describes") from None
    pixels = images.reshape(len(images), -1)
    names = [f"pixel{pixel}" for pixel in range(pixels.shape[1])]
    fields = [pa.field(name, pa.uint8(), nullable=False) for name in (*names, "digit")]
    columns = [pa.array(np.ascontiguousarray(pixels[:, pixel])) for pixel in range(pixels.shape[1])]
    described = {"kind": "integer", "lower": 0, "upper": 255, "special": [0], "nullable": False}
    return Dataset(
        name="mnist",
        title="MNIST",
        table=pa.Table.from_arrays([*columns, pa.array(digits)], schema=pa.schema(fields)),
        target="digit",
        schema=uniform_schema(names, described, "digit", [str(digit) for digit in range(10)]),
        metric="accuracy",
        published=TABLE1["MNIST"],
        official_test=tested,
        fixed_delta=1e-5,
    )
