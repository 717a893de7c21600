"""Output in a notebook: tables, and a text that is updated during work."""

import re
import sys
from collections.abc import Sequence
from html import escape
from typing import Any

NUMBER_CELL = re.compile(r"[-+]?[\d,.]+(e[-+]\d+)?( %)?|nan|")
"""A cell in a column of numbers; empty cells count as numbers."""


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    # A kernel has already imported IPython; other programs need not import it.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class LiveBlock:
    """One output of a notebook's cell, which shows only the latest text."""

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


def html_table(rows: Sequence[Sequence[str]], titles: Sequence[str] = ()) -> str:
    """Write a table as HTML, numbers to the right and texts to the left; cells are escaped.

    `titles` has a title for each column, or is empty.

    >>> html_table([("0.5000",)])
    '<table><tbody><tr><td>0.5000</td></tr></tbody></table>'
    """
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(titles)
    are_texts = [not all(NUMBER_CELL.fullmatch(cell) for cell in column) for column in columns]

    def row(cells: Sequence[str], tag: str) -> str:
        written = ""
        for cell, is_text in zip(cells, are_texts, strict=True):
            # Jupyter aligns cells to the right by default.
            style = ' style="text-align:left"' if is_text else ""
            written += f"<{tag}{style}>{escape(cell)}</{tag}>"
        return f"<tr>{written}</tr>"

    head = f"<thead>{row(titles, 'th')}</thead>" if titles else ""
    body = "".join(row(cells, "td") for cells in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def html_lines(lines: Sequence[str]) -> str:
    """Write lines of text as HTML."""
    return "".join(f"<div>{escape(line)}</div>" for line in lines)
