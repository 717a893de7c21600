"""Memory is what the system says, and what processes share counts once."""

import mmap
import multiprocessing
import os
import sys

import pytest

from bertsmith.model.shared import SharedFile, map_file
from bertsmith.system.memory import available_bytes, resident_bytes

MEGABYTE = 2**20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


def look(path, size, connection):
    """Read every page of a shared file, and wait."""
    memory = map_file(path, size)
    connection.send(int(memory.sum()))
    connection.recv()


def test_more_memory_is_seen():
    before = resident_bytes([os.getpid()])
    # Its own pages, not some that the process has held before.
    with mmap.mmap(-1, 64 * MEGABYTE) as held:
        for place in range(0, len(held), mmap.PAGESIZE):
            held[place] = 1
        after = resident_bytes([os.getpid()])
    assert after - before == pytest.approx(64 * MEGABYTE, rel=0.1)
    assert resident_bytes([2**22 + 1]) is None
    assert available_bytes() > 0


def test_what_is_shared_counts_once():
    size = 64 * MEGABYTE
    file = SharedFile(size)
    memory = file.map()
    memory.fill_(1)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=look, args=(file.path, size, theirs)
    )
    process.start()
    assert ours.recv() == size
    both = resident_bytes([os.getpid(), process.pid or 0])
    mine, other = resident_bytes([os.getpid()]), resident_bytes([process.pid or 0])
    ours.send("enough")
    process.join()
    file.close()
    # Alone, each counts half of what it shares, and code of its own.
    assert both <= mine + other
    assert both > size
