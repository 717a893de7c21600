"""Small HTTP servers on a free port of this computer, whose answers a test decides."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
END_SECONDS = 5


@asynccontextmanager
async def http_server(handle: Handle) -> AsyncIterator[str]:
    """Give each connection to `handle`; yield the URL, and end with all connections ended."""
    tasks = set[asyncio.Task[None]]()

    async def follow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handle(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test ends
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(follow, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        if tasks:
            await asyncio.wait(set(tasks), timeout=0.1)
        for task in set(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(set(tasks), timeout=END_SECONDS)


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read a request; return its head and body.

    Raises:
        IncompleteReadError: the connection has ended.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return head, await reader.readexactly(int(length))


def answer(status: int, body: bytes = b"[]") -> bytes:
    """Return the bytes of a response."""
    return b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)
