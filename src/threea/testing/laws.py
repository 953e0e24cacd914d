"""The laws of every proven recipe: it spends what it may, needs only sums, and no table, however poor, breaks it.

Each law is a function that raises `AssertionError` with a line that says what is wrong. `check_recipe` runs them all.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from threea.anonymize.accountant import Line, epsilon_of
from threea.anonymize.events import Event, from_json
from threea.anonymize.open_table import open_table
from threea.budget import Adjacency, Budget
from threea.certificate import Guarantee
from threea.drawing import CHUNK_ROWS, SAME, STANDS_OUT, least_rows
from threea.errors import BudgetRefused, InputError, SettingError, UserError
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.model_file import load_release, packed
from threea.table import codec, conditions
from threea.table.schema import Schema
from threea.testing.canary import keeps_no_row
from threea.testing.noise import SeededNoise, SilentNoise
from threea.testing.releases import OUT, check_fits, hold, is_fixed, refuses, run
from threea.testing.table_laws import (
    TABLE_LAWS,
    survives,
    survives_a_billion_rows,
    survives_emptiness,
    survives_extreme_budgets,
    survives_unlikely_noise,
)
from threea.testing.tables import CASES, PLAIN, Case

_SEEDS = 2


def check_recipe(recipe: Recipe, tables: Mapping[str, Case] = CASES) -> None:
    """Run every law on a recipe: a way to test a stage of your own, plugged into one.

    A recipe may refuse a table that is not for it, by a `UserError` and before it spends anything; but not the plain
    one. It may not fail on any.

    Args:
        recipe: The recipe, set as it is to be checked.
        tables: The poor tables to try; all by default.

    Raises:
        AssertionError: It breaks a law; the message says which, and on which table.
    """
    hold(recipe.guarantee is Guarantee.PROVEN, f"{recipe.name} is not proven, and these are the laws of proven recipes")
    for name, case in ({"plain": PLAIN} | dict(tables)).items():
        if not _lawful(recipe, survives, f" on the table with {name}", case):
            hold(case is not PLAIN, f"{recipe.name} refuses the plain table")
            continue
        for table_law in TABLE_LAWS[1:]:
            _lawful(recipe, table_law, f" on the table with {name}", case)
    for law in LAWS:
        _lawful(recipe, law, "")


def _lawful(recipe: Recipe, law: Callable[..., Any], where: str, *rest: Case) -> Any:
    try:
        return law(recipe, *rest)
    except Exception as error:
        # Some failures, such as a division by zero, are only understood with where they happened: the cause.
        what = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        raise AssertionError(f"{recipe.name} breaks the law `{law.__name__}`{where}: {what}") from error


# No table breaks it.


def refuses_ids_alone(recipe: Recipe) -> None:
    """There is nothing to learn from ids, which the owner is told before anything is spent."""
    ledger, table = Ledger(), pa.table({"person": ["p", "q"], "visit": ["1", "2"]})
    schema = Schema.of({"person": {"kind": "id"}, "visit": {"kind": "id"}})

    def release() -> pa.Table:
        return recipe.run(open_table(table, schema=schema, budget=Budget(1.0), ledger=ledger)).table

    refuses(UserError, "a table of ids alone", release)
    hold(not ledger.releases(), "something was spent on a table of ids alone")


def has_as_many_rows_as_it_should(recipe: Recipe) -> None:
    """As many as were counted, if asked for and sure, otherwise some; or as many as there are points in a set."""
    for case in (PLAIN, CASES["one row"]):
        release = run(recipe, case, rows=None if is_fixed(recipe) else SAME, noise=SilentNoise())
        points, private = release.summary.points, release.summary.private_rows
        hold((points is not None) == is_fixed(recipe), "a finite set must be told by both recipe and model")
        if points is not None:
            expected = len(next(iter(points.values())))
        else:
            hold(private == case.table.num_rows, f"{private} private rows are counted of {case.table.num_rows}")
            stands_out = case.table.num_rows >= STANDS_OUT * release.summary.private_rows_stddev
            expected = case.table.num_rows if stands_out else least_rows(case.table.num_columns)
            hold(stands_out == (case is PLAIN), "the noise on the number of rows is not what it is")
            hold(bool(release.rows_note) != stands_out, "the release does not say why it has so many rows")
        hold(release.rows == expected, f"{release.rows} rows by default, not {expected}")


def gives_the_target_no_class_of_noise(recipe: Recipe) -> None:
    """Without a schema nobody says that the target is never missing nor "other"; the noisy counts must.

    A class of less than three standard deviations of noise is none: of `_SEEDS` releases, in each of which two classes
    of noise might appear, one has such a class with a chance of 0.6%. The seeds are fixed.
    """
    often = dataclasses.replace(PLAIN, table=pa.concat_tables([PLAIN.table] * 10))
    for seed in range(_SEEDS):
        release = run(recipe, often, known=False, rows=2_000, budget=Budget(4.0), noise=SeededNoise(seed))
        # Where too little of the budget is left to find any class, all rows are "other".
        listed = release.schema["label"].categories
        classes = set(release.table["label"].to_pylist())
        hold(classes <= set(listed or ("other",)), f"the target is {classes - set(listed)}, which no private row is")


# It spends what it may.


def spends_its_plan(recipe: Recipe) -> None:
    """It asks all that it planned and no more, as planned, and that is its budget; under both adjacencies."""
    for adjacency, unit, known in itertools.product(Adjacency, (None, "person"), (True, False)):
        budget, ledger = Budget(0.7, 1e-7, adjacency), Ledger()
        options: dict[str, Any] = {"unit": unit, "max_rows_per_unit": 2 if unit else 1}
        release = run(recipe, PLAIN, known=known, budget=budget, ledger=ledger, dataset="d", **options)
        (dataset,), rows = ledger.datasets(), ledger.releases()
        hold(len(rows) == 1, f"a release was paid for in {len(rows)} parts, not in one")
        (row,), name = rows, recipe.chosen(PLAIN.schema)[0].name
        within = dataset.spent <= budget.epsilon and dataset.delta <= budget.delta
        hold(within, f"{dataset.spent} of epsilon {budget.epsilon} is spent, {dataset.delta} of delta {budget.delta}")
        hold((row.recipe, row.dataset) == (name, "d"), f"the ledger has it under the name {row.recipe}, not {name}")
        hold(row.charged == row.planned > 0, f"{row.charged} questions were charged, {row.planned} planned")
        charges = ledger.charges(row.id)
        counts: Counter[tuple[str, Event]] = Counter()
        for charge in charges:
            counts[charge.line, from_json(charge.event)] += charge.times
        lines = [Line(line, event, count) for (line, event), count in counts.items()]
        spent = epsilon_of(lines, budget.delta, adjacency)
        hold(
            0.98 * budget.epsilon <= spent <= budget.epsilon,
            f"what was charged costs epsilon {spent:g}, the budget is {budget.epsilon:g}: the plan is not calibrated",
        )
        planned = [line.name for line in release.plan.lines for _ in range(line.count)]
        asked = [charge.line for charge in charges for _ in range(charge.times)]
        hold(sorted(asked) == sorted(planned), "what was charged is not what was planned")
        events = {line.name: line.event for line in release.plan.lines}
        hold(all(events[line.name] == line.event for line in lines), "a charge differs from its line of the plan")


def refuses_a_second_run(recipe: Recipe) -> None:
    """A table's budget is spent once, whether by a new plan or by the same."""
    for same in (False, True):
        ledger = Ledger()
        table = open_table(PLAIN.table, schema=PLAIN.schema, budget=Budget(1.0), ledger=ledger)
        plan = recipe.plan(table) if same else None
        recipe.run(table, plan=plan)
        before = ledger.releases()
        refusal = refuses(BudgetRefused, "a second run", recipe.run, table, plan=plan)
        hold(refusal.left == 0, f"epsilon {refusal.left} is left after a whole release")
        hold(ledger.releases() == before, "a refused release leaves something behind")


