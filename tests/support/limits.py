"""Limits on files, so that tests see the errors of a full disk or of too many open files."""

import resource
from contextlib import contextmanager


@contextmanager
def file_size_limit(size):
    """Let no file grow beyond `size` bytes: a write then fails halfway, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def no_more_open_files():
    """Let no further file be opened."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
