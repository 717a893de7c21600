"""Limits of the system, as a full disk or a strict administrator sets them."""

import resource
from contextlib import contextmanager


@contextmanager
def limited(kind, number):
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (number, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def file_size_limit(size):
    """No file may grow beyond `size` bytes: a write fails half way, as on a full disk."""
    return limited(resource.RLIMIT_FSIZE, size)
