"""Load: arrivals, percentiles, latency that includes queues, counts by status."""

import asyncio
import random

import numpy as np
import pytest
from http_answers import answer, http_server, read_request
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.serving import load_generator
from bertsmith.serving.http_client import HttpClient
from bertsmith.serving.load_generator import (
    BROKEN,
    OK,
    UNANSWERED,
    percentile,
    poisson_times,
    run_closed_loop,
    run_open_loop,
    run_precisely,
)


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=50),
    st.sampled_from([0, 50, 90, 99, 99.9, 100]),
)
def test_percentiles_are_those_of_numpy(values, percent):
    assert percentile(sorted(values), percent) == pytest.approx(np.percentile(values, percent))


def test_arrivals_are_a_poisson_process_of_the_rate_and_repeat_with_the_seed():
    times = list(poisson_times(200.0, 50.0, random.Random(3)))
    assert times == list(poisson_times(200.0, 50.0, random.Random(3)))
    assert times != list(poisson_times(200.0, 50.0, random.Random(4)))
    assert times == sorted(times) and times[0] > 0 and times[-1] < 50
    gaps = np.diff(times)
    # Gaps are exponential: mean and standard deviation are both 1 / rate; 10,000 of them.
    assert gaps.mean() == pytest.approx(1 / 200, rel=0.05)
    assert gaps.std() == pytest.approx(1 / 200, rel=0.05)
    counts = np.histogram(times, bins=50, range=(0, 50))[0]
    assert counts.var() == pytest.approx(counts.mean(), rel=0.6)  # equal for Poisson


def run_load(compute, start):
    """Run `start(client, requests)` against a server whose status is what `compute()` returns.

    A status None closes the connection without an answer.
    """

    async def handle(reader, writer):
        status = 0
        while status is not None:
            await read_request(reader)
            status = await compute()
            if status:
                writer.write(answer(status))

    async def run():
        async with http_server(handle) as url:
            client = HttpClient(url, 500)
            result = await start(client, [client.build_request(b"{}")])
            client.close()
            return result

    return run_precisely(run())


def test_latency_includes_the_wait_behind_a_stall_in_an_open_loop_alone():
    """The server stands still for half of the second in which requests come."""

    def stalling():
        stalled = None

        async def compute():
            nonlocal stalled
            if stalled is None:
                stalled = asyncio.create_task(asyncio.sleep(0.5))
            await stalled
            return 200

        return compute

    opened = run_load(
        stalling(), lambda client, requests: run_open_loop(client, requests, 100.0, 1.0, 1)
    )
    closed = run_load(
        stalling(), lambda client, requests: run_closed_loop(client, requests, 1, 1.0, 1)
    )
    due_early = sum(due < 0.25 for due in poisson_times(100.0, 1.0, random.Random(1)))
    assert opened.num_requests == len(list(poisson_times(100.0, 1.0, random.Random(1))))
    share_slow = due_early / opened.num_requests
    assert share_slow > 0.1
    # Whoever came in the first quarter waited for at least another quarter.
    assert opened.latencies.p90 > 250
    assert opened.latencies.max > 400
    # One caller alone met the stall once, and hides it.
    assert closed.latencies.max > 450
    assert closed.latencies.p50 < opened.latencies.p90
    assert opened.max_waiting >= due_early


def test_a_server_that_is_slow_but_keeps_up_answers_at_the_rate_of_the_requests():
    """Each answer takes a quarter of the load, and all requests are computed at the same time."""

    async def compute():
        await asyncio.sleep(0.25)
        return 200

    result = run_load(
        compute, lambda client, requests: run_open_loop(client, requests, 200.0, 1.0, 1)
    )
    times = list(poisson_times(200.0, 1.0, random.Random(1)))
    assert result.sent_per_second == sum(due >= 0.25 for due in times) / 0.75
    assert result.answered_per_second > 0.9 * result.sent_per_second
    # Over the whole load, a quarter fewer answers came than requests.
    assert sum(due < 0.75 for due in times) < 0.8 * len(times)


def test_answers_are_counted_by_status():
    served = []

    async def compute():
        await asyncio.sleep(0.002)
        served.append((200, 200, 429, 200, None)[len(served) % 5])
        return served[-1]

    result = run_load(
        compute, lambda client, requests: run_open_loop(client, requests, 300.0, 0.5, 2)
    )
    num_ok, num_refused = served.count(200), served.count(429)
    assert num_ok > 0 and num_refused > 0
    assert result.statuses[OK] == num_ok and result.statuses["429"] == num_refused
    # A connection that was used before is replaced and the request sent again; a new one is not.
    assert result.statuses.get(BROKEN, 0) <= served.count(None)
    assert sum(result.statuses.values()) == result.num_requests
    assert result.refusal_latencies.p50 >= 2
    assert result.ok_share == num_ok / result.num_requests


def test_a_request_without_answer_is_counted_when_patience_ends(monkeypatch):
    monkeypatch.setattr(load_generator, "PATIENCE", 0.1)

    async def compute():
        await asyncio.sleep(60)

    for start in (
        lambda client, requests: run_open_loop(client, requests, 100.0, 0.2, 1),
        lambda client, requests: run_closed_loop(client, requests, 3, 0.2, 1),
    ):
        result = run_load(compute, start)
        assert result.num_requests > 0
        assert result.statuses == {UNANSWERED: result.num_requests}
        assert result.latencies is None and result.answered_per_second == 0


def test_callers_wait_for_their_answers_and_longer_if_they_are_refused(monkeypatch):
    monkeypatch.setattr(load_generator, "REFUSED_PAUSE", 0.1)
    num_waiting, max_waiting = 0, 0

    async def compute():
        nonlocal num_waiting, max_waiting
        num_waiting += 1
        max_waiting = max(max_waiting, num_waiting)
        await asyncio.sleep(0.001)
        num_waiting -= 1
        return 429

    result = run_load(
        compute, lambda client, requests: run_closed_loop(client, requests, 4, 0.3, 1)
    )
    assert max_waiting <= 4 and result.max_waiting <= 4
    assert result.statuses["429"] <= 4 * 4
    assert result.client_share > 0


def test_answers_that_come_together_after_the_end_count_for_callers():
    lump = None

    async def compute():
        nonlocal lump
        if lump is None:
            lump = asyncio.create_task(asyncio.sleep(0.5))
        await lump
        return 200

    result = run_load(
        compute, lambda client, requests: run_closed_loop(client, requests, 4, 0.1, 1)
    )
    assert result.statuses == {OK: 4}
    assert 0 < result.answered_per_second <= 4 / 0.5


def test_timers_are_more_exact_than_a_millisecond():
    async def wait():
        loop, delays = asyncio.get_running_loop(), []
        for _ in range(50):
            began = loop.time()
            await asyncio.sleep(0.0002)
            delays.append(loop.time() - began)
        return delays

    assert min(run_precisely(wait())) < 0.001
