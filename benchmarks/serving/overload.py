"""More requests than a running server can answer, for minutes, and its memory meanwhile.

    bertsmith serve DIR --port 8080 &
    python -m benchmarks.serving.overload http://127.0.0.1:8080 --pid $! --rate 400 --seconds 300

The server is overloaded if `--rate` is above the saturation that `bertsmith serve --bench` prints.
Every answer must have the status 200 or 429. Memory is that of the HTTP process and of the engine.
"""

import argparse
import asyncio

from benchmarks.serving.server_memory import format_memory, memory_by_process
from bertsmith.serving.bench import allow_connections, complete_url, read_bodies
from bertsmith.serving.http_client import HttpClient
from bertsmith.serving.load import run_open_loop, run_precisely

ALLOWED = {"200", "429"}
SECONDS_BETWEEN = 10.0


async def watch_memory(process_id: int) -> None:
    """Print the memory every ten seconds, until cancelled."""
    seconds = 0.0
    while True:
        print(f"after {seconds:3.0f} s: {format_memory(memory_by_process(process_id))}", flush=True)
        await asyncio.sleep(SECONDS_BETWEEN)
        seconds += SECONDS_BETWEEN


async def overload(args: argparse.Namespace) -> bool:
    """Send the requests, print what was answered; return whether all of it was allowed."""
    client = HttpClient(complete_url(args.url), allow_connections())
    requests = [client.request(body) for body in read_bodies(client.url)]
    watch = asyncio.create_task(watch_memory(args.pid))
    try:
        result = await run_open_loop(client, requests, args.rate, args.seconds, seed=1)
    finally:
        watch.cancel()
        client.close()
    print(
        f"{result.num_requests:,} requests at {result.sent_per_second:.0f}/s: "
        f"{result.answered_per_second:.0f} answers/s, statuses {result.statuses}"
    )
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
