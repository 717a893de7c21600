"""Ranks that wait for others when they start say so."""

import threading
import time

import torch.distributed as dist
from launches import free_port

from bertsmith.system.launch import Launch
from bertsmith.training.workers import line_check
from bertsmith.training.workers.line_check import check_lines, open_store


def launch_of(rank, port=0):
    return Launch(rank, 3, rank, "127.0.0.1", port)


def wait_for_message(capfd, part):
    """Wait until a text that has a part was printed on standard error; return it."""
    printed = ""
    for _ in range(600):
        printed += capfd.readouterr().err
        if part in printed:
            return printed
        time.sleep(0.05)
    raise AssertionError(printed)


def test_rank_0_names_the_ranks_that_it_waits_for(capfd, monkeypatch):
    monkeypatch.setattr(line_check, "NOTICE_SECONDS", 0.2)
    store = dist.HashStore()
    first = threading.Thread(target=check_lines, args=(launch_of(0), store))
    first.start()
    message = wait_for_message(capfd, "waiting for rank 1 and 1 more of 3 to start")
    others = [threading.Thread(target=check_lines, args=(launch_of(n), store)) for n in (1, 2)]
    for thread in others:
        thread.start()
    for thread in (first, *others):
        thread.join(60)
        assert not thread.is_alive()
    assert (message + capfd.readouterr().err).count("waiting for") == 1


def test_a_rank_that_does_not_reach_rank_0_says_where_it_tries(capfd, monkeypatch):
    monkeypatch.setattr(line_check, "NOTICE_SECONDS", 0.2)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")  # which is set to something else, and restored
    port = free_port()
    second = threading.Thread(target=open_store, args=(launch_of(1, port),))
    second.start()
    wait_for_message(capfd, f"rank 1 does not reach rank 0 at 127.0.0.1:{port}")
    store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    second.join(60)
    assert not second.is_alive() and store.port == port
