"""What all tests share: a machine may be busy, so no example is failed for taking its time, and no library spins.

Examples are the same in every run, and so is the noise of releases but where noise itself is tested: a change is judged
by itself.
"""

import contextlib
import functools
import itertools
import os
import zlib
from pathlib import Path

import pytest
import typer.main
from hypothesis import settings

from threea import drawing
from threea.anonymize import open_table, open_tables
from threea.anonymize.noise import SecureNoise
from threea.testing import SeededNoise

# Tests run side by side, one on each core: threads of their own would only wait for one another.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Networks are compiled once for every shape, not once in every test, and as they stand: they are too small to be worth
# more. The folder is the runs' own.
COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
for variable, value in {
    "JAX_COMPILATION_CACHE_DIR": str(COMPILED),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}.items():
    os.environ.setdefault(variable, value)

# A release has 200,000 rows at least; for most tests a hundredth will do.
USUAL, drawing.LEAST_ROWS = drawing.LEAST_ROWS, 2_000

# The command line reads its own options once in a process, not once in every test.
typer.main.get_command = functools.cache(typer.main.get_command)

settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")


UNSEEDED = ("tests/anonymize", "tests/audit", "tests/laws/test_queries.py")
"""Where noise itself is tested: each such test states how often it fails by luck."""
SCOPE = {"name": "", "opened": itertools.count()}


class RepeatedNoise(SeededNoise):
    """The same noise whenever a test or a fixture is run, said to be secure: for what is done with production noise."""

    secure, arithmetic = True, SecureNoise.arithmetic

    def __init__(self):
        SecureNoise()
        super().__init__([zlib.crc32(SCOPE["name"].encode()), next(SCOPE["opened"])])


def noise_of_releases():
    return SecureNoise() if SCOPE["name"].startswith(UNSEEDED) else RepeatedNoise()


open_table.SecureNoise = open_tables.SecureNoise = noise_of_releases


@contextlib.contextmanager
def scope(name):
    before = dict(SCOPE)
    SCOPE.update(name=name, opened=itertools.count())
    try:
        yield
    finally:
        SCOPE.update(before)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    with scope(collector.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    with scope(f"{fixturedef.baseid}::{fixturedef.argname}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with scope(item.nodeid):
        return (yield)


@pytest.fixture(scope="module")
def quick_learners():
    """Grow a fifth of the usual trees, for tests of what is done with scores; learners have tests of their own."""
    from threea.evaluate.utility.learners import SETTINGS

    fewer = {"lightgbm": {"num_iterations": 40}, "boosting": {"max_iter": 20}, "forest": {"n_estimators": 20}}
    with pytest.MonkeyPatch.context() as patch:
        for learner, trees in fewer.items():
            patch.setitem(SETTINGS, learner, SETTINGS[learner] | trees)
        yield


@pytest.fixture
def usual_rows(monkeypatch):
    """Draw as many rows by default as anybody gets."""
    monkeypatch.setattr(drawing, "LEAST_ROWS", USUAL)
