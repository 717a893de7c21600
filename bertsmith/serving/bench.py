"""Measure how much load a server can take: its highest rate, and its latency at parts of that rate.

First, more and more callers send requests, and each waits for an answer before it sends the next.
This shows the saturation: how many requests a second the server answers at most. Then requests come
at random times, first at 90 % of this rate. If the server does not keep up with them, the rate at
which it answers them is the saturation instead. At 50 % and 80 % of the saturation, latency is
measured. A load of twice the saturation shows whether the server refuses the requests that it
cannot answer.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from bertsmith.data.text_files import iter_lines
from bertsmith.errors import ConfigError, InputError
from bertsmith.serving.built_in_texts import built_in_texts
from bertsmith.serving.http_client import HttpClient, split_url
from bertsmith.serving.load_generator import (
    BROKEN,
    OK,
    UNANSWERED,
    LoadResult,
    run_closed_loop,
    run_open_loop,
    run_precisely,
)
from bertsmith.system.counts import percent
from bertsmith.system.json_text import parse_json
from bertsmith.system.open_files import allow_open_files

MAX_CONNECTIONS = 4000
"""Maximum number of connections of this client. It is high, so that a server that limits its queue
refuses requests before this client runs out of connections."""
SPARE_FILES = 64
"""Number of open files that this process needs beside its connections."""
MIN_CALLERS = 4
"""Number of callers at first; each waits for its answer before it sends the next request."""
MAX_CALLERS = 256
"""Largest number of callers."""
MIN_RATE_GAIN = 1.03
"""Factor by which twice as many callers must raise the rate, or the doubling counts as flat."""
MAX_FLAT_STEPS = 2
"""Number of flat doublings in a row after which the search for the highest rate ends."""
KEEPS_UP_SHARE = 0.97
"""A server keeps up with a load if it answers at least this share of the requests a second."""
CHECKED_SHARE = 0.9
"""Share of the callers' highest rate that the server must keep up with at random times."""
TEXT_FIELDS = {"/embeddings": "input", "/v1/embeddings": "input"}
"""Name of the text in the body of a request, by path; for other paths "inputs", the name in
text-embeddings-inference."""
OUTCOMES = {
    "429": "were refused with status 429 (too many requests)",
    "503": "were refused with status 503 (not available)",
    BROKEN: "lost their connection",
    UNANSWERED: "had no answer half a minute later",
}
"""Ends of sentences about requests without an answer, by their status in `LoadResult.statuses`."""

OnLoad = Callable[[str, LoadResult], None]
"""A function that shows a load's name and result."""


@dataclass(frozen=True)
class BenchResult:
    """The results of all loads on a server."""

    url: str
    saturation: float
    """The highest rate at which the server answers, in requests a second."""
    alone: LoadResult
    """Result for one request after another."""
    callers: dict[int, LoadResult]
    """Results by the number of callers, each of which waits for its answer."""
    checked: LoadResult
    """Result at 90 % of the highest rate that the callers reached."""
    at_50: LoadResult
    """Result at 50 % of the saturation."""
    at_80: LoadResult
    at_200: LoadResult
    """Result at twice the saturation: the server should refuse the requests that are too many."""
    afterwards: LoadResult
    """Result for one request after another, just after the overload."""


def read_bodies(url: str, file: Path | None = None) -> list[bytes]:
    """Return the bodies of requests, one for each text.

    Args:
        url: the address that the requests go to; its path decides the name of the text's field.
        file: one text per line; or, as .jsonl, one whole body per line. Default: built-in texts.

    Raises:
        InputError: the file has no text, or a line of a .jsonl file is not JSON.
    """
    if file is None:
        texts = built_in_texts()
    else:
        texts = [stripped for line in iter_lines(file) if (stripped := line.strip())]
        if not texts:
            raise InputError(f"{file}: there is no text in it. Give a file with one text per line.")
    if file is not None and ".jsonl" in file.suffixes:
        for number, text in enumerate(texts, start=1):
            try:
                parse_json(text)
            except ValueError as error:
                raise InputError(
                    f"{file}: text {number} is not JSON. Each line of a .jsonl file is "
                    "sent as the body of a request."
                ) from error
        return [text.encode() for text in texts]
    field = TEXT_FIELDS.get(split_url(url).path, "inputs")
    return [json.dumps({field: text}).encode() for text in texts]


def complete_url(url: str) -> str:
    """Return the URL with the path /embed if it has none."""
    parts = split_url(url)
    return url if parts.path.strip("/") else parts._replace(path="/embed").geturl()


def measure_server(
    url: str,
    bodies: Sequence[bytes],
    seconds: float,
    seed: int = 1,
    api_key: str | None = None,
    on_load: OnLoad = lambda name, result: None,
) -> BenchResult:
    """Measure a running server.

    This takes six to nine times `seconds`, or more if answers come late: each load then waits for
    them up to half a minute.

    Args:
        url: the address that the requests go to, with its path.
        bodies: JSON; each request has one of them, drawn at random.
        seconds: time for which requests are sent at each rate. Loads of callers that wait for their
            answers take half or a fifth of it.
        seed: decides the times of requests and the order of bodies.
        api_key: the key that the server asks for.
        on_load: called with the name and result of each load.

    Raises:
        ConfigError: there is no server, or it does not answer with status 200.
    """

    async def run() -> BenchResult:
        client = HttpClient(url, allow_connections(), api_key)
        try:
            return await _measure(client, bodies, seconds, seed, on_load)
        finally:
            client.close()

    return run_precisely(run())


