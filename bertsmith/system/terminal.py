"""Text for the terminal: lines about work as it goes, and tables."""

from collections.abc import Callable, Sequence

Say = Callable[[str], object]
"""A function that receives lines about the progress of work."""


def align_columns(
    rows: Sequence[Sequence[str]], align: Callable[[str, int], str] = str.rjust
) -> list[str]:
    """Pad cells to columns of equal width: the first to the left, the others by `align`.

    >>> align_columns([("", "mean"), ("loss", "2")])
    ['      mean', 'loss     2']
    """
    first, *widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([name.ljust(first), *map(align, cells, widths)]).rstrip() for name, *cells in rows
    ]
