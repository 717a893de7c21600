"""Free memory is given back when nothing waits or when the process has grown, and seldom else."""

import os
import platform

import numpy as np
import pytest

from bertsmith.serving.free_memory import BATCHES_BETWEEN_CHECKS, FreeMemory
from bertsmith.system.memory import resident_bytes

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries keep no pages"
)
BATCH = 7


def look(memory, *, is_idle=False):
    memory.add(BATCHES_BETWEEN_CHECKS * BATCH)
    memory.give_back(is_idle=is_idle)


def test_an_idle_process_gives_memory_back_after_full_batches(trims):
    memory = FreeMemory(BATCH)
    before = len(trims)
    memory.add(BATCHES_BETWEEN_CHECKS * BATCH - 1)
    memory.give_back(is_idle=True)
    assert len(trims) == before
    memory.add(1)
    memory.give_back(is_idle=True)
    memory.give_back(is_idle=True)
    assert len(trims) - before == 1


@pytest.mark.skipif(resident_bytes([os.getpid()]) is None, reason="memory is not known here")
def test_a_busy_process_gives_memory_back_when_it_has_grown(trims):
    memory = FreeMemory(BATCH)
    before = len(trims)
    for _ in range(3):
        look(memory)
    assert len(trims) == before
    more = np.ones(resident_bytes([os.getpid()]) // 10, np.uint8)
    look(memory)
    assert len(trims) - before == 1
    for _ in range(3):  # what is in use now is usual
        look(memory)
    assert len(trims) - before == 1
    assert more.all()
