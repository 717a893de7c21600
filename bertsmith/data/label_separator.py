"""The separator between several labels of a text: its check, and what a message allows."""

from bertsmith.errors import SettingError

ALLOWED_SEPARATOR = "text, such as ','"
"""Allowed separators between the labels of a text, in words."""


def is_label_separator(value: object) -> bool:
    """Return whether a value may separate the labels of a text: it is text, and not empty."""
    return isinstance(value, str) and value != ""


def check_label_separator(separator: object) -> None:
    """Check the separator between the labels of a text.

    Raises:
        ConfigError: the separator is empty or no text.
    """
    if not is_label_separator(separator):
        raise SettingError("label_separator", separator, ALLOWED_SEPARATOR)
