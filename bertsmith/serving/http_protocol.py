"""Connections of HTTP, whose clients can neither fill the memory nor hold it for ever."""

import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 65_536
UNREAD_SECONDS = 60


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a limit for the headers of a request; httptools has none."""

    _is_in_headers = False
    _num_header_bytes = 0

    def on_message_begin(self) -> None:
        self._is_in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self._is_in_headers = True  # behind the last chunk, which is empty, headers may follow

    def on_body(self, body: bytes) -> None:
        self._is_in_headers = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_headers = False
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        was_in_headers = self._is_in_headers
        super().data_received(data)
        # What comes in one piece may be the end of a body, so that its length says nothing.
        goes_on = was_in_headers and self._is_in_headers
        self._num_header_bytes = self._num_header_bytes + len(data) if goes_on else 0
        if self._num_header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The headers have more than {MAX_HEADER_BYTES:,} bytes.")


def close_unread_connections(listener: socket.socket, seconds: float = UNREAD_SECONDS) -> None:
    """Let the system close connections whose client takes nothing of its answer for some seconds.

    Without that, answers that nobody reads would stay in memory. Only Linux can do it.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        milliseconds = int(seconds * 1000)  # accepted connections have it, too
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
