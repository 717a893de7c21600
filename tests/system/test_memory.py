"""Memory is what the system says; weights that processes share lie in it once."""

import mmap
import os
import subprocess
import sys

import pytest
from limits import file_size_limit

from bertsmith.errors import ConfigError
from bertsmith.model.shared import SharedFile
from bertsmith.system.memory import available_bytes, resident_bytes

MEGABYTE = 2**20

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


LOOK = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
print(sum(memory[i] for i in range(0, len(memory), mmap.PAGESIZE)), flush=True)
input()
"""


@on_linux
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
    assert resident_bytes([2**22 + 1]) is None
    assert available_bytes() > 0


def test_a_limit_on_the_size_of_files_is_named():
    said = r"2\.0 MB that processes share.*ulimit -f"
    with pytest.raises(ConfigError, match=said), file_size_limit(100_000):
        SharedFile(2_000_000)
