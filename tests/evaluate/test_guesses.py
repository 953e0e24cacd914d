"""The parts that attacks are made of: predicates, guesses, links, likelihoods."""

import operator

import numpy as np
import pytest

from threea import hospital
from threea.evaluate.attacks import inference, membership, singling
from threea.evaluate.attacks.nearness import Pool, raw_values, scaled


@pytest.fixture(scope="module")
def raw():
    return raw_values([hospital.stays(400, seed=4)], hospital.schema())[0]


@pytest.mark.parametrize("find", [singling.univariate, singling.multivariate])
def test_predicates_hold_for_one_released_row_each(raw, find):
    columns = raw.T
    predicates = find(columns, hospital.schema(), np.random.default_rng(0))
    assert len(predicates) > 100
    assert len({str(predicate) for predicate in predicates}) == len(predicates)
    assert all(singling.matches(columns, predicate) == 1 for predicate in predicates)


def test_predicates_speak_of_as_many_columns_as_asked(raw):
    found = singling.multivariate(raw.T, hospital.schema(), np.random.default_rng(0), together=(4,))
    assert {len({place for place, _, _ in predicate}) for predicate in found} == {4}


def test_matches_counts_rows_where_every_condition_holds():
    columns = np.array([[1.0, 2.0, 3.0, np.nan], [0.0, 1.0, 1.0, 1.0]])
    assert singling.matches(columns, ((0, operator.ge, 2.0),)) == 2
    assert singling.matches(columns, ((0, operator.ge, 2.0), (1, operator.eq, 1.0))) == 2
    assert singling.matches(columns, ((0, operator.le, 2.0), (1, operator.eq, 1.0))) == 1
    assert singling.matches(columns, ((0, operator.eq, np.nan),)) == 1


def test_the_one_missing_value_singles_out():
    schema = hospital.schema()
    columns = np.zeros((len(schema.modelled), 10))
    columns[3, 7] = np.nan
    assert [place for ((place, _, value),) in singling.univariate(columns, schema, np.random.default_rng(0))] == [3]


def test_guesses_use_all_columns_but_the_secret(raw):
    located = scaled(raw, hospital.schema())
    rows, pool = located[:40], Pool.of(located[40:])
    secrets = [2, 5, 13]
    guessed = inference.guesses(pool, rows, secrets)
    for secret, guess in zip(secrets, guessed, strict=True):
        others = [place for place in range(located.shape[1]) if place != secret]
        distances = pool.distances(rows, others)
        assert distances[np.arange(40), guess] == pytest.approx(distances.min(axis=1), abs=1e-5)


def test_a_guess_does_not_depend_on_the_secret(raw):
    located = scaled(raw, hospital.schema())
    rows, changed = located[:40], located[:40].copy()
    changed[:, 5] = changed[::-1, 5]
    pool = Pool.of(located)
    assert (inference.guesses(pool, rows, [5])[0] == inference.guesses(pool, changed, [5])[0]).all()


def test_halves_link_through_the_row_that_is_nearest_to_both():
    released = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]], np.float32)
    rows = np.array([[0.1, 0.1], [0.1, 0.9], [0.1, 0.4]], np.float32)
    pool = Pool.of(released)
    assert inference.linked_rows(pool, rows, [[0], [1]]).tolist() == [True, False, False]
    assert inference.linked_rows(pool, rows, [[0], [1]], links=2).tolist() == [True, True, True]


def test_likelihood_of_a_value_does_not_depend_on_the_rows_beside_it():
    """Else a value that the release lacks, in one sample only, would tell members from others."""
    released = np.array([0, 0, 0, 1], np.float32)
    alone = membership._likelihood(np.array([0, 1], np.float32), released)
    beside = membership._likelihood(np.array([0, 1, 9], np.float32), released)
    assert (alone == beside[:2]).all()
    assert beside[2] < beside[1] < beside[0]


def test_true_positives_are_counted_above_what_a_hundredth_of_the_control_rows_reach():
    control, train = np.arange(1000, dtype=float), np.arange(1000, dtype=float)
    train[:100] = 5000.0
    scores = train, np.random.default_rng(0).permutation(control)
    made = membership._figures(scores, np.arange(1000), np.random.default_rng(0))
    found = {figure["name"]: figure for figure in made}
    share = found["true positives at 1% false positives"]
    assert share["value"] == pytest.approx(0.11)
    assert share["baseline"] == pytest.approx(0.01)
    assert found["true positives at 1% false positives, excess"]["p"] < 0.001
