"""A callback that stops a run at one of its steps."""

import os
import signal

from bertsmith.training.callback import Callback


class StopAt(Callback):
    """Stops the run as Ctrl-C does, when the entry of a step is written."""

    def __init__(self, step):
        self.step = step

    def write(self, entry, status):
        # A step with an evaluation has two entries; only one of them has a learning rate.
        if entry["step"] == self.step and "learning_rate" in entry:
            os.kill(os.getpid(), signal.SIGINT)
