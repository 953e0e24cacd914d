"""Pictures of what every recipe makes: MNIST digits at epsilon 1 and 10, and two-dimensional toy tables.

Each picture is a file of docs/images. What could not be drawn, and why, is in the results; docs/gallery.md shows both.
Name recipes in THREEA_RECIPES to draw only these anew, and say THREEA_PICTURES=toys or digits for one kind alone.
"""

import json
import os
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import datasets
from benchmarks.measure import named_recipe
from benchmarks.record import RESULTS, record
from threea.certificate import Guarantee
from threea.errors import ThreeaError
from threea.recipes import DEFAULT, RECIPES
from threea.session import make_recipe, synthesize
from threea.table.schema import Schema

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[2] / "shared" / "data"))
DOCS = Path(__file__).parents[1] / "docs"
QUICK = {
    "dpmerf": {"features": "300", "iterations": "600"},
    "laplacegan": {"iterations": "1000"},
    "laplacegan-published": {"iterations": "4000"},
}
"""Fewer steps than by default, so that the gallery is drawn in minutes."""
EPSILONS = (1.0, 10.0)
DIGITS, EACH, ROWS, TOY_ROWS = 10, 4, 10_000, 4000
SIDE, TOY_SIDE = 28, 112
_COLOURS = np.array([[31, 119, 180], [255, 127, 14]], np.uint8)

Pixels = NDArray[np.uint8]


def main() -> None:
    """Draw every picture, and write the page."""
    chosen = os.environ.get("THREEA_RECIPES")
    wanted = chosen.split(";") if chosen else [name for name in RECIPES if name != DEFAULT]
    kinds = os.environ.get("THREEA_PICTURES", "toys,digits").split(",")
    (DOCS / "images").mkdir(exist_ok=True)
    png("toys-private", np.hstack([framed(scatter(*toy(name))) for name in TOYS]))
    digits = datasets.load("mnist", DATA)
    train = digits.split(0)[0].slice(0, ROWS)
    png("digits-private", sheet(digits, train))

    def toys(text: str, epsilon: float) -> Pixels:
        return np.hstack([framed(made_toy(name, text, epsilon)) for name in TOYS])

    def numerals(text: str, epsilon: float) -> Pixels:
        return sheet(digits, released(train, digits.schema, text, epsilon, rows=2000, delta=1 / ROWS))

    for kind, draw in {"toys": toys, "digits": numerals}.items():
        for text in wanted if kind in kinds else ():
            for epsilon in EPSILONS:
                drawn(f"{kind}-{plain(text)}-{epsilon:g}", draw, text, epsilon)
                page()


def drawn(name: str, draw: Callable[[str, float], Pixels], text: str, epsilon: float) -> None:
    """Draw a picture, or note why there is none."""
    start = time.process_time()
    try:
        png(name, draw(text, epsilon))
        note = ""
    except ThreeaError as error:
        note = " ".join(str(error).split())
    found = {"refused": note, "cpu_seconds": round(time.process_time() - start, 1)}
    settings = {"rows": ROWS, "toy_rows": TOY_ROWS, "seed": 0, "fewer_steps": QUICK}
    record("gallery", settings, notes() | {name: found})


def notes() -> dict[str, Any]:
    """Return what was noted of every picture so far."""
    path = RESULTS / "gallery.json"
    return dict(json.loads(path.read_text())["results"]) if path.exists() else {}


def released(table: Any, schema: Any, text: str, epsilon: float, *, rows: int, delta: float) -> Any:
    """Return rows that a recipe makes."""
    recipe = make_recipe(text, QUICK[text]) if text in QUICK else named_recipe(text)
    unproven = recipe.guarantee is not Guarantee.PROVEN
    asked = None if recipe.fixed else rows
    options: dict[str, Any] = {"schema": schema, "recipe": recipe, "rows": asked, "seed": 0, "delta": delta}
    return synthesize(table, epsilon=epsilon, accept_unproven=unproven, **options).table


def sheet(dataset: Any, table: Any) -> Pixels:
    """Return some pictures of each class, a column for each."""
    labels = np.array([str(label) for label in table[dataset.target].to_pylist()])
    names = [name for name in table.column_names if name != dataset.target]
    pixels = np.column_stack([table[name].to_numpy() for name in names]).astype(np.uint8)
    rows = []
    for place in range(EACH):
        cells = []
        for digit in range(DIGITS):
            members = np.flatnonzero(labels == str(digit))
            blank = np.full((SIDE, SIDE), 128, np.uint8)
            cells.append(pixels[members[place]].reshape(SIDE, SIDE) if len(members) > place else blank)
        rows.append(np.hstack(cells))
    return np.repeat(255 - np.vstack(rows)[:, :, None], 3, axis=2)


