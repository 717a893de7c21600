"""Load on a server for measurements: requests at random times, or callers that await each answer.

In an open loop, requests are due at the times of a Poisson process, like requests of many
independent people. They do not wait for the answers to earlier requests. Latency counts from the
time at which a request was due, so it includes waiting behind a slow request. In a closed loop, a
caller waits for each answer. So callers send less while the server stalls, and their latencies
leave out the worst times ("coordinated omission", G. Tene, How NOT to Measure Latency, 2013).
Therefore closed loops measure throughput here; latency is shown only for a single caller, who never
finds a queue.
"""

import asyncio
import random
import select
import selectors
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bertsmith.serving.http_client import HttpClient

T = TypeVar("T")

OK = "200"
BROKEN = "connection lost"
UNANSWERED = "unanswered"
PATIENCE = 30.0  # seconds after the last request for answers that are still to come
RAMP_SHARE = 0.25
"""The rates of a load at random times leave out this share of its time, the first one: until the
server's queue has filled, fewer answers come than requests, although the server keeps up."""
REFUSED_PAUSE = 0.05  # seconds; without it, callers who are refused would call again at once


@dataclass(frozen=True)
class Latencies:
    """Percentiles of the times of answers, in milliseconds."""

    p50: float
    p90: float
    p99: float
    p99_9: float
    max: float


@dataclass(frozen=True)
class LoadResult:
    """The result of a load on a server, which lasted some seconds."""

    sent_per_second: float
    answered_per_second: float
    """Answers a second with status 200 that came before the load ended. A load of callers that wait
    ends with the last answer. For requests at random times, this rate and the one above leave out
    the first quarter of the load (`RAMP_SHARE`)."""
    num_requests: int
    statuses: dict[str, int]
    """Number of requests by HTTP status; requests without a status are counted as `BROKEN` if their
    connection was lost, or `UNANSWERED` half a minute after the last request was sent."""
    latencies: Latencies | None
    """Latencies of answers with status 200, from when the request was due."""
    refusal_latencies: Latencies | None
    """Latencies of answers with another status."""
    max_waiting: int
    """The highest number of requests that waited for an answer at the same time."""
    lateness_ms: float
    """Delay of this client: 99 of 100 requests were sent at most this many milliseconds late."""
    client_share: float
    """Processor time of this client, as a share of one core."""

    @property
    def ok_share(self) -> float:
        """Return the share of requests that were answered with status 200."""
        return self.statuses.get(OK, 0) / max(self.num_requests, 1)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of sorted values, interpolated between neighbours as numpy does."""
    position = percent / 100 * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def poisson_times(rate: float, seconds: float, rng: random.Random) -> Iterator[float]:
    """Yield the times of a Poisson process of `rate` a second, until `seconds`."""
    due = rng.expovariate(rate)
    while due < seconds:
        yield due
        due += rng.expovariate(rate)


def run_precisely(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop whose timers are exact to a fraction of a millisecond."""
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(_PreciseSelector())
    ) as runner:
        return runner.run(coroutine)


async def run_open_loop(
    client: HttpClient, requests: Sequence[bytes], rate: float, seconds: float, seed: int
) -> LoadResult:
    """Send requests, drawn at random, at the times of a Poisson process.

    Args:
        client: sends the requests.
        requests: bytes of whole requests.
        rate: mean number of requests a second.
        seconds: time in which requests are sent; answers may come for `PATIENCE` seconds more.
        seed: decides the times and the order of requests.
    """
    arrivals, choices = random.Random(seed), random.Random(f"requests {seed}")
    record = _Record(seconds)
    tasks = []
    for offset in poisson_times(rate, seconds, arrivals):
        due = record.began + offset
        wait = due - time.perf_counter()
        await asyncio.sleep(max(wait, 0.0))  # also with 0, so that answers are read
        request = choices.choice(requests)
        tasks.append(asyncio.create_task(record.follow(client, request, due)))
    await asyncio.sleep(max(record.began + seconds - time.perf_counter(), 0.0))
    record.stop_clock()
    await _await_answers(tasks)
    return record.summarize(RAMP_SHARE * seconds, seconds)