def obeys_a_cap(recipe: Recipe) -> None:
    """A release that would pass the cap is refused before anything is read."""
    ledger = Ledger()
    refuses(BudgetRefused, "a release above the cap", run, recipe, PLAIN, ledger=ledger, cap=0.5)
    hold(not ledger.releases(), "a refused release leaves something behind")


def refuses_impossible_rows(recipe: Recipe) -> None:
    """A number of rows that cannot be is refused before anything is spent; any number is, of a set of its own size."""
    for rows in (0, -1, OUT) if is_fixed(recipe) else (0, -1):
        ledger = Ledger()
        table = open_table(PLAIN.table, schema=PLAIN.schema, budget=Budget(1.0), ledger=ledger)
        refusal = refuses(SettingError, f"rows={rows}", recipe.run, table, rows=rows)
        said = str(refusal) == f"rows ({rows}) must be a whole number, at least 1" or rows == OUT
        hold(said, f"{rows} rows are refused for another reason: {refusal}")
        hold(not ledger.releases(), f"something was spent although {rows} rows cannot be")


def keeps_to_the_plan_looked_at(recipe: Recipe) -> None:
    """Looking at a price is free, and it is the price paid."""
    ledger = Ledger()
    table = open_table(PLAIN.table, schema=PLAIN.schema, budget=Budget(1.0), ledger=ledger)
    plan = recipe.plan(table)
    hold(not ledger.releases(), "looking at a plan cost something")
    hold(recipe.run(table, plan=plan).plan is plan, "another plan was charged than the one looked at")