def moons(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return two half circles that reach into one another."""
    group = rng.integers(0, 2, TOY_ROWS)
    angle = rng.random(TOY_ROWS) * np.pi
    points = np.column_stack([np.cos(angle) + group - 0.5, np.sin(angle) * (1 - 2 * group) + 0.5 * group - 0.25])
    return points / 1.8 + rng.normal(0, 0.04, points.shape), group


def rings(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a ring within a ring."""
    group = rng.integers(0, 2, TOY_ROWS)
    angle, radius = rng.random(TOY_ROWS) * 2 * np.pi, np.where(group, 0.4, 0.85)
    points = np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
    return points + rng.normal(0, 0.04, points.shape), group


def board(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a chess board of four by four fields."""
    points = rng.uniform(-0.95, 0.95, (TOY_ROWS, 2))
    return points, (np.floor(points * 2.1).sum(axis=1).astype(np.int64)) % 2


TOYS = {"moons": moons, "rings": rings, "board": board}
TOY_SCHEMA = Schema.of(
    {
        "x": {"kind": "real", "lower": -1.2, "upper": 1.2, "nullable": False},
        "y": {"kind": "real", "lower": -1.2, "upper": 1.2, "nullable": False},
        "c": {"kind": "categorical", "categories": ["0", "1"], "nullable": False},
    },
    target="c",
)


def toy(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return points and classes, the same each time."""
    return TOYS[name](np.random.default_rng(0))


def made_toy(name: str, text: str, epsilon: float) -> Pixels:
    """Return a picture of the rows that a recipe makes of a toy."""
    import pyarrow as pa

    points, group = toy(name)
    private = pa.table({"x": points[:, 0], "y": points[:, 1], "c": group.astype(str)})
    made = released(private, TOY_SCHEMA, text, epsilon, rows=TOY_ROWS, delta=1 / TOY_ROWS)
    codes = np.array(made["c"].to_pylist()).astype(int)
    return scatter(np.column_stack([made["x"].to_numpy(), made["y"].to_numpy()]), codes)


def scatter(points: NDArray[np.float64], group: NDArray[np.int64]) -> Pixels:
    """Return points as dots, each class in its colour."""
    picture = np.full((TOY_SIDE, TOY_SIDE, 3), 255, np.uint8)
    place = np.clip(((points / 1.2 + 1) / 2 * TOY_SIDE).astype(int), 0, TOY_SIDE - 1)[:1500]
    picture[TOY_SIDE - 1 - place[:, 1], place[:, 0]] = _COLOURS[group[: len(place)]]
    return picture


def framed(picture: Pixels) -> Pixels:
    """Return a picture with a thin line around it."""
    return np.pad(picture, ((1, 1), (1, 1), (0, 0)), constant_values=200)


def plain(text: str) -> str:
    """Return a recipe's name and settings as a file may be named."""
    return text.replace(":", "-").replace("=", "-").replace(",", "-")


def png(name: str, picture: Pixels) -> None:
    """Write a picture, twice as large, as a PNG file."""
    large = np.repeat(np.repeat(picture, 2, axis=0), 2, axis=1)
    height, width, _ = large.shape
    lines = b"".join(b"\x00" + line.tobytes() for line in large)

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = part(b"IHDR", head) + part(b"IDAT", zlib.compress(lines, 9)) + part(b"IEND", b"")
    (DOCS / "images" / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def page() -> None:
    """Write the page that shows all pictures there are, and why others are not."""
    text = [
        "# Gallery",
        "",
        "What recipes make, drawn by `python -m benchmarks gallery`. Nothing is picked: the first rows of a release",
        "with seed 0. Networks with many steps are trained for fewer than by default (`gallery.json` says how many).",
        "Recipes that end in `-published`, and `adsgan`, have no proof.",
        "",
    ]
    digits = "one column for each class. Grey: no row of that class."
    heads = {
        "digits": f"## MNIST digits\n\nFrom {ROWS:,} of the training images; {digits}",
        "toys": f"## Toy tables\n\n{TOY_ROWS:,} made-up points in two classes: moons, rings, a board.",
    }
    for kind, head in heads.items():
        private = f"| the private rows | ![private](images/{kind}-private.png) | |"
        text += [head, "", "| recipe | epsilon 1 | epsilon 10 |", "|---|---|---|", private]
        known = {key: found for key, found in notes().items() if key.startswith(f"{kind}-")}
        for name in dict.fromkeys(key.removeprefix(f"{kind}-").rpartition("-")[0] for key in known):
            shown = [_shown(f"{kind}-{name}-{epsilon:g}", known) for epsilon in EPSILONS]
            text.append(f"| `{name}` | {shown[0]} | {shown[1]} |")
        text.append("")
    (DOCS / "gallery.md").write_text("\n".join(text).rstrip() + "\n")


def _shown(key: str, known: dict[str, Any]) -> str:
    if key not in known:
        return ""
    refused = known[key]["refused"].replace("|", "/")
    return f"Refused: {refused}" if refused else f"![{key}](images/{key}.png)"
