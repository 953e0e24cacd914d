"""How like the private rows the released rows are, beside what sampling alone would give."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.evaluate.evidence import Evidence
from threea.evaluate.fidelity import correlation, jackknife, marginals, values
from threea.evaluate.fidelity.detector import detector
from threea.evaluate.fidelity.marginals import Sorted
from threea.evaluate.fidelity.rare import rare_categories
from threea.table.schema import Schema

Floats = NDArray[np.float64]

MATRIX_COLUMNS = 40


def fidelity(evidence: Evidence, seed: int = 0) -> dict[str, Any]:
    """Measure how far the release is from the training rows. Owner-only: it reads real rows.

    Every distance is given three times: ``synthetic`` (all released rows against the training rows), ``matched`` and
    ``floor`` (as many released and as many holdout rows as the smaller of the two tables has; the holdout's distance is
    what sampling alone gives). Compare ``matched`` with ``floor``: both have the same sampling error.

    Args:
        evidence: The release and the real rows.
        seed: Makes it repeatable.

    Returns:
        Plain data. ``rows`` per table (``holdout``: those of the floor), ``bins``, ``interval`` (how intervals were
        made);
        ``columns``: per column name, kind, total_variation, wasserstein (numeric columns; a share of the range of all
        values, real and synthetic), ``values`` (numeric columns; see `values.described`) and ``picture`` (bars);
        ``broken``: what is not as people know it, by column; ``thinned``: whether released rows were left out so that
        the classes have the private ratio;
        ``marginals``: for 1, 2 and 3 columns the mean total_variation, how many were ``measured`` ``of`` how many, and
        whether all or a random ``sample``; ``correlation``: see `_correlations`; ``detector``: see `detector`;
        ``rare_categories``: see `rare_categories`.

    Raises:
        MissingExtra: scikit-learn or LightGBM is not installed.
    """
    schema, thinned = evidence.schema, evidence.weights is not None
    evidence = replace(evidence, synthetic=_in_private_ratio(evidence, seed))
    rows = min(evidence.holdout.num_rows, evidence.synthetic.num_rows)
    fewer, floor = (_drawn(table, rows, seed) for table in (evidence.synthetic, evidence.holdout))
    tables = {"train": evidence.train, "synthetic": evidence.synthetic}
    tables |= {"matched": evidence.synthetic.take(fewer), "floor": evidence.holdout.take(floor)}
    people, others = evidence.units
    drawn = evidence.released_units
    units = {"train": people, "synthetic": drawn, "matched": drawn[fewer], "floor": others[floor]}
    chunks = {name: values.as_they_are(table, schema) for name, table in tables.items()}
    shared = values.cells_of(chunks["train"], chunks["synthetic"], schema)
    cells = {name: Sorted.into(shared, chunk, seed, units.get(name)) for name, chunk in chunks.items()}
    columns = _columns(cells, schema)
    return {
        "rows": {"holdout" if name == "floor" else name: table.num_rows for name, table in tables.items()},
        "bins": marginals.BINS,
        "interval": jackknife.INTERVAL,
        "columns": columns,
        "broken": [
            {"column": entry["name"], "what": what}
            for entry in columns
            for what in entry.get("values", {}).get("broken", ())
        ],
        "thinned": thinned,
        "marginals": [
            _mean_distance(cells, schema, size, limit, seed)
            for size, limit in ((1, len(schema.valued)), (2, marginals.PAIRS), (3, marginals.TRIPLES))
            if size <= len(schema.valued)
        ],
        "correlation": _correlations(cells, schema, seed),
        "detector": detector(evidence, seed),
        "rare_categories": rare_categories(tables, schema, seed, units),
    }


def _in_private_ratio(evidence: Evidence, seed: int) -> pa.Table:
    """Return the released rows; of classes that were drawn too often, as many as the certificate's weights leave."""
    weights = evidence.weights
    if weights is None:
        return evidence.synthetic
    chosen = np.random.default_rng([seed, 5]).random(len(weights)) < weights / weights.max()
    return evidence.synthetic.filter(pa.array(chosen))


def _drawn(table: pa.Table, rows: int, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng([seed, 3]).choice(table.num_rows, rows, replace=False))


