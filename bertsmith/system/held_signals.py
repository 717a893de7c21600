"""Stop signals held back while a process starts."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

from bertsmith.system.stop_signal import SIGNALS


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Hold back stop signals in the block, and in a process that starts in the block.

    That process lets them through once it can handle them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Python starts this helper process at need, and then unblocks the signals. So it starts now.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
