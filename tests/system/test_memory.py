"""Memory is what the system says, and what processes share counts once."""

import mmap
import os
import subprocess
import sys

import pytest

from bertsmith.model.shared import SharedFile
from bertsmith.system.memory import available_bytes, resident_bytes

MEGABYTE = 2**20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


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


LOOK = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
print(sum(memory[i] for i in range(0, len(memory), mmap.PAGESIZE)), flush=True)
input()
"""


def test_what_is_shared_counts_once():
    size = 64 * MEGABYTE
    file = SharedFile(size)
    memory = file.map()
    memory.fill_(1)
    command = [sys.executable, "-c", LOOK, str(file.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert int(process.stdout.readline()) == size // mmap.PAGESIZE
        both = resident_bytes([os.getpid(), process.pid])
        mine, other = resident_bytes([os.getpid()]), resident_bytes([process.pid])
        process.communicate(b"\n")
    file.close()
    # Alone, each counts half of what it shares, and code of its own.
    assert size < both <= mine + other
