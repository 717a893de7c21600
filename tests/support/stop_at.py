"""A wish to stop a run at one of its steps."""

import os
import signal

from bertsmith.training.recorder import Callback


class StopAt(Callback):
    """Asks the run to stop when a step is written, as Ctrl-C does."""

    def __init__(self, step):
        self.step = step

    def write(self, entry, status):
        # Once, though a step that is measured as well is written twice.
        if entry["step"] == self.step and "learning_rate" in entry:
            os.kill(os.getpid(), signal.SIGINT)