# What is random, and what is not.


def draws_the_same_rows_each_time(recipe: Recipe) -> None:
    """A release's rows are the same whenever they are drawn, and chunks are drawn afresh."""
    release = run(recipe, PLAIN, rows=CHUNK_ROWS + 100)
    first, again = list(release.batches()), list(release.batches())
    hold(all(one.equals(other) for one, other in zip(first, again, strict=True)), "drawn again, rows are others")
    if not is_fixed(recipe):
        sizes = [batch.num_rows for batch in first]
        hold(sizes == [CHUNK_ROWS, 100], f"chunks have {sizes} rows, not {CHUNK_ROWS} and 100")
        head, tail = (batch.slice(0, 100).drop_columns("person") for batch in first)
        hold(not tail.equals(head), "every chunk starts with the same rows")


def is_the_same_when_loaded(recipe: Recipe) -> None:
    """Its file, if it has one, holds all of it: the same rows, certificate and further draws; a changed one is refused.

    A stranger's model has no file; what is saved without one says so in its certificate.
    """
    release = run(recipe, PLAIN, rows=CHUNK_ROWS // 16, seed=5)
    file = packed(release)
    if file is None:
        hold(not type(release.model).__module__.startswith("threea."), "a model of threea's own is not written")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.threea"
        path.write_bytes(file)
        loaded = load_release(path)
        hold(packed(loaded) == file, "a release that was read is written otherwise")
        hold(loaded.table.equals(release.table), "a release that was read has other rows")
        hold(loaded.certificate() == release.certificate(), "a release that was read has another certificate")
        hold(loaded.sample(50, seed=9).equals(release.sample(50, seed=9)), "a release that was read draws other rows")
        for place in np.random.default_rng(0).integers(0, len(file), 20).tolist():
            path.write_bytes(file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :])
            refuses(InputError, f"a model file with a flipped bit at byte {place}", load_release, path)


def draws_what_is_asked_for(recipe: Recipe) -> None:
    """Rows that fit conditions on the label and on others, or a line that says that there are none."""
    release = run(recipe, PLAIN, noise=SilentNoise())
    for given in ({"label": "yes"}, {"age": (40, None)}, {"label": "no", "colour": ["red", None], "length": (0.2, 4)}):
        asked = conditions.given(release.schema, given)
        points = release.summary.points
        if points is not None and asked and not conditions.fits(points, asked).any():
            refuses(SettingError, f"{given}, which no point fits", release.sample, 40, given)
            continue
        rows = codec.encode(release.sample(40, given, seed=1), release.schema)
        hold(len(rows["age"]) == 40, f"{len(rows['age'])} rows were drawn for {given}, not 40")
        hold(asked is not None and bool(conditions.fits(rows, asked).all()), f"a row does not fit {given}")


def repeats_sampling_by_seed(recipe: Recipe) -> None:
    """Without noise the seed is all that is random; of a set of its own size nothing is."""
    one, again, other, none = (
        run(recipe, PLAIN, noise=SilentNoise(), rows=500, seed=seed).table for seed in (1, 1, 2, None)
    )
    hold(one.equals(again), "the same seed gives other rows")
    hold(one.equals(other) == one.equals(none) == is_fixed(recipe), "another seed, or none, must give other rows")


def does_not_repeat_noise(recipe: Recipe) -> None:
    """Noisy answers are on a grid of 2**-30, and rows many: that all agree by chance will not be seen."""
    one, other = (run(recipe, PLAIN, seed=1, rows=2000) for _ in range(2))
    hold(one.seed == other.seed, "a seed is not kept")
    if one.summary.histograms:
        counts, others = (
            np.concatenate([each.counts for each in release.summary.histograms.values()]) for release in (one, other)
        )
        hold(not np.array_equal(counts, others), "a seed repeats the noise")
    else:
        hold(not one.table.equals(other.table), "a seed repeats the noise")


def leaves_the_global_generator_alone(recipe: Recipe) -> None:
    """NumPy's own generator is somebody else's."""
    before = pickle.dumps(np.random.get_state())
    check_fits(run(recipe, PLAIN), PLAIN)
    hold(pickle.dumps(np.random.get_state()) == before, "NumPy's global generator was used")


