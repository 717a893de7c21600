"""Messages of ranks."""

import io
import os
import sys

from bertsmith.training.workers.rank_errors import print_on_rank


def test_a_rank_goes_on_if_nobody_reads_its_message(monkeypatch):
    """A thread that watches ranks would end with the error, and be silent from then on."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as raw:
        monkeypatch.setattr(sys, "__stderr__", io.TextIOWrapper(raw, write_through=True))
        print_on_rank("rank 1 is alive")


def test_the_message_of_a_rank_is_read_although_the_rank_is_quiet(capfd, monkeypatch):
    with open(2, "w", closefd=False) as stderr:
        monkeypatch.setattr(sys, "__stderr__", stderr)
        print_on_rank("rank 1 is alive")
    assert capfd.readouterr().err == "bertsmith: rank 1 is alive\n"
