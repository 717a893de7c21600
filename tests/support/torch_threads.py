"""Change torch's number of threads for a block."""

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
    """Use one thread more, as another machine may."""
    return threads(torch.get_num_threads() + 1)
