"""A made-up table of house sales: prices that follow from what a house is and where, nearly without noise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.datasets.dataset import Dataset
from threea.table.schema import Schema

ROWS = 20_000
_SEED = 1
_TOWNS = tuple(f"town {letter}" for letter in "ABCDEFGHIJKLMNOPQRST")
_KINDS = ("detached", "terraced", "flat")
_STATES = ("poor", "fair", "good", "new")


def houses() -> Dataset:
    """Make the table up: 20,000 sales of houses; what does one cost?

    A logarithm of the price adds up from area, town, kind, state, age and plot, from products of these (a plot is worth
    more in some towns, age less in good states), from how near a house is to two centres, and from a little noise.
    """
    rng = np.random.default_rng(_SEED)
    town = np.minimum(rng.geometric(0.12, ROWS) - 1, len(_TOWNS) - 1)
    dear = rng.normal(0, 0.35, len(_TOWNS))
    kind = rng.choice(len(_KINDS), ROWS, p=[0.5, 0.3, 0.2])
    area = np.exp(rng.normal(4.7 - 0.25 * kind, 0.35))
    plot = np.where(kind == 2, 0.0, np.exp(rng.normal(6.2 - 0.7 * kind, 0.5)))
    rooms = np.clip(np.rint(area / 28 + rng.normal(0, 0.8, ROWS)), 1, 12)
    built = np.clip(np.rint(2020 - rng.gamma(2.0, 22.0, ROWS)), 1850, 2020)
    state = np.clip(np.digitize(rng.normal(0, 1, ROWS) + (built - 1970) / 40, [-1.0, 0.2, 1.2]), 0, 3)
    x, y = rng.normal(0, 10, (2, ROWS)) + rng.normal(0, 8, (2, len(_TOWNS)))[:, town]
    near = np.exp(-np.hypot(x - 5, y) / 6) + 0.6 * np.exp(-np.hypot(x + 10, y + 6) / 4)
    log_price = (
        12
        + 0.75 * (np.log(area) - 4.6)
        + dear[town]
        - 0.12 * kind
        + 0.09 * state
        - 0.004 * (2020 - built) * (1 - 0.25 * state)
        + 0.06 * np.log1p(plot / 100) * (1 + 1.5 * dear[town])
        + 0.5 * near
        + rng.normal(0, 0.17, ROWS)
    )
    columns = {
        "town": pa.array(np.asarray(_TOWNS)[town]),
        "kind": pa.array(np.asarray(_KINDS)[kind]),
        "state": pa.array(np.asarray(_STATES)[state]),
        "area": pa.array(np.round(area, 1)),
        "plot": pa.array(np.rint(plot).astype(np.int64)),
        "rooms": pa.array(rooms.astype(np.int64)),
        "built": pa.array(built.astype(np.int64)),
        "east_km": pa.array(np.round(x, 2)),
        "north_km": pa.array(np.round(y, 2)),
        "garages": pa.array(rng.binomial(2, 0.4, ROWS)),
        "weeks_listed": pa.array(rng.geometric(0.1, ROWS)),
        "price": pa.array(np.round(np.exp(log_price), -2)),
    }
    return Dataset(
        name="houses",
        title="house sales, made up",
        table=pa.table(columns),
        target="price",
        schema=Schema.of(_PUBLIC, target="price"),
    )


_PUBLIC = {
    "town": {"kind": "categorical", "categories": list(_TOWNS), "nullable": False},
    "kind": {"kind": "categorical", "categories": list(_KINDS), "nullable": False},
    "state": {"kind": "categorical", "categories": list(_STATES), "nullable": False},
    "area": {"kind": "real", "lower": 20.0, "upper": 500.0, "nullable": False},
    "plot": {"kind": "integer", "lower": 0, "upper": 5000, "special": [0], "nullable": False},
    "rooms": {"kind": "integer", "lower": 1, "upper": 12, "nullable": False},
    "built": {"kind": "integer", "lower": 1850, "upper": 2020, "nullable": False},
    "east_km": {"kind": "real", "lower": -60.0, "upper": 60.0, "nullable": False},
    "north_km": {"kind": "real", "lower": -60.0, "upper": 60.0, "nullable": False},
    "garages": {"kind": "integer", "lower": 0, "upper": 2, "nullable": False},
    "weeks_listed": {"kind": "integer", "lower": 1, "upper": 104, "nullable": False},
    "price": {"kind": "real", "lower": 20_000.0, "upper": 2_000_000.0, "nullable": False},
}
