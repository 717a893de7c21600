"""Work in other processes: the same results in the same order, and no more ahead than needed."""

import os
from collections.abc import Iterator

import pytest

from bertsmith.errors import ConfigError
from bertsmith.processes import map_in_order, num_processes


@pytest.mark.parametrize("processes", [1, 3])
def test_results_come_in_the_order_of_the_items(processes: int) -> None:
    assert list(map_in_order(str, range(50), processes)) == list(map(str, range(50)))
    assert list(map_in_order(str, [], processes)) == []


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_the_work_reaches_the_caller(processes: int) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(map_in_order(int, ["1", "x"], processes))


def test_items_are_taken_only_a_little_ahead() -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = map_in_order(str, items(), 2)
    assert next(results) == "0"
    results.close()
    assert len(taken) <= 5


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor affinity here")
def test_only_the_cores_that_this_process_may_use_are_counted() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert num_processes() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_the_number_asked_for_is_taken() -> None:
    assert num_processes(40) == 40
    with pytest.raises(ConfigError, match="--processes 0: allowed is at least 1"):
        num_processes(0)
