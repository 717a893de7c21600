"""Write rows of CSV, quoted where RFC 4180 asks for quotes, but with LF line ends."""

import csv
import io
from collections.abc import Iterable
from typing import Any

_END = "\r\n"


def csv_line(cells: Iterable[Any], delimiter: str = ",") -> str:
    r"""Format cells as one row, with its line end.

    >>> csv_line(["a,b", "c", "d\re"])
    '"a,b",c,"d\re"\n'
    """
    line = io.StringIO()
    # Before Python 3.13, csv quotes only those line ends that its own line end holds. A carriage
    # return without quotes would end the row for most readers.
    csv.writer(line, delimiter=delimiter, lineterminator=_END).writerow(cells)
    return f"{line.getvalue().removesuffix(_END)}\n"
