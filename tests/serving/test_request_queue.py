"""The queue of texts: budgets, turns, and keys that are computed apart."""

from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from bertsmith.serving.request_queue import RequestQueue


def queue_of(**requests):
    """A queue with requests `n=(key, costs)`, numbered from 1."""
    queue = RequestQueue()
    for number, (key, costs) in enumerate(requests.values(), 1):
        queue.add(number, key, costs)
    return queue


def batches(queue, max_tokens):
    taken = []
    while queue:
        taken.append(queue.take(max_tokens))
    return taken


def test_an_empty_queue_gives_nothing():
    assert RequestQueue().take(10) == []


def test_texts_fill_the_budget_in_their_order():
    queue = queue_of(a=("k", [4, 4, 4, 4, 4]))
    assert batches(queue, 10) == [[(1, 0), (1, 1)], [(1, 2), (1, 3)], [(1, 4)]]


def test_a_text_above_the_budget_is_computed_alone():
    queue = queue_of(a=("k", [50, 1]), b=("k", [1]))
    assert batches(queue, 10) == [[(1, 0)], [(1, 1), (2, 0)]]


def test_a_shorter_text_of_another_request_fills_what_is_left():
    queue = queue_of(a=("k", [6, 6]), b=("k", [6]), c=("k", [4]))
    assert queue.take(10) == [(1, 0), (3, 0)]
    assert queue.take(10) == [(2, 0)]


def test_one_text_waits_for_a_batch_and_not_for_a_long_request():
    queue = queue_of(a=("k", [10] * 100))
    queue.take(40)
    queue.add(2, "k", [10])
    assert (2, 0) in queue.take(40)


def test_many_long_requests_let_a_short_one_in():
    queue = RequestQueue()
    for number in range(10):
        queue.add(number, "k", [10] * 100)
    queue.add(10, "k", [10])
    assert [(10, 0) in queue.take(40) for _ in range(3)] == [False, False, True]


def test_a_request_of_short_texts_needs_few_turns_where_many_requests_wait():
    queue = RequestQueue()
    queue.add(0, "k", [5] * 8)
    numbers = count(1)
    turns: list[list[int]] = []
    while sum(map(len, turns)) < 8:
        for number in islice(numbers, 8):  # twice as many as a batch takes
            queue.add(number, "k", [10])
        batch = queue.take(40)
        if indices := [index for number, index in batch if number == 0]:
            turns.append(indices)
    assert turns == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_other_keys_are_computed_apart_and_take_turns():
    queue = queue_of(a=("k", [10] * 100), b=("other", [10, 10]), c=("k", [10]))
    assert queue.take(40) == [(1, 0), (1, 1), (1, 2), (3, 0)]
    assert queue.take(40) == [(2, 0), (2, 1)]
    assert queue.take(40) == [(1, 3), (1, 4), (1, 5), (1, 6)]


def test_a_cancelled_request_is_not_computed():
    queue = queue_of(a=("k", [1, 1, 1]), b=("k", [1]))
    assert queue.take(1) == [(1, 0)]
    assert [queue.cancel(1), queue.cancel(1), queue.cancel(7)] == [True, False, False]
    assert batches(queue, 10) == [[(2, 0)]]
    assert len(queue) == 0


def test_a_new_request_waits_for_one_turn_of_each_other():
    queue = queue_of(a=("k", [10] * 100), b=("other", [10, 5]), c=("k", [50]))
    assert queue.tokens_before_new(40) == 40 + 15 + 40
    queue.take(40)
    assert queue.tokens_before_new(2000) == 1000 + 15 + 50 - 40


REQUESTS = st.tuples(st.sampled_from("abc"), st.lists(st.integers(1, 30), min_size=1, max_size=12))
EVENTS = st.lists(REQUESTS | st.integers(0, 12) | st.none(), min_size=1, max_size=40)


@given(EVENTS, st.integers(1, 60))
def test_every_text_is_taken_once_and_nobody_is_forgotten(events, max_tokens):
    """An event adds a request, cancels one by its number, or takes a batch."""
    queue = RequestQueue()
    waiting: dict[int, tuple[str, list[int]]] = {}
    next_text: dict[int, int] = {}
    patience: dict[int, int] = {}  # batches after which it must be a request's turn

    def take():
        batch = queue.take(max_tokens)
        assert batch == sorted(batch) and len({waiting[number][0] for number, _ in batch}) == 1
        costs = [waiting[number][1][index] for number, index in batch]
        assert sum(costs) <= max_tokens or len(costs) == 1
        for number, index in batch:
            assert index == next_text[number]
            next_text[number] += 1
        for number in waiting:
            patience[number] -= 1
        for number in {number for number, _ in batch}:
            if next_text[number] == len(waiting[number][1]):
                del waiting[number]
            else:
                patience[number] = len(waiting) + 1
        assert all(patience[number] > 0 for number in waiting)
        assert len(queue) == len(waiting)

    for number, event in enumerate(events):
        if event is None:
            if waiting:
                take()
        elif isinstance(event, int):
            assert queue.cancel(event) == (waiting.pop(event, None) is not None)
        else:
            queue.add(number, *event)
            waiting[number], next_text[number] = event, 0
            patience[number] = len(waiting) + 1
    while waiting:
        take()
    assert not queue and queue.take(max_tokens) == []
