"""Bodies that arrive are bounded together, and refused ones leave no trace."""

import re
import socket
import time

import pytest

from bertsmith.serving.arriving_bytes import BODIES_AT_A_TIME, ArrivingBytes
from bertsmith.serving.problems import Problem


def test_bytes_are_added_and_subtracted():
    arriving = ArrivingBytes(100)
    arriving.add(60)
    with pytest.raises(Problem) as caught:
        arriving.add(41)
    assert caught.value.status == 429
    assert "60 bytes of requests that are still arriving, of at most 100" in caught.value.message
    arriving.add(40)
    arriving.subtract(100)
    assert arriving.num_held == 0


def test_unfinished_bodies_are_bounded_together(strict_server):
    """The server takes bodies of 500 bytes; 80 clients send 450 of them and wait."""
    host, _, port = strict_server.address.removeprefix("http://").partition(":")
    head = b"POST /predict HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret\r\n"
    head += b"content-length: 480\r\n\r\n"
    clients = [socket.create_connection((host, int(port)), timeout=60) for _ in range(80)]
    try:
        for client in clients:
            client.sendall(head + b" " * 450)
        content = {"inputs": "a good film" + " " * 400}
        end = time.monotonic() + 60
        while True:
            answer = strict_server.post("/predict", content, Authorization="Bearer secret")
            if answer.status == 429:
                break
            assert time.monotonic() < end
        assert f"at most {500 * BODIES_AT_A_TIME:,}" in answer.error
    finally:
        for client in clients:
            client.close()
    while strict_server.post("/predict", content, Authorization="Bearer secret").status != 200:
        assert time.monotonic() < end


def count_dropped(server):
    """Count the requests whose clients have hung up."""
    sample = re.search(
        r'te_request_failure{err="dropped"} (\S+)', server.get("/metrics").body.decode()
    )
    return float(sample[1]) if sample else 0.0


def test_a_client_that_hangs_up_while_it_sends_is_counted(server):
    before = count_dropped(server)
    host, _, port = server.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 480\r\n\r\n" + b" " * 450)
    end = time.monotonic() + 60
    while count_dropped(server) == before:
        assert time.monotonic() < end
        time.sleep(0.01)
