"""The waiting time of a new request: what the engine told, and what was sent since."""

import pytest

from bertsmith.serving.messages import QueueState
from bertsmith.serving.waiting_time import WaitingTime


def test_requests_count_until_the_engine_has_counted_them():
    waiting = WaitingTime()
    waiting.update(QueueState(0, 0, 0.1))
    for number in (1, 2, 3):
        waiting.add(number, 10 * number)
    assert waiting.seconds == pytest.approx(6.0)
    waiting.update(QueueState(2, 25, 0.1))  # request 3 had not arrived
    assert waiting.seconds == pytest.approx(5.5)
    waiting.update(QueueState(3, 40, 0.2))
    assert waiting.seconds == pytest.approx(8.0)


def test_a_request_that_left_the_engine_no_longer_counts():
    waiting = WaitingTime()
    waiting.update(QueueState(0, 0, 0.1))
    waiting.add(1, 10)
    waiting.add(2, 20)
    waiting.remove(1)
    waiting.remove(1)
    assert waiting.seconds == pytest.approx(2.0)
    waiting.update(QueueState(2, 5, 0.1))
    waiting.remove(2)  # counted by the engine alone
    assert waiting.seconds == pytest.approx(0.5)


def test_nothing_is_known_before_the_first_message():
    waiting = WaitingTime()
    waiting.add(1, 1000)
    assert waiting.seconds == 0
