"""Memory options of a process; each test has a process of its own."""

import platform
import subprocess
import sys

import pytest

FREE_ARRAYS = """
import resource
from pathlib import Path

import numpy as np

from bertsmith.system.process_options import configure_process, give_free_memory_back

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

configure_process(has_one_heap=True)
before = resident_bytes()
arrays = [np.ones(1_000_000, np.uint8) for _ in range(100)]
del arrays[1::2]
freed = resident_bytes() - before
give_free_memory_back()
print(freed, resident_bytes() - before, sum(array.nbytes for array in arrays))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do not keep pages")
def test_free_memory_between_arrays_is_given_back():
    done = subprocess.run(
        [sys.executable, "-c", FREE_ARRAYS], capture_output=True, text=True, check=True
    )
    with_holes, without_holes, used = map(int, done.stdout.split())
    assert with_holes > 95_000_000  # the pages of freed arrays are kept
    assert without_holes < used + 10_000_000
