"""The event loop answers while a long text is tokenized; one text is tokenized at a time."""

import asyncio
import threading

from bertsmith.serving.worker_thread import run_in_worker_thread


def test_the_loop_runs_on_and_work_waits_for_its_turn():
    running, most_at_once = [], []
    may_end = threading.Event()

    def work(number):
        running.append(number)
        most_at_once.append(len(running))
        assert may_end.wait(60)
        running.remove(number)
        return threading.current_thread().name, number

    async def loop():
        tasks = [asyncio.ensure_future(run_in_worker_thread(work, number)) for number in range(3)]
        await asyncio.sleep(0)
        may_end.set()  # only a loop that runs on gets here
        return await asyncio.gather(*tasks)

    results = asyncio.run(loop())
    assert [number for _, number in results] == [0, 1, 2]
    assert {name for name, _ in results} == {"bertsmith-texts_0"}
    assert most_at_once == [1, 1, 1]


def test_errors_reach_the_one_who_waits():
    async def loop():
        try:
            await run_in_worker_thread(int, "x")
        except ValueError:
            return "told"

    assert asyncio.run(loop()) == "told"
