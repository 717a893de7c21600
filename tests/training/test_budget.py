"""The budget: shares of steps or seconds, and what is due on the way."""

from hypothesis import given
from hypothesis import strategies as st

from bertsmith.training.budget import Budget, is_due


def test_steps_ignore_the_clock() -> None:
    budget = Budget(steps=40, seconds=None)
    assert budget.progress(10, elapsed=1e9) == 0.25
    assert not budget.is_done(39, 1e9, 1e9)
    assert budget.is_done(40, 0, 0)


def test_seconds_keep_room_for_the_last_evaluation() -> None:
    budget = Budget(steps=None, seconds=60, reserve=10)
    assert budget.progress(7, elapsed=25) == 0.5
    assert budget.progress(7, elapsed=59) == 1
    assert not budget.is_done(7, 45, step_seconds=2)
    assert budget.is_done(7, 49.5, step_seconds=2)


def test_at_least_one_step_is_taken() -> None:
    assert not Budget(steps=None, seconds=1, reserve=5).is_done(0, 9, 1)


@given(st.lists(st.floats(0, 0.2), max_size=40), st.sampled_from([0.1, 0.25]))
def test_every_multiple_is_due_once(moves: list[float], interval: float) -> None:
    place, count = 0.0, 0
    for move in moves:
        if is_due(place, place + move, interval):
            count += 1
        place += move
    assert count <= place // interval
