"""A small HTTP/1.1 client for many requests at once, on connections that are kept open.

A load generator shares its computer with the server that it measures, so its client must be light:
one request costs about a tenth of what it costs with a general client. The client follows RFC 9112
as far as a server's answer to a POST needs: a body has a given length, comes in chunks, or goes on
until the connection ends.
"""

import asyncio
import ssl
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from bertsmith.errors import ConfigError

NO_BODY = (204, 304)
"""Statuses of answers that have no body, whatever their headers say."""
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Response:
    """A server's answer to one request."""

    status: int
    body: bytes
    keeps_open: bool
    """Whether the connection may carry another request."""


class ResponseReader:
    """Parser that puts a response together from portions of bytes, wherever they are cut."""

    def __init__(self) -> None:
        self._bytes = bytearray()  # not parsed yet
        self._body = bytearray()  # the chunks of a body that is sent in chunks
        self._status = 0
        self._headers: dict[bytes, bytes] = {}

    @property
    def has_begun(self) -> bool:
        return bool(self._bytes or self._status)

    def feed(self, portion: bytes) -> Response | None:
        """Take a portion of bytes; return the response if it is complete.

        Raises:
            ValueError: the bytes are not an HTTP response.
        """
        self._bytes += portion
        while not self._status:
            if not self._read_head():
                return None
            if self._status // 100 == 1:  # an interim answer comes before the real one
                self._status = 0
        if self._status in NO_BODY:
            return self._finish(b"")
        if b"chunked" in self._headers.get(b"transfer-encoding", b"").lower():
            return self._finish(bytes(self._body)) if self._read_chunks() else None
        if b"content-length" not in self._headers:
            return None  # the body ends with the connection
        length = int(self._headers[b"content-length"])
        if len(self._bytes) < length:
            return None
        body = bytes(self._bytes[:length])
        del self._bytes[:length]
        return self._finish(body)

    def end(self) -> Response | None:
        """Return the response that the end of the connection completes, if there is one."""
        is_open_ended = self._status and not (
            b"content-length" in self._headers or b"transfer-encoding" in self._headers
        )
        return Response(self._status, bytes(self._bytes), False) if is_open_ended else None

    def _read_head(self) -> bool:
        """Read the status and the headers; return whether all of them have arrived."""
        head, separator, rest = self._bytes.partition(b"\r\n\r\n")
        if not separator:
            return False
        self._bytes = rest
        first, *lines = bytes(head).split(b"\r\n")
        version, _, after = first.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise ValueError(f"not HTTP: {first[:80]!r}")
        self._status = int(after[:3])
        pairs = (line.partition(b":") for line in lines)
        self._headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if version == b"HTTP/1.0":
            self._headers.setdefault(b"connection", b"close")
        return True

    def _read_chunks(self) -> bool:
        """Move whole chunks to the body; return whether the last chunk has arrived."""
        while True:
            line_end = self._bytes.find(b"\r\n")
            if line_end < 0:
                return False
            size = int(self._bytes[:line_end].partition(b";")[0], 16)
            if size == 0:  # what follows are trailers, up to an empty line
                trailers_end = self._bytes.find(b"\r\n\r\n", line_end)
                if trailers_end < 0:
                    return False
                del self._bytes[: trailers_end + 4]
                return True
            start = line_end + 2
            if len(self._bytes) < start + size + 2:
                return False
            self._body += self._bytes[start : start + size]
            del self._bytes[: start + size + 2]

    def _finish(self, body: bytes) -> Response:
        # Bytes after the answer would be taken for a part of the next one.
        keeps_open = self._headers.get(b"connection", b"").lower() != b"close" and not self._bytes
        return Response(self._status, body, keeps_open)


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._answer: asyncio.Future[Response] | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def has_begun(self) -> bool:
        """Whether a part of the answer has arrived."""
        return self._reader.has_begun

    async def exchange(self, request: bytes) -> Response:
        """Send a request and wait for its response.

        Raises:
            ConnectionError: the connection ended first.
            ValueError: the answer is no HTTP response.
        """
        if self._transport is None or not self.is_open:
            raise ConnectionResetError("the server closed the connection")
        self._reader = ResponseReader()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"found {type(transport).__name__}; allowed is a stream")
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # no request waits for an answer
            return
        try:
            response = self._reader.feed(data)
        except ValueError as error:
            self._answer.set_exception(error)
            self.close()
            return
        if response is not None:
            self._answer.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is None or self._answer.done():
            return
        response = self._reader.end() if exc is None else None
        if response is None:
            self._answer.set_exception(ConnectionResetError("the server closed the connection"))
        else:
            self._answer.set_result(response)


class HttpClient:
    """Client that posts JSON to one URL; each connection carries one request at a time.

    Args:
        url: where to post, such as http://127.0.0.1:8080/embed.
        max_connections: further requests wait until one is free.
        api_key: sent as `Authorization: Bearer KEY`.
    """

    def __init__(self, url: str, max_connections: int, api_key: str | None = None) -> None:
        self.url = url
        self._parts = split_url(url)
        self._key_header = f"Authorization: Bearer {api_key}\r\n" if api_key else ""
        self._free_connections = asyncio.Semaphore(max_connections)
        self._idle: list[Connection] = []

    def build_request(self, body: bytes) -> bytes:
        """Build the bytes of a POST of JSON."""
        url = self._parts
        path = url.path or "/"
        target = f"{path}?{url.query}" if url.query else path
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {url.netloc.rpartition('@')[2]}\r\n"
            f"Accept: application/json\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{self._key_header}\r\n"
        )
        # A key with bytes that are not UTF-8 is sent as it is.
        return head.encode(errors="surrogateescape") + body

    async def send(self, request: bytes) -> Response:
        """Send the bytes of a request and return the response.

        A server may close an idle connection just when a request is on its way. Such a request is
        sent again on another connection, as browsers do.

        Raises:
            OSError: the server cannot be reached, or closed the connection.
            ValueError: the answer is no HTTP response.
        """
        async with self._free_connections:
            while connection := self._take_idle():
                try:
                    return await self._exchange(connection, request)
                except ConnectionError:
                    if connection.has_begun:
                        raise
            return await self._exchange(await self._connect(), request)

    def close(self) -> None:
        """Close the connections that no request uses."""
        while self._idle:
            self._idle.pop().close()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _connect(self) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection,
            self._parts.hostname or "",
            self._parts.port or PORTS[self._parts.scheme],
            ssl=ssl.create_default_context() if self._parts.scheme == "https" else None,
        )
        return connection

    async def _exchange(self, connection: Connection, request: bytes) -> Response:
        """Send a request on a connection, which is then kept for another one or closed."""
        is_reusable = False
        try:
            response = await connection.exchange(request)
            is_reusable = response.keeps_open
        finally:  # also if cancelled: the rest of the answer must not reach another request
            if is_reusable:
                self._idle.append(connection)
            else:
                connection.close()
        return response


def split_url(url: str) -> SplitResult:
    """Split the URL of a server.

    Raises:
        ConfigError: the URL names no server, or is not that of HTTP.
    """
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme in PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        is_complete = False
    if not is_complete or not url.isascii():
        raise ConfigError(f"{url!r} is not the URL of a server, such as http://127.0.0.1:8080.")
    return parts
