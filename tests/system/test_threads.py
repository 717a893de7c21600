import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch_threads

from bertsmith.system import threads
from bertsmith.system.threads import map_on_threads

WAIT = 20


@pytest.fixture(autouse=True)
def four_threads():
    with torch_threads.threads(4):
        yield


def test_items_are_worked_on_together_and_come_in_their_order():
    second_is_done = threading.Event()

    def work(item):
        if item == 0:
            assert second_is_done.wait(WAIT)
        elif item == 1:
            second_is_done.set()
        return 10 * item

    assert list(map_on_threads(work, range(50))) == [10 * item for item in range(50)]


def test_each_worker_has_one_thread_of_torch_and_nobody_else_has_fewer():
    threads._start.cache_clear()
    torch.set_num_threads(count := 2)
    results = map_on_threads(lambda _: (torch.get_num_threads(), threading.get_ident()), range(40))
    found = [next(results)]
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == torch.get_num_threads() == count
    found += results
    assert {number for number, _ in found} == {1}
    assert len({thread for _, thread in found}) <= count
    assert torch.get_num_threads() == count


@pytest.mark.parametrize("failing", [1, None])
def test_after_an_error_or_when_closed_nothing_goes_on(failing):
    done = []

    def work(item):
        if item == failing:
            raise ValueError("item 1")
        time.sleep(0.01)
        done.append(item)

    results = map_on_threads(work, range(1000))
    next(results)
    if failing is None:
        results.close()
    else:
        with pytest.raises(ValueError, match="item 1"):
            list(results)
    count = len(done)
    assert count < 100
    time.sleep(0.05)
    assert len(done) == count
    assert list(map_on_threads(abs, range(3))) == [0, 1, 2]
