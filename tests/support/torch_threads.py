"""Torch with another number of threads for a while."""

from contextlib import contextmanager

import torch


@contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def another_number():
    """As on another machine."""
    return threads(torch.get_num_threads() + 1)
