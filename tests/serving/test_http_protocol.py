"""What clients send and do not read is bounded, before and after their requests."""

import asyncio
import contextlib
import socket
import sys

import pytest

from bertsmith.serving.http_protocol import close_unread_connections
from bertsmith.serving.server import bind

SECONDS = 60


def connect(server):
    host, _, port = server.address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def status_after(server, *parts):
    """The status line of what the server answers to parts of a request."""
    with connect(server) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                connection.sendall(part)
        return connection.makefile("rb").readline()


@pytest.mark.parametrize("part", [b"x" * 10_000, b": x\r\nx" * 2_000])
def test_headers_of_any_length_are_not_read(strict_server, part):
    begin = b"GET /health HTTP/1.1\r\nx: "
    assert b" 400 " in status_after(strict_server, begin, *[part] * 2_000)


def test_headers_behind_a_body_are_bounded_too(server):
    begin = b"POST /predict HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    parts = (b"1\r\n \r\n", b"0\r\nx: ", *[b"x" * 10_000] * 2_000)
    assert b" 400 " in status_after(server, begin, *parts)


def test_chunks_of_a_body_do_not_count_as_headers(server):
    begin = b"POST /predict HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (20_000, b"a good film " * 1_666 + b"a good f")
    parts = (b'd\r\n{"inputs": ["\r\n', *[chunk] * 20, b'3\r\n"]}\r\n', b"0\r\n\r\n")
    assert b" 422 " in status_after(server, begin, *parts)  # a list of one text is no pair


def test_headers_within_the_limit_are_read(strict_server):
    begin = b"GET /health HTTP/1.1\r\nhost: a\r\nx: " + b"x" * 30_000
    assert b" 200 " in status_after(strict_server, begin, b"x" * 20_000, b"\r\n\r\n")


def test_bodies_do_not_count_as_headers(server):
    """Many requests, one after another on one connection, are longer than headers may be."""
    body = b'{"inputs": ["%s"]}' % (b"a good film " * 3_000)
    head = b"POST /models/vectors/embed HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n"
    with connect(server) as connection:
        answers = connection.makefile("rb")
        for _ in range(4):
            connection.sendall((head % len(body)) + body[:20_000])
            connection.sendall(body[20_000:])
            assert b" 200 " in answers.readline()
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            assert len(answers.read(length)) == length


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux closes such connections")
def test_a_client_that_does_not_read_is_given_up():
    class Sender(asyncio.Protocol):
        def __init__(self, closed):
            self.closed = closed

        def connection_made(self, transport):
            transport.write(bytes(50_000_000))

        def connection_lost(self, error):
            self.closed.set_result(error)

    async def serve(listener, client):
        closed = asyncio.get_running_loop().create_future()
        async with await asyncio.get_running_loop().create_server(
            lambda: Sender(closed), sock=listener
        ):
            client.connect(listener.getsockname())
            return await asyncio.wait_for(closed, SECONDS)

    with bind("127.0.0.1", 0) as listener, socket.socket() as client:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
        close_unread_connections(listener, 0.5)
        listener.listen()
        error = asyncio.run(serve(listener, client))
    assert isinstance(error, OSError)
