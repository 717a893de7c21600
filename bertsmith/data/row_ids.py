"""Find the ids of a table's rows, by which predictions and right labels of two files are paired."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from bertsmith.data.excel_files import cell_text
from bertsmith.data.json_rows import plain_number

ID_COLUMNS = ("id", "guid", "idx", "index", "qid")
"""Columns that may hold the id of a row, in any case; earlier ones are preferred."""

_FLOAT = re.compile(r"(-?\d+)\.0+")
"""A whole number as pandas writes it in a column that has a missing value."""


def row_ids(columns: Sequence[str], values: Sequence[Any]) -> dict[str, str]:
    """Return the ids of a row by the lowered names of their columns, of which it may have several.

    An id is the same string in all formats, whether its cell is a number or a text.

    >>> row_ids(["Index", "text"], [7.0, "fine"])
    {'index': '7'}
    """
    return {name: _id_text(values[index]) for name, index in _id_columns(tuple(columns))}


@lru_cache(maxsize=16)
def _id_columns(columns: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return the lowered name and the index of each column of ids."""
    names = [name.strip().lower() for name in columns]
    return tuple((name, names.index(name)) for name in ID_COLUMNS if names.count(name) == 1)


def _id_text(value: Any) -> str:
    """Return an id as text; 7, 7.0 and "7" become the same text."""
    text = cell_text(plain_number(value)).strip()
    whole_number = _FLOAT.fullmatch(text)
    return whole_number[1] if whole_number else text
