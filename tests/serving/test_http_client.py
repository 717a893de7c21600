"""The client of HTTP: answers are read however they come, connections are kept and replaced."""

import asyncio

import pytest
from http_answers import answer, http_server, read_request
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from bertsmith.errors import ConfigError
from bertsmith.serving.http_client import HttpClient, Response, ResponseReader, split_url

BODY = b"[[0.25, -1.5]]"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\nX-Other: a:b\r\n\r\n" + BODY
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"5;why=not\r\n[[0.2\r\n9\r\n5, -1.5]]\r\n0\r\nX-Trailer: 1\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


@given(
    st.sampled_from([PLAIN, CHUNKED, INTERIM + PLAIN]),
    st.lists(st.integers(1, 40), min_size=150, max_size=150),
)
def test_a_response_is_the_same_however_it_is_cut(whole, sizes):
    reader, responses = ResponseReader(), []
    assert not reader.has_begun
    start = 0
    for size in sizes:
        portion = whole[start : start + size]
        start += size
        if portion:
            responses.append(reader.feed(portion))
    assert reader.has_begun
    *earlier, last = responses
    assert last == Response(200, BODY, keeps_open=True)
    assert set(earlier) <= {None}


@pytest.mark.parametrize(
    ("head", "keeps_open"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200\r\n", True),
    ],
)
def test_a_connection_is_kept_unless_the_server_will_close_it(head, keeps_open):
    response = ResponseReader().feed(head + b"Content-Length: 0\r\n\r\n")
    assert response == Response(200, b"", keeps_open)


def test_a_body_without_length_ends_with_the_connection():
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.1 500 Oh\r\n\r\nno") is None
    assert reader.end() == Response(500, b"no", keeps_open=False)
    cut_short = ResponseReader()
    assert cut_short.feed(PLAIN[:-1]) is None
    assert cut_short.end() is None


def test_an_answer_without_body_needs_no_length():
    assert ResponseReader().feed(b"HTTP/1.1 204 No Content\r\n\r\n") == Response(204, b"", True)


@pytest.mark.parametrize("junk", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_is_not_http_is_refused(junk):
    with pytest.raises(ValueError):
        ResponseReader().feed(junk)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://host", "http://", "http://host:port", "http://höst"]
)
def test_a_url_names_a_server(url):
    with refuses(ConfigError, url):
        split_url(url)


def exchange(handle, talk, max_connections=1):
    """Run `talk(client)` with a client of a server that handles connections so."""

    async def run():
        async with http_server(handle) as url:
            client = HttpClient(f"{url}/embed?normalize=1", max_connections)
            await talk(client)
            client.close()

    asyncio.run(run())


def test_requests_one_after_another_share_a_connection_and_others_do_not():
    num_connections, heads = 0, []

    async def handle(reader, writer):
        nonlocal num_connections
        num_connections += 1
        while True:
            head, body = await read_request(reader)
            heads.append(head)
            await asyncio.sleep(0.01)
            writer.write(answer(200, body))

    async def talk(client):
        for text in (b'"a"', b'"b"'):
            assert (await client.send(client.build_request(text))).body == text
        assert num_connections == 1
        bodies = [f'"{number}"'.encode() for number in range(9)]
        responses = await asyncio.gather(
            *(client.send(client.build_request(each)) for each in bodies)
        )
        assert [response.body for response in responses] == bodies
        assert num_connections == 3

    exchange(handle, talk, max_connections=3)
    assert heads[0].startswith(b"POST /embed?normalize=1 HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_request_is_sent_again_if_the_server_closed_the_idle_connection():
    num_connections = 0

    async def handle(reader, writer):
        """Answer one request, and close when a second comes, without a byte."""
        nonlocal num_connections
        num_connections += 1
        await read_request(reader)
        writer.write(PLAIN)
        await read_request(reader)

    async def talk(client):
        for _ in range(3):
            assert (await client.send(client.build_request(b"{}"))).body == BODY

    exchange(handle, talk)
    assert num_connections == 3


@pytest.mark.parametrize("sent", [b"", PLAIN[:-1], b"SSH-2.0-x\r\n\r\n"])
def test_a_broken_answer_is_an_error_and_the_next_request_is_not_touched(sent):
    num_connections = 0

    async def handle(reader, writer):
        nonlocal num_connections
        num_connections += 1
        await read_request(reader)
        writer.write(sent if num_connections == 1 else PLAIN)

    async def talk(client):
        with pytest.raises((ConnectionError, ValueError)):
            await client.send(client.build_request(b"{}"))
        assert (await client.send(client.build_request(b"{}"))).body == BODY

    exchange(handle, talk)


def test_a_cancelled_request_takes_its_connection_along():
    num_connections = 0

    async def handle(reader, writer):
        nonlocal num_connections
        num_connections += 1
        is_first = num_connections == 1
        while True:
            await read_request(reader)
            if is_first:
                await asyncio.sleep(0.2)
            writer.write(PLAIN)

    async def talk(client):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.send(client.build_request(b"{}")), 0.05)
        assert (await client.send(client.build_request(b"{}"))).body == BODY

    exchange(handle, talk)
    assert num_connections == 2
