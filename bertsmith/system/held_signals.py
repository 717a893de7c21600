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
    # The resource tracker is a helper process. Python starts it when a process first needs it, and
    # unblocks the signals after that. So it is started here, before the signals are blocked.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
