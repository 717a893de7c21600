"""Output in a notebook: a block of text that is replaced while work goes on."""

import sys
from typing import Any


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    # A kernel has imported IPython, so nobody else pays for it.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class LiveBlock:
    """One output of a cell, which shows the text given last."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._text = ""

    def show(self, text: str) -> None:
        if text == self._text:
            return
        self._text = text
        data = {"text/plain": text}
        if self._handle is None:
            display = sys.modules["IPython"].display.display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
