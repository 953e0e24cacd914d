"""Work on several processors: in order, little of it ahead, and a failure ends it."""

import threading
import time

import pytest

from threea.threads import in_order, processors


@pytest.mark.parametrize("threads", [1, 2, 3, None])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_come_in_order(threads, count):
    def slow_at_first(number):
        time.sleep(0.002 if number % 5 == 0 else 0)
        return number * 2

    assert list(in_order(slow_at_first, range(count), threads)) == [2 * number for number in range(count)]


def test_work_is_shared():
    """Two calls that wait for one another both end: each is on a thread of its own."""
    both = threading.Barrier(2, timeout=30)
    assert sorted(in_order(lambda _: both.wait(), range(2), 2)) == [0, 1]


def test_little_is_taken_ahead():
    taken = []
    results = in_order(lambda number: number, (taken.append(number) or number for number in range(1000)), 2)
    next(results)
    assert len(taken) <= 5
    results.close()


def test_a_failure_is_raised_where_its_result_is_due():
    results = in_order(lambda number: 1 / (3 - number), range(10), 2)
    assert [next(results) for _ in range(3)] == [1 / 3, 1 / 2, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_there_is_a_processor():
    assert processors() >= 1
