"""MC-GEN and NOIFS, proven: feature sets, clusters and Gaussians, with every look at the rows in the plan."""

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.open_table import open_table
from threea.approximate import multilevel
from threea.approximate.class_histograms import HISTOGRAMS
from threea.approximate.label_counts import CLASSES
from threea.approximate.multilevel import CLUSTERS, CORRELATIONS, MOMENTS, MultiLevel
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.ledger import Ledger
from threea.recipes import NOIFS, RECIPES, Independent, MCGen
from threea.table.schema import Schema
from threea.testing import CASES, TABLE_LAWS, SeededNoise, SilentNoise

SCHEMA = Schema.of(
    {f"n{n}": {"kind": "real", "lower": -4, "upper": 4, "nullable": False} for n in range(4)}
    | {"y": {"kind": "categorical", "categories": ["no", "yes"], "nullable": False}},
    target="y",
)


def rows_of(rows, seed=0, sign=1.0):
    """Two pairs of features. Within a pair they go together in one class, and apart in the other."""
    rng = np.random.default_rng(seed)
    y = rng.random(rows) < 0.5
    noise = rng.normal(0, 1, (rows, 4))
    turned = np.where(y, sign, 1.0)
    for first in (0, 2):
        noise[:, first + 1] = 0.8 * turned * noise[:, first] + 0.6 * noise[:, first + 1]
    columns = {f"n{n}": noise[:, n].clip(-4, 4) for n in range(4)}
    return pa.table({**columns, "y": np.where(y, "yes", "no")})


def released(recipe, table=None, noise=None, epsilon=1.0, schema=SCHEMA):
    table = rows_of(8_000) if table is None else table
    return recipe.run(open_table(table, schema=schema, budget=Budget(epsilon), noise=noise), seed=0)


def correlation(table, one, other, label=None):
    table = table if label is None else table.filter(pa.compute.equal(table["y"].cast(pa.string()), label))
    return float(np.corrcoef(table[one].to_numpy(), table[other].to_numpy())[0, 1])


def test_features_that_go_together_are_in_a_set_and_drawn_so():
    """The noise is seeded: the outcome is the same each time."""
    release = released(MCGen(), noise=SeededNoise(1))
    assert sorted(part.members for part in release.model.sets) == [(0, 1), (2, 3)]
    assert correlation(release.table, "n0", "n1") == pytest.approx(0.8, abs=0.1)
    assert abs(correlation(release.table, "n0", "n2")) < 0.05
    assert abs(correlation(released(Independent(), noise=SeededNoise(1)).table, "n0", "n1")) < 0.05


def test_classes_have_correlations_of_their_own():
    release = released(NOIFS(), rows_of(8_000, sign=-1.0), noise=SeededNoise(1), epsilon=4.0)
    assert len(release.model.sets) == 1
    assert correlation(release.table, "n0", "n1", "no") > 0.5
    assert correlation(release.table, "n0", "n1", "yes") < -0.5


def test_every_look_at_the_rows_is_in_the_plan():
    table = open_table(rows_of(200), schema=SCHEMA, budget=Budget(1.0))
    recipe = MCGen(k=0.25, iterations=3)
    plan = recipe.plan(table)
    lines = {line.name: line for line in plan.lines}
    assert list(lines) == [CLASSES, HISTOGRAMS, CORRELATIONS, CLUSTERS, MOMENTS]
    assert lines[CLUSTERS].count == 3
    release = recipe.run(table, plan=plan)
    assert release.guarantee is Guarantee.PROVEN
    assert set(release.summary.noise) == set(lines)


def test_a_cluster_per_class_asks_for_no_clusters_and_one_set_for_no_correlations():
    def lines(recipe):
        return [step.name for step in recipe.approximate.steps(SCHEMA)]

    assert lines(MCGen()) == [CLASSES, HISTOGRAMS, CORRELATIONS, MOMENTS]
    assert lines(NOIFS()) == [CLASSES, HISTOGRAMS, MOMENTS]
    assert lines(NOIFS(k=0.5)) == [CLASSES, HISTOGRAMS, CLUSTERS, MOMENTS]


def test_shares_of_the_budget_are_those_in_the_docstring():
    shares = np.array([multilevel.SHARES[name] for name in (CLASSES, HISTOGRAMS, CORRELATIONS, CLUSTERS, MOMENTS)])
    np.testing.assert_allclose(shares, [0.02, 0.4, 0.05, 0.1, 0.53])
    assert all(f"[{share:.2g}".replace("0.", ".") in MCGen.__doc__ for share in shares)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_is_of_one_kind(noise):
    kind = {"gaussian": Gaussian, "laplace": Pure}[noise]
    for recipe in (MCGen(k=0.5, noise=noise), NOIFS(noise=noise)):
        assert {step.kind for step in recipe.approximate.steps(SCHEMA)} == {kind}


