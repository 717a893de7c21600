"""The separators between the columns of csv and tsv files."""

from pathlib import Path

from bertsmith.data.text_files import STANDARD_INPUT, iter_lines
from bertsmith.errors import SettingError, option

DEFAULT_DELIMITERS = {"csv": ",", "tsv": "\t"}
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Names of the characters that may separate columns, also in files with the wrong ending."""
_TAB_NAMES = ("tab", "\\t")
"""Spellings of a tab on a command line."""


def delimiter_of(file_format: str, chosen: str | None) -> str:
    """Return the separator of the columns of a file, whose format is csv or tsv.

    Raises:
        ConfigError: not one character, or a quote, a line end or a NUL.
    """
    if chosen is None:
        return DEFAULT_DELIMITERS[file_format]
    char = "\t" if chosen in _TAB_NAMES else chosen
    if len(char) != 1 or char in '"\r\n\0':
        raise SettingError(
            "delimiter", chosen, "one character that separates columns, such as ';', or tab"
        )
    return char


def delimiter_in(path: Path, file_format: str, expected: str | None) -> str | None:
    """Return an expected separator if the first line of a csv or tsv file holds it, else None.

    Expected is the separator of another file, such as that of the training file. The result is None
    for files of other formats, too.
    """
    if expected is None or file_format not in DEFAULT_DELIMITERS:
        return None
    if path == STANDARD_INPUT:  # which can be read only once
        return expected
    return expected if delimiter_of(file_format, expected) in next(iter_lines(path), "") else None


def separator_hint(file_format: str, row: str, before: str = "", *, can_ask: bool = True) -> str:
    """Return a hint that a first row seems to have another separator; empty if it does not.

    Args:
        before: characters that must stand before a separator in the row, such as the quote at the
            end of a cell.
        can_ask: whether the command has an option to name another separator.
    """
    default = DEFAULT_DELIMITERS.get(file_format)
    other = next((char for char in SEPARATORS if char != default and before + char in row), None)
    if default is None or other is None:
        return ""
    name = "tab" if other == "\t" else other
    if can_ask:
        return (
            f" If {SEPARATORS[other]} separate the columns, pass {option('delimiter', name)}; "
            f"otherwise a .{file_format} file is read as one with {SEPARATORS[default]} between "
            "columns."
        )
    return (
        f" Do {SEPARATORS[other]} separate the columns? In a .{file_format} file, "
        f"{SEPARATORS[default]} do."
    )
