"""The memory that a piece of work takes."""

import tracemalloc


def peak(work):
    """Return the highest number of bytes that Python and numpy held at once for `work`."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    work()
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return highest - before