async def run_closed_loop(
    client: HttpClient, requests: Sequence[bytes], callers: int, seconds: float, seed: int
) -> LoadResult:
    """Let callers send requests, drawn at random; each waits for an answer before it sends again.

    After an answer with another status than 200, a caller waits for `REFUSED_PAUSE` seconds.
    """
    record = _Record(seconds)

    async def call(rng: random.Random) -> None:
        while (now := time.perf_counter()) < record.began + seconds:
            if await record.follow(client, rng.choice(requests), now) != OK:
                await asyncio.sleep(REFUSED_PAUSE)

    rngs = [random.Random(f"{seed} {number}") for number in range(callers)]
    tasks = [asyncio.create_task(call(rng)) for rng in rngs]
    await asyncio.sleep(seconds)
    record.stop_clock()
    await _await_answers(tasks)
    # A server that computes large batches gives many answers at once; the last batch counts whole.
    last = max(record.ok_ends, default=0.0) - record.began
    return record.summarize(0.0, max(seconds, last))


async def _await_answers(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Wait for tasks, and cancel those that take longer than `PATIENCE`."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=PATIENCE)
    for task in late:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


@dataclass
class _Record:
    """Record of the requests of one load and of their answers; all times are in seconds."""

    seconds: float
    """The length of the load."""
    began: float = field(default_factory=time.perf_counter)
    cpu_began: float = field(default_factory=time.process_time)
    cpu_seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    ok_latencies: list[float] = field(default_factory=list)
    """Latencies of the answers with status 200, in the order in which they came."""
    ok_ends: list[float] = field(default_factory=list)
    """The times at which these answers came, on the clock of `began`."""
    other_latencies: list[float] = field(default_factory=list)
    """Latencies of the answers with another status."""
    due_times: list[float] = field(default_factory=list)
    """The times at which requests were due, on the clock of `began`."""
    lateness: list[float] = field(default_factory=list)
    """Delays of the requests: seconds from when each was due until it was sent."""
    num_waiting: int = 0
    """Number of requests that wait for an answer now."""
    max_waiting: int = 0

    def stop_clock(self) -> None:
        self.cpu_seconds = time.process_time() - self.cpu_began

    async def follow(self, client: HttpClient, request: bytes, due: float) -> str:
        """Send a request, note its answer, and return its status.

        Args:
            due: time at which the request is due, on the clock of `began`.
        """
        self.due_times.append(due)
        self.lateness.append(time.perf_counter() - due)
        self.num_waiting += 1
        self.max_waiting = max(self.max_waiting, self.num_waiting)
        status = UNANSWERED
        try:
            status = str((await client.send(request)).status)
        except (OSError, ValueError):
            status = BROKEN
        finally:  # also if cancelled
            self.num_waiting -= 1
            self.statuses[status] += 1
        now = time.perf_counter()
        if status == OK:
            self.ok_latencies.append(now - due)
            self.ok_ends.append(now)
        elif status != BROKEN:
            self.other_latencies.append(now - due)
        return status

    def summarize(self, start: float, end: float) -> LoadResult:
        """Return the result, with rates from `start` to `end` seconds after the load began."""

        def rate(times: Sequence[float]) -> float:
            return sum(start <= time_ - self.began <= end for time_ in times) / (end - start)

        return LoadResult(
            sent_per_second=rate(self.due_times),
            answered_per_second=rate(self.ok_ends),
            num_requests=self.statuses.total(),
            statuses=dict(sorted(self.statuses.items())),
            latencies=_to_latencies(self.ok_latencies),
            refusal_latencies=_to_latencies(self.other_latencies),
            max_waiting=self.max_waiting,
            lateness_ms=1000 * percentile(sorted(self.lateness), 99) if self.lateness else 0.0,
            client_share=self.cpu_seconds / self.seconds,
        )


def _to_latencies(seconds: Sequence[float]) -> Latencies | None:
    """Compute the percentiles of latencies in seconds; None if there is none."""
    if not seconds:
        return None
    times = sorted(1000 * latency for latency in seconds)
    return Latencies(*(percentile(times, percent) for percent in (50, 90, 99, 99.9, 100)))


class _PreciseSelector(selectors.DefaultSelector):
    """Selector that waits to the microsecond, where Python's epoll rounds up to milliseconds.

    Rounded up, each request would be sent half a millisecond late in the mean, which is a tenth of
    the latency of a small model. select() takes microseconds, and it can wait for an epoll object.
    """

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)
