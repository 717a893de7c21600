"""Requests with faults against a running server: no 500, no leak, no wrong answer.

    bertsmith serve DIR --port 8080 &
    python -m benchmarks.serving.faults http://127.0.0.1:8080 --pid $! --requests 100000

A fifth of the requests are right, and their vectors must be those that the server gave at the
start, byte for byte. All others are broken: cut bodies, clients that hang up, wrong types, deep
JSON, texts of 2 MB, half characters, unknown fields, wrong methods and paths. Memory is that of the
HTTP process and of the engine, about ten times.
"""

import argparse
import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

from benchmarks.serving.server_memory import format_memory, memory_by_process

TEXTS = [
    "A gripping story, beautifully told.",
    "The plot goes nowhere, slowly.",
    "naïve café – 北京 🙂",
    "one",
    "The meeting was moved from Tuesday to Thursday because the room was taken. " * 6,
]
MAX_SECONDS = 120.0
CUT = ("cut body", "no HTTP")
ALLOWED = {200, 400, 404, 405, 413, 422, 424, 429, 499, 503}


def post(path: str, body: bytes, length: int | None = None) -> bytes:
    """Write a request; `length` is the announced size of its body, by default the real one."""
    announced = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {announced}\r\n\r\n"
    return head.encode() + body


def embed(inputs: object, **fields: object) -> bytes:
    return post("/embed", json.dumps({"inputs": inputs, **fields}).encode())


def broken_requests(rng: random.Random) -> dict[str, Callable[[], bytes]]:
    """Return a maker of one request for each kind of fault."""
    text = rng.choice(TEXTS)
    whole = json.dumps({"inputs": text}).encode()
    cut = rng.randrange(len(whole))
    return {
        "cut JSON": lambda: post("/embed", whole[:cut]),
        "cut body": lambda: post("/embed", whole[:cut], length=len(whole)),
        "random bytes": lambda: post("/embed", rng.randbytes(rng.randrange(200))),
        "wrong type": lambda: embed(rng.choice([3, None, True, {"a": 1}, [1, 2], [[1]], [None]])),
        "empty": lambda: embed(rng.choice(["", [], ["a", ""]])),
        "unknown field": lambda: embed(text, surprise=1),
        "deep JSON": lambda: post("/embed", b'{"inputs":' + b"[" * rng.randrange(1, 50_000)),
        "half a character": lambda: post("/embed", b'{"inputs": "\\ud83d"}'),
        "no UTF-8": lambda: post("/embed", b'{"inputs": "\xff\xfe"}'),
        "large text": lambda: embed("word " * rng.choice([1_000, 100_000, 399_000])),
        "too large": lambda: post("/embed", b"x" * 3_000_000),
        "many texts": lambda: embed(["a"] * rng.choice([33, 1025, 3000])),
        "wrong head": lambda: post("/predict", whole),
        "wrong path": lambda: post("/" + "x" * rng.randrange(2000), whole),
        "wrong method": lambda: b"PATCH /embed HTTP/1.1\r\nHost: test\r\n\r\n",
        "other values": lambda: embed(text, dimensions=rng.choice([0, -1, 10**9, "a"])),
        "no HTTP": lambda: rng.randbytes(rng.randrange(1, 300)),
        "NUL": lambda: embed("a\0b"),
        "long line": lambda: b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    }


async def exchange(
    host: str, port: int, request: bytes, *, is_cut: bool = False
) -> tuple[int, bytes]:
    """Send a request on a connection of its own; return status and body, or 0 without an answer.

    If `is_cut`, nothing more is sent, as if the client had crashed.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        if is_cut:
            writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), MAX_SECONDS)
    except OSError:
        answer = b""
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0), body


async def hang_up(host: str, port: int, request: bytes, seconds: float) -> None:
    """Send a request, and close the connection before the answer."""
    _, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    await asyncio.sleep(seconds)
    writer.transport.abort()


async def run(args: argparse.Namespace) -> bool:
    """Send all requests, print what was answered; return whether all of it was allowed."""
    address = urlsplit(args.url)
    host, port = str(address.hostname), int(address.port or 80)
    close = b"Connection: close\r\nHost: test"
    right = {text: embed(text).replace(b"Host: test", close, 1) for text in TEXTS}
    expected = {text: (await exchange(host, port, right[text]))[1] for text in TEXTS}
    statuses: Counter[tuple[str, int]] = Counter()
    wrong: list[str] = []
    gate = asyncio.Semaphore(args.connections)
    rng = random.Random(args.seed)

    async def one() -> None:
        own = random.Random(rng.random())
        async with gate:
            kind = own.random()
            if kind < 0.2:
                text = own.choice(TEXTS)
                status, body = await exchange(host, port, right[text])
                statuses["right", status] += 1
                if status == 200 and body != expected[text]:
                    wrong.append(text)
            elif kind < 0.3:
                inputs = [own.choice(TEXTS)] * own.randrange(1, 30)
                await hang_up(host, port, embed(inputs), own.random() * 0.05)
                statuses["hung up", 0] += 1
            else:
                makers = broken_requests(own)
                name = own.choice(list(makers))
                request = makers[name]().replace(b"Host: test", close, 1)
                status, _ = await exchange(host, port, request, is_cut=name in CUT)
                statuses[name, status] += 1

    for begin in range(0, args.requests, 1000):
        await asyncio.gather(*(one() for _ in range(min(1000, args.requests - begin))))
        if args.pid and (begin // 1000) % max(1, args.requests // 10_000) == 0:
            memory = format_memory(memory_by_process(args.pid))
            print(f"after {begin + 1000:,} requests: {memory}", flush=True)
    for (name, status), count in sorted(statuses.items()):
        print(f"{name:20} {status or 'closed':>7} {count:8,}")
    refused = {status for _, status in statuses} - ALLOWED - {0}
    print(
        f"{args.requests:,} requests; wrong answers: {len(wrong)}; other statuses: {refused or 0}"
    )
    return not wrong and not refused


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, help="process of the server, whose memory is measured")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    raise SystemExit(0 if asyncio.run(run(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
