"""Work in a process with limits: whatever becomes of it, this process goes on, and tells nothing of a file."""

import os
import signal
import time

import pytest

from threea.errors import BudgetRefused, InputError, InternalError, SettingError
from threea.limited import Limits, limited

CANARY = "Xanthippe-7731"
USUAL = Limits(memory=512 << 20, seconds=20)


def doubled(*numbers):
    yield from (2 * number for number in numbers)


def fills_memory():
    held = []
    while True:
        held.append(bytes(1 << 24))
        yield None


def works_for_ever():
    while True:
        pass
    yield None


def is_killed():
    yield 1
    os.kill(os.getpid(), signal.SIGSEGV)


def fails():
    yield 1
    raise ValueError(CANARY)


def refuses(kind):
    if kind == "budget":
        raise BudgetRefused("dataset 'a'", requested=2.0, spent=1.0, cap=1.5, remedy="ask for less")
    raise SettingError("sheet (a) is not in it; choose another")
    yield None


def says_where():
    yield os.environ["OPENBLAS_NUM_THREADS"], os.getpid()


def run(function, *arguments, limits=USUAL):
    return list(limited(limits, function, *arguments, refusal="t.csv cannot be read; is it damaged?"))


def test_what_a_function_yields_comes_back_from_another_process():
    assert run(doubled, 1, 2, 30) == [2, 4, 60]
    ((threads, process),) = run(says_where)
    assert threads == "1"
    assert process != os.getpid()


@pytest.mark.parametrize("function", [fills_memory, works_for_ever, is_killed])
def test_a_process_that_does_not_end_well_is_told_in_one_line(function):
    with pytest.raises(InputError, match=r"^t\.csv cannot be read; is it damaged\?$"):
        run(function, limits=Limits(memory=256 << 20, seconds=1))


def test_a_refusal_is_of_its_kind_and_an_error_says_nothing_of_what_it_read():
    with pytest.raises(SettingError, match=r"sheet \(a\) is not in it; choose another"):
        run(refuses, "setting")
    with pytest.raises(BudgetRefused, match=r"requested epsilon 2, spent 1 of 1\.5") as refused:
        run(refuses, "budget")
    assert refused.value.exit_code == 3
    with pytest.raises(InternalError, match=r"internal error: ValueError at test_limited\.py") as bug:
        run(fails)
    assert CANARY not in str(bug.value)


def test_whoever_listens_no_more_ends_the_process():
    others = set(_children())
    lines = limited(USUAL, fills_memory, refusal="")
    assert next(lines) is None
    children = set(_children()) - others
    assert children
    lines.close()
    deadline = time.monotonic() + 20
    while children & set(_children()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not children & set(_children())


def _children():
    task = f"/proc/self/task/{os.getpid()}/children"
    if not os.path.exists(task):
        pytest.skip("this system does not list a process's children")
    with open(task) as file:
        return file.read().split()