# What it certifies.


def says_what_it_is(recipe: Recipe) -> None:
    """It is a frozen value with a summary, assumes nothing, and its settings can be written down."""
    hold(recipe == dataclasses.replace(recipe), "two recipes of the same settings must be equal")
    hold(bool(recipe.name and recipe.summary), "it needs a name and a summary")
    hold(recipe.assumptions == (), "a proof assumes nothing")
    for field in dataclasses.fields(recipe):
        hold(field.kw_only is True, f"setting {field.name} must be given by name")
        value = getattr(recipe, field.name)
        refuses(dataclasses.FrozenInstanceError, f"changing {field.name}", setattr, recipe, field.name, value)
    json.dumps(dataclasses.asdict(recipe))


def certifies_what_was_accounted(recipe: Recipe) -> None:
    """The certificate's events, read back, cost the epsilon that it states, which is the budget's or just below."""
    for known in (True, False):
        release = run(recipe, PLAIN, known=known, unit="person", max_rows_per_unit=2)
        certificate, chosen = release.certificate(), recipe.chosen(PLAIN.schema)[0]
        hold(certificate.guarantee is release.guarantee is Guarantee.PROVEN, f"guarantee is {certificate.guarantee}")
        taken = [each for each in certificate.assumptions if "is not part of threea" not in each]
        stated = (certificate.epsilon, certificate.delta, certificate.rows, taken)
        hold(stated == (1.0, 1e-6, release.rows, []), f"the certificate states {stated}")
        ours = type(chosen).__module__.startswith("threea.")
        hold(ours <= (taken == certificate.assumptions), "a recipe of threea's own is said not to be")
        hold(0.98 < certificate.accounted_epsilon <= 1.0, f"epsilon 1 was given, {certificate.accounted_epsilon} used")
        named = (certificate.recipe, certificate.settings)
        hold(named == (chosen.name, dataclasses.asdict(chosen)), f"the certificate names another recipe: {named}")
        lines = [
            Line(each["name"], from_json({k: v for k, v in each.items() if k not in ("name", "count")}), each["count"])
            for each in certificate.events
        ]
        cost = epsilon_of(lines, certificate.delta, Adjacency(certificate.adjacency))
        hold(
            cost == certificate.accounted_epsilon, f"its events cost {cost}, it states {certificate.accounted_epsilon}"
        )
        hold(json.loads(certificate.to_json())["guarantee"] == "proven", "what is written down is not proven")


def earns_nothing_by_noise_for_tests(recipe: Recipe) -> None:
    """Noise that can be repeated protects nobody."""
    for noise in (SilentNoise(), SeededNoise(0)):
        release = run(recipe, PLAIN, noise=noise)
        certificate = release.certificate()
        hold(certificate.guarantee is release.guarantee is Guarantee.NONE, f"guarantee is {certificate.guarantee}")
        hold(any("noise" in each for each in certificate.assumptions), "the certificate does not tell of the noise")
        written = json.loads(certificate.to_json())
        said = (certificate.accounted_epsilon, written["guarantee"], written["accounted_epsilon"])
        hold(said == (math.inf, "none", "inf"), f"epsilon is stated as {said}")


def earns_nothing_after_exposure(recipe: Recipe) -> None:
    """Once the rows were handed out, nothing made of the table is proven."""
    table = open_table(PLAIN.table, schema=PLAIN.schema, budget=Budget(1.0), accept_unproven=True)
    table.expose("a look at the rows")
    release = recipe.run(table)
    hold(release.guarantee is Guarantee.NONE, f"guarantee is {release.guarantee}")
    told = release.certificate().assumptions
    hold(any("a look at the rows" in line for line in told), "the certificate does not tell of the exposure")


LAWS: tuple[Callable[[Recipe], None], ...] = (
    says_what_it_is,
    survives_emptiness,
    survives_extreme_budgets,
    survives_a_billion_rows,
    survives_unlikely_noise,
    refuses_ids_alone,
    has_as_many_rows_as_it_should,
    gives_the_target_no_class_of_noise,
    spends_its_plan,
    refuses_a_second_run,
    obeys_a_cap,
    refuses_impossible_rows,
    keeps_to_the_plan_looked_at,
    draws_the_same_rows_each_time,
    is_the_same_when_loaded,
    draws_what_is_asked_for,
    repeats_sampling_by_seed,
    does_not_repeat_noise,
    leaves_the_global_generator_alone,
    certifies_what_was_accounted,
    earns_nothing_by_noise_for_tests,
    earns_nothing_after_exposure,
    keeps_no_row,
)
"""Laws for a recipe as such."""
