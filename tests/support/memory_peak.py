"""Measure the memory that a piece of work takes."""

import tracemalloc


def peak(work):
    """Call `work`; return by how many bytes the memory of Python and numpy grew at most."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    work()
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return highest - before