async def _measure(
    client: HttpClient, bodies: Sequence[bytes], seconds: float, seed: int, on_load: OnLoad
) -> BenchResult:
    """Put one load after another on the server: callers that wait, then random times."""
    requests = [client.build_request(body) for body in bodies]

    async def wait_in_turn(name: str, callers: int, seconds: float) -> LoadResult:
        result = await run_closed_loop(client, requests, callers, seconds, seed)
        on_load(name, result)
        return result

    async def send_at(share: float, rate: float) -> LoadResult:
        if not rate:
            raise ConfigError(f"{client.url}: no request was answered in {seconds:g} seconds.")
        result = await run_open_loop(client, requests, share * rate, seconds, seed)
        on_load(f"at {share:.0%} of the rate", result)
        return result

    await _check_answer(client, requests[0])
    await run_closed_loop(client, requests, MIN_CALLERS, seconds / 5, seed)  # warms up
    alone = await wait_in_turn("one after another", 1, seconds / 2)
    by_callers: dict[int, LoadResult] = {}
    callers, highest_rate, num_flat = MIN_CALLERS, alone.answered_per_second, 0
    while num_flat < MAX_FLAT_STEPS and callers <= MAX_CALLERS:
        result = await wait_in_turn(f"{callers} callers that wait", callers, seconds / 2)
        by_callers[callers] = result
        is_rising = result.answered_per_second > MIN_RATE_GAIN * highest_rate
        num_flat = 0 if is_rising else num_flat + 1
        highest_rate = max(highest_rate, result.answered_per_second)
        callers *= 2
    checked = await send_at(CHECKED_SHARE, highest_rate)
    keeps_up = checked.answered_per_second >= KEEPS_UP_SHARE * checked.sent_per_second
    saturation = highest_rate if keeps_up else checked.answered_per_second
    at_50 = await send_at(0.5, saturation)
    at_80 = await send_at(0.8, saturation)
    at_200 = await send_at(2.0, saturation)
    afterwards = await wait_in_turn("one after another, again", 1, seconds / 5)
    return BenchResult(
        client.url, saturation, alone, by_callers, checked, at_50, at_80, at_200, afterwards
    )


async def _check_answer(client: HttpClient, request: bytes) -> None:
    """Check that the server answers a first request with status 200.

    Raises:
        ConfigError: the answer has another status, or there is no server.
    """
    try:
        response = await client.send(request)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{client.url}: no server answers there ({error}). Start one, for example with "
            "`bertsmith serve DIR`, or give another URL."
        ) from error
    if response.status != int(OK):
        answer = response.body[:200].decode(errors="replace")
        raise ConfigError(
            f"{client.url}: the server answered a first text with status {response.status}: "
            f"{answer!r}. Give the URL of a route that the model answers, such as /predict for a "
            "classifier."
        )


def allow_connections() -> int:
    """Let this process open up to `MAX_CONNECTIONS`; return how many the system allows."""
    return max(1, allow_open_files(MAX_CONNECTIONS + SPARE_FILES) - SPARE_FILES)


TABLE_HEADING = (
    f"{'load':<28}{'sent/s':>9}{'answered/s':>12}{'p50 ms':>9}{'p90':>8}{'p99':>8}{'p99.9':>8}"
    f"{'max':>8}  other answers"
)


def table_row(name: str, result: LoadResult) -> str:
    """Format the result of a load as a row below `TABLE_HEADING`."""
    times = ["-"] * 5
    if result.latencies:
        times = [format_ms(value) for value in astuple(result.latencies)]
    cells = [f"{name:<28}{result.sent_per_second:>9,.1f}{result.answered_per_second:>12,.1f}"]
    cells += [f"{cell:>{width}}" for cell, width in zip(times, (9, 8, 8, 8, 8), strict=True)]
    others = [f"{status}: {count:,}" for status, count in result.statuses.items() if status != OK]
    return ("".join(cells) + f"  {', '.join(others)}").rstrip()


def describe_bench(result: BenchResult) -> Iterator[str]:
    """Yield sentences that describe the results."""
    yield f"The server answers {result.saturation:,.0f} requests a second at most."
    if result.alone.latencies:
        yield f"When nobody else asks, a request takes {format_ms(result.alone.latencies.p50)} ms."
    for share, load in (("50 %", result.at_50), ("80 %", result.at_80)):
        if load.latencies:
            yield (
                f"At {share} of that rate, half of the answers come within "
                f"{format_ms(load.latencies.p50)} ms, and 99 of 100 within "
                f"{format_ms(load.latencies.p99)} ms."
            )
    yield _describe_overload(result.at_200)
    if result.afterwards.latencies:
        yield f"Just afterwards a request takes {format_ms(result.afterwards.latencies.p50)} ms."
    client_share = max(load.client_share for load in (result.checked, result.at_50, result.at_80))
    yield (
        f"This client used up to {percent(client_share, 0)} of a core. Times count from when a "
        "request was due, so they include waiting in a queue."
    )


def _describe_overload(load: LoadResult) -> str:
    text = f"At twice that rate it answered {load.answered_per_second:,.0f} requests a second"
    if load.latencies:
        text += f", half of them within {format_ms(load.latencies.p50)} ms"
    others = [
        f"{percent(count / load.num_requests, 0)} {OUTCOMES.get(status, f'got status {status}')}"
        for status, count in load.statuses.items()
        if status != OK
    ]
    if not others:
        return f"{text}, and refused none, so requests waited ever longer."
    return f"{text}. Of all requests, {', '.join(others)}."


def format_ms(milliseconds: float) -> str:
    """Format a time in milliseconds: below 10 with one decimal, else as a whole number.

    >>> format_ms(3.14159), format_ms(31.4159), format_ms(31415.9)
    ('3.1', '31', '31,416')
    """
    return f"{milliseconds:.1f}" if milliseconds < 10 else f"{milliseconds:,.0f}"
