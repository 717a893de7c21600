"""HTTP connections with limits: a client cannot fill the memory, or hold a connection for ever."""

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 65_536
SENDING_SECONDS = 30.0
"""Seconds that a client has to send the headers of a request. It has as many to send the rest of a
body that nobody reads any more, since its request is answered already."""
UNREAD_SECONDS = 60
"""Seconds that an answer may wait for a client that does not read it."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the headers of a request: their size and their time.

    While a body is read, the application limits the time.
    """

    _is_in_headers = False
    _num_header_bytes = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._is_in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        self._clear_deadline()
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self._is_in_headers = True  # headers may follow the last chunk, which is empty

    def on_body(self, body: bytes) -> None:
        self._is_in_headers = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_headers = False
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        was_in_headers = self._is_in_headers
        super().data_received(data)
        # The bytes of this call are counted only if it began and ended within headers: otherwise
        # some of them may belong to a body.
        is_all_headers = was_in_headers and self._is_in_headers
        self._num_header_bytes = self._num_header_bytes + len(data) if is_all_headers else 0
        if self._num_header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The headers have more than {MAX_HEADER_BYTES:,} bytes.")
        # A cycle of uvicorn is a request with its response; there is none before the first request.
        is_answered = self.cycle is None or self.cycle.response_complete
        is_timed = self._deadline is not None or self.timeout_keep_alive_task is not None
        # On these bytes uvicorn has ended its timer, which closes idle connections. The client may
        # have sent a single byte and then no more.
        if is_answered and not is_timed:
            self._set_deadline()

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(SENDING_SECONDS, self._end_connection)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_connection(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def close_unread_connections(listener: socket.socket, seconds: float = UNREAD_SECONDS) -> None:
    """Let the system close a connection whose client does not read its answer for some seconds.

    This holds for all connections that `listener` will accept.
    Otherwise answers that nobody reads would stay in memory. Without `TCP_USER_TIMEOUT`, which
    Linux has, this does nothing.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        milliseconds = int(seconds * 1000)  # accepted connections inherit it
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
