import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from bertsmith.threads import map_on_threads

WAIT = 20


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_items_are_worked_on_together_and_come_in_their_order() -> None:
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(WAIT)
        elif item == 1:
            second_is_done.set()
        return 10 * item

    assert list(map_on_threads(work, range(5), 2)) == [0, 10, 20, 30, 40]


@pytest.mark.parametrize(("asked", "items", "share"), [(4, 8, 1), (2, 8, 2), (4, 2, 2), (3, 3, 1)])
def test_threads_of_torch_are_divided_and_given_back(asked: int, items: int, share: int) -> None:
    results = map_on_threads(lambda _: torch.get_num_threads(), range(items), asked)
    assert next(results) == share
    assert torch.get_num_threads() == 4
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == 4
    assert list(results) == [share] * (items - 1)
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(("asked", "items"), [(1, 3), (4, 1), (0, 3)])
def test_one_at_a_time_needs_no_thread(asked: int, items: int) -> None:
    here = threading.get_ident()
    found = list(map_on_threads(lambda _: threading.get_ident(), range(items), asked))
    assert found == [here] * items
    assert not list(map_on_threads(lambda item: item, range(0), 4))


def test_an_error_in_the_work_reaches_the_caller_and_stops_the_rest() -> None:
    done = []

    def work(item: int) -> None:
        if item == 1:
            raise ValueError("item 1")
        time.sleep(0.01)
        done.append(item)

    with pytest.raises(ValueError, match="item 1"):
        list(map_on_threads(work, range(1000), 2))
    assert torch.get_num_threads() == 4
    assert len(done) < 100


def test_what_is_not_asked_for_is_not_worked_on() -> None:
    done = []

    def work(item: int) -> None:
        time.sleep(0.01)
        done.append(item)

    results = map_on_threads(work, range(1000), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert len(done) < 100


def test_no_thread_is_left_where_not_all_could_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_two(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        list(map_on_threads(lambda item: item, range(8), 4))
    assert not any(thread.is_alive() for thread in started)
    assert torch.get_num_threads() == 4
