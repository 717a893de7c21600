"""More requests than a running server can answer, for minutes, and its memory meanwhile.

    bertsmith serve DIR --port 8080 &
    python -m benchmarks.serving.overload http://127.0.0.1:8080 --pid $! --rate 400 --seconds 300

The server is overloaded if `--rate` is above the saturation that `bertsmith serve --bench` prints.
Every answer must have the status 200 or 429. Memory is that of the HTTP process and of the engine,
once a second. In the first minute batches and the queue grow, so the summary begins after it.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from benchmarks.serving.server_memory import format_memory, memory_by_process
from bertsmith.serving.bench import allow_connections, complete_url, read_bodies
from bertsmith.serving.http_client import HttpClient
from bertsmith.serving.load_generator import run_open_loop, run_precisely

ALLOWED = {"200", "429"}
SECONDS_BETWEEN = 1.0
SAMPLES_BETWEEN_LINES = 10
FIRST_SECONDS = 60.0
TOLERANCE = 0.03


async def watch_memory(process_id: int, samples: list[tuple[float, float]]) -> None:
    """Add (seconds, MB) to `samples` every second, and print every tenth, until cancelled."""
    started_at = time.monotonic()
    while True:
        memory = memory_by_process(process_id)
        seconds = time.monotonic() - started_at
        if len(samples) % SAMPLES_BETWEEN_LINES == 0:
            print(f"after {seconds:3.0f} s: {format_memory(memory)}", flush=True)
        samples.append((seconds, sum(memory.values())))
        await asyncio.sleep(SECONDS_BETWEEN)


def describe_memory(megabytes: Sequence[float]) -> str:
    """Say how far samples of memory are from their mean.

    >>> describe_memory([100, 100, 99, 101, 90])
    '5 samples of memory: mean 98 MB, lowest 90, highest 101; 60% are within 3% of the mean'
    """
    mean = statistics.fmean(megabytes)
    near = sum(abs(value - mean) <= TOLERANCE * mean for value in megabytes) / len(megabytes)
    return (
        f"{len(megabytes)} samples of memory: mean {mean:.0f} MB, lowest {min(megabytes):.0f}, "
        f"highest {max(megabytes):.0f}; {near:.0%} are within {TOLERANCE:.0%} of the mean"
    )


async def overload(args: argparse.Namespace) -> bool:
    """Send the requests, print what was answered; return whether all of it was allowed."""
    client = HttpClient(complete_url(args.url), allow_connections())
    requests = [client.build_request(body) for body in read_bodies(client.url)]
    samples: list[tuple[float, float]] = []
    watch = asyncio.create_task(watch_memory(args.pid, samples))
    try:
        result = await run_open_loop(client, requests, args.rate, args.seconds, seed=1)
    finally:
        watch.cancel()
        client.close()
    print(
        f"{result.num_requests:,} requests at {result.sent_per_second:.0f}/s: "
        f"{result.answered_per_second:.0f} answers/s, statuses {result.statuses}"
    )
    later = [memory for seconds, memory in samples if FIRST_SECONDS <= seconds < args.seconds]
    if later:
        print(describe_memory(later))
    return set(result.statuses) <= ALLOWED


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True, help="process of the server")
    parser.add_argument("--rate", type=float, required=True, help="requests a second")
    parser.add_argument("--seconds", type=float, default=300.0)
    raise SystemExit(0 if run_precisely(overload(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
