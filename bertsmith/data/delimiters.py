"""The separators between the columns of csv and tsv files."""

from pathlib import Path

from bertsmith.data.text_files import STANDARD_INPUT, iter_lines
from bertsmith.errors import SettingError, option

BORDERS = {"csv": ",", "tsv": "\t"}
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Names of the characters that may separate columns, also in files with the wrong ending."""
_TAB_NAMES = ("tab", "\\t")
"""Spellings of a tab on a command line."""


def delimiter_of(kind: str, asked: str | None) -> str:
    """Return the separator of a csv or tsv file's columns.

    Raises:
        ConfigError: not one character, or one that stands in every table.
    """
    if asked is None:
        return BORDERS[kind]
    char = "\t" if asked in _TAB_NAMES else asked
    if len(char) != 1 or char in '"\r\n\0':
        raise SettingError(
            "delimiter", asked, "one character that stands between columns, such as ';', or tab"
        )
    return char


def delimiter_in(path: Path, kind: str, expected: str | None) -> str | None:
    """Return an expected separator if the first line of a csv or tsv file holds it."""
    if expected is None or kind not in BORDERS:
        return None
    if path == STANDARD_INPUT:  # which can be read only once
        return expected
    return expected if delimiter_of(kind, expected) in next(iter_lines(path), "") else None


def rival_hint(kind: str, row: str, before: str = "", *, can_ask: bool = True) -> str:
    """Ask whether other separators, seen in a first row behind `before`, are meant.

    Args:
        can_ask: whether the user can name another separator.
    """
    border = BORDERS.get(kind)
    rival = next((char for char in SEPARATORS if char != border and before + char in row), None)
    if border is None or rival is None:
        return ""
    name = "tab" if rival == "\t" else rival
    if can_ask:
        return (
            f" If {SEPARATORS[rival]} separate the columns, pass {option('delimiter', name)}; "
            f"otherwise a .{kind} file is read as one with {SEPARATORS[border]} between columns."
        )
    return (
        f" Do {SEPARATORS[rival]} separate the columns? In a .{kind} file, {SEPARATORS[border]} do."
    )