def test_laplace_noise_keeps_what_it_can():
    release = released(MCGen(noise="laplace"), noise=SeededNoise(1), epsilon=8.0)
    assert correlation(release.table, "n0", "n1") > 0.4


@pytest.mark.parametrize("case", ["plain", "nasty values", "no target", "constant columns", "one feature"])
def test_clusters_and_laplace_noise_are_lawful_too(case):
    for recipe in (MCGen(k=0.2, iterations=1), MCGen(noise="laplace")):
        for law in TABLE_LAWS:
            assert law(recipe, CASES[case]) in (None, True)


def test_smaller_clusters_are_more_clusters():
    def clusters(k, epsilon=100.0):
        return len(released(MCGen(k=k), rows_of(4_000), noise=SilentNoise(), epsilon=epsilon).model.sets[0].classes)

    assert clusters(1.0) == 2
    assert clusters(0.1) in (8, 9, 10)
    # Noise allows no more than one in each class.
    assert clusters(0.1, epsilon=0.05) == 2


def test_clusters_find_what_one_gaussian_cannot():
    """Three lumps that lie as a V, uncorrelated. Were the columns independent, 5 in 9 rows would be in a lump."""
    rng = np.random.default_rng(0)
    place = rng.integers(-1, 2, 8_000) * 2.0
    columns = {"n0": place, "n1": np.abs(place)}
    table = pa.table({name: values + rng.normal(0, 0.2, 8_000) for name, values in columns.items()})
    schema = Schema.of({name: {"kind": "real", "lower": -4, "upper": 4, "nullable": False} for name in columns})

    def inside(k):
        drawn = released(NOIFS(k=k, iterations=4), table, noise=SeededNoise(2), epsilon=8.0, schema=schema).table
        return (abs(abs(drawn["n0"].to_numpy()) - drawn["n1"].to_numpy()) < 1).mean()

    assert inside(1.0) < 0.65
    assert inside(0.2) > 0.8


@pytest.mark.parametrize("recipe", [MCGen(), NOIFS(), MCGen(k=0.05)], ids=str)
def test_classes_smaller_than_a_cluster_and_singular_tables_still_give_rows(recipe):
    table = rows_of(300)
    same = table.set_column(1, "n1", table["n0"]).set_column(3, "n3", pa.array(np.zeros(300)))
    few = pa.concat_tables([same.filter(pa.compute.equal(same["y"], "no")), same.slice(0, 1)])
    for data in (same, few):
        assert released(recipe, data).rows > 0


@pytest.mark.parametrize(
    "wrong", [{"k": 0.0}, {"k": 1.5}, {"k": float("nan")}, {"k": 20.0}, {"iterations": 0}, {"noise": "uniform"}]
)
@pytest.mark.parametrize("recipe", [MCGen, NOIFS])
def test_settings_out_of_range_are_refused(recipe, wrong):
    (name,) = wrong
    with pytest.raises(SettingError, match=name):
        recipe(**wrong)


def wide(columns, classes=2):
    numbers = {f"n{n}": {"kind": "real", "lower": 0, "upper": 1} for n in range(columns)}
    label = {"kind": "categorical", "categories": [str(code) for code in range(classes)]}
    return Schema.of(numbers | {"y": label}, target="y")


def test_tables_too_wide_are_refused_before_anything_is_spent():
    assert MCGen().approximate.steps(wide(300, 50))
    for recipe, schema in ((MCGen(), wide(1_500)), (NOIFS(), wide(300, 50))):
        ledger = Ledger()
        names = [column.name for column in schema.columns]
        table = pa.table({name: pa.array(["0"] if name == "y" else [0.5]) for name in names})
        with pytest.raises(SettingError, match="products"):
            recipe.run(open_table(table, schema=schema, budget=Budget(1.0), ledger=ledger))
        assert ledger.releases() == []


def test_sets_are_cut_where_clusters_would_be_too_many(monkeypatch):
    monkeypatch.setattr(multilevel, "MOST_NUMBERS", 8)
    """As when classes are found on the way, after the size was looked at."""
    monkeypatch.setattr(MultiLevel, "_check_size", lambda self, schema: None)
    model = released(NOIFS(), rows_of(100), noise=SilentNoise()).model
    assert [part.members for part in model.sets] == [(0, 1), (2, 3)]


def test_they_are_listed():
    assert (RECIPES["mcgen"], RECIPES["noifs"]) == (MCGen, NOIFS)
    assert MCGen().guarantee is NOIFS().guarantee is Guarantee.PROVEN
    assert not MCGen().fixed