def _columns(cells: dict[str, Sorted], schema: Schema) -> list[dict[str, Any]]:
    entries = []
    for index, column in enumerate(schema.valued):
        distances = {
            name: jackknife.summary(marginals.total_variation(cells["train"], cells[name], (index,)))
            for name in ("synthetic", "matched", "floor")
        }
        entry: dict[str, Any] = {"name": column.name, "kind": str(column.kind), "total_variation": distances}
        real, synthetic = (cells[name].chunk[column.name] for name in ("train", "synthetic"))
        if column.kind.numeric:
            width = _width(real, synthetic)
            entry["wasserstein"] = {
                name: jackknife.summary(marginals.wasserstein(cells["train"], cells[name], column.name, width))
                for name in ("synthetic", "matched", "floor")
            }
            entry["values"] = values.described(column, real, synthetic)
        entry["picture"] = values.picture(column, real, synthetic)
        entries.append(entry)
    return entries


def _width(*parts: Floats) -> float:
    """Return the width of the range of all values: the same whatever a release's schema says."""
    known = [part[~np.isnan(part)] for part in parts]
    every = np.concatenate(known)
    return float(every.max() - every.min()) if len(every) else 0.0


def _mean_distance(cells: dict[str, Sorted], schema: Schema, size: int, limit: int, seed: int) -> dict[str, Any]:
    """Return the mean total variation over the marginals of so many columns."""
    chosen = marginals.subsets(len(schema.valued), size, limit, seed)
    every = math.comb(len(schema.valued), size)
    means = {
        name: np.mean([marginals.total_variation(cells["train"], cells[name], columns) for columns in chosen], axis=0)
        for name in ("synthetic", "matched", "floor")
    }
    return {
        "columns": size,
        "measured": len(chosen),
        "of": every,
        "sample": "all" if len(chosen) == every else f"random, fixed by the seed ({seed})",
        "total_variation": {name: jackknife.summary(mean) for name, mean in means.items()},
    }


def _correlations(cells: dict[str, Sorted], schema: Schema, seed: int) -> dict[str, Any]:
    """Compare how columns hang together.

    Returns:
        ``spearman`` for numeric and ``cramers_v`` for category columns, each with ``columns``, ``sample``,
        ``mean_difference`` (mean absolute difference to the training rows' matrix, over pairs) and ``matrices`` (for
        train and synthetic; None where a column is constant); or None with fewer than two such columns.
    """
    modelled = schema.valued
    kinds = {
        "spearman": [index for index, column in enumerate(modelled) if column.kind.numeric],
        "cramers_v": [index for index, column in enumerate(modelled) if column.kind.listed],
    }
    result: dict[str, Any] = {}
    for name, indices in kinds.items():
        rng = np.random.default_rng([seed, 4])
        chosen = [indices[index] for index in np.sort(rng.permutation(len(indices))[:MATRIX_COLUMNS])]
        if len(chosen) < 2:
            result[name] = None
            continue
        names = [modelled[index].name for index in chosen]
        matrices = {
            table: correlation.spearman(index, names) if name == "spearman" else correlation.cramers_v(index, chosen)
            for table, index in cells.items()
        }
        result[name] = {
            "columns": names,
            "sample": "all" if len(chosen) == len(indices) else f"{len(chosen)} of {len(indices)}, random by the seed",
            "mean_difference": {
                table: _difference(matrices["train"], matrices[table]) for table in ("synthetic", "matched", "floor")
            },
            "matrices": {table: _plain(matrices[table][0]) for table in ("train", "synthetic")},
        }
    return result


def _difference(left: Floats, right: Floats) -> dict[str, Any]:
    """Return the mean absolute difference over pairs of columns that are constant in neither table."""
    first, second = np.triu_indices(left.shape[1], 1)
    apart = np.abs(left - right)[:, first, second]
    apart = apart[:, ~np.isnan(apart).any(axis=0)]
    means = apart.mean(axis=1) if apart.shape[1] else np.full(len(left), np.nan)
    return jackknife.summary(means, highest=2.0)


def _plain(matrix: Floats) -> list[list[float | None]]:
    return [[None if np.isnan(value) else round(float(value), 6) for value in row] for row in matrix]
