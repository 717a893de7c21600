"""Batches made ahead: in order, bounded, errors raised where they belong, the thread ended."""

import threading
import time
from contextlib import closing

import pytest

from bertsmith.system.hardware import ComputeChoices, computing_as, earlier_choices
from bertsmith.training.prefetch import DEPTH, Prefetcher


def is_running():
    return any(thread.name == "prefetch" for thread in threading.enumerate())


def test_no_more_than_the_depth_is_made_ahead():
    made: list[int] = []
    with closing(Prefetcher(made.append, first=0)):
        deadline = time.monotonic() + 60
        while len(made) < DEPTH + 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        # The queue is full and one more waits to be put.
        assert made == list(range(DEPTH + 1))
    assert not is_running()


def test_batches_are_made_by_the_choices_of_the_run():
    choices = ComputeChoices(1, "bf16", "highest", {})
    with (
        computing_as(choices),
        closing(Prefetcher(lambda step: earlier_choices(), first=0)) as batches,
    ):
        assert next(batches) is choices


def test_results_come_in_order_and_an_error_at_its_step():
    def prepare(step):
        if step == 13:
            raise ValueError("step 13 is broken")
        return step * step

    with closing(Prefetcher(prepare, first=3)) as batches:
        assert [next(batches) for _ in range(10)] == [step * step for step in range(3, 13)]
        with pytest.raises(ValueError, match="step 13 is broken"):
            next(batches)
    assert not is_running()
