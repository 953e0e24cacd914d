"""Mirror descent: it finds what fits, stops at the noise, and agrees with mbi's."""

import warnings

import numpy as np
import pytest

from threea.approximate import mirror_descent
from threea.approximate.mirror_descent import Distribution, Measured, estimated, total_of

SIZES, ROWS, STDDEV = (3, 4, 2), 2_000.0, 20.0
CLIQUES = ((0,), (1,), (2,), (0, 1), (1, 2))


def truth(rng):
    return rng.dirichlet(np.ones(24)).reshape(SIZES)


def asked(joint, rng, stddev):
    return {
        clique: Measured.alike(ROWS * margin + rng.normal(0, stddev, margin.shape), max(stddev, 1.0))
        for clique in CLIQUES
        for margin in [joint.sum(axis=tuple(axis for axis in range(3) if axis not in clique))]
    }


def fitted(tables, steps):
    start = Distribution.product(SIZES, {}).holding(tables)
    found = estimated(start, tables, ROWS, steps)
    return found.tables(found.tree.homes(tables))


def test_exact_tables_are_met(monkeypatch):
    monkeypatch.setattr(mirror_descent, "_ENOUGH", 0.0)
    tables = asked(truth(np.random.default_rng(0)), np.random.default_rng(0), 0.0)
    for clique, found in fitted(tables, 3000).items():
        np.testing.assert_allclose(ROWS * found, tables[clique].counts, atol=1.0)


def test_it_stops_where_errors_are_those_of_noise():
    rng = np.random.default_rng(1)
    tables = asked(truth(rng), rng, STDDEV)
    few, many = (fitted(tables, steps) for steps in (200, 2000))
    assert all(np.array_equal(few[clique], many[clique]) for clique in CLIQUES)


def test_totals_are_put_together_by_their_precision():
    one, other = Measured.alike(np.full(4, 25.0), 1.0), Measured.alike(np.full(16, 7.5), 1.0)
    assert total_of([one, other]) == pytest.approx((104.0, np.sqrt(3.2)))
    both = one.and_again(Measured.alike(np.full(4, 35.0), 0.5))
    assert both.counts == pytest.approx(np.full(4, 33.0))
    assert both.stddev == pytest.approx(np.full(4, 0.2**0.5))


def test_it_ends_where_mbi_does(monkeypatch):
    """The loss is convex, so both end at the same tables: within a row of 2,000 after as many steps."""
    jax = pytest.importorskip("jax", reason="mbi, to compare with, needs JAX")
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mbi = pytest.importorskip("mbi", reason="mbi, to compare with, is not installed")
        rng = np.random.default_rng(2)
        tables = asked(truth(rng), rng, STDDEV)
        domain = mbi.Domain(("0", "1", "2"), SIZES)
        named = [
            mbi.LinearMeasurement(each.counts.ravel(), tuple(str(column) for column in clique), STDDEV)
            for clique, each in tables.items()
        ]
        theirs = mbi.estimation.MirrorDescent().estimate(domain, named, known_total=ROWS, iters=5000)
        expected = {c: np.asarray(theirs.project(tuple(map(str, c))).datavector(flatten=False)) for c in CLIQUES}
    monkeypatch.setattr(mirror_descent, "_ENOUGH", 0.0)
    for clique, found in fitted(tables, 5000).items():
        np.testing.assert_allclose(ROWS * found, expected[clique], atol=1.0)
