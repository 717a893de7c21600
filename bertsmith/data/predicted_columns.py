"""Names of the columns in files of predictions."""

import re
from collections.abc import Iterable

PREDICTED_LABEL_COLUMNS = (
    "predicted_label", "predicted_labels", "predicted_value", "prediction", "predicted", "pred",
    "value", "label", "labels", "score",
)  # fmt: skip
"""Columns that may hold predicted labels; the first one that a file has is read. A label beside a
prediction is the gold label, and a score beside a label is its probability."""

LINE = "line"
"""Key of an example's line number (row number for files without lines) in JSON objects."""
OTHER_LINE = "file_line"
"""The key that is used instead if the user's table has a column `line`; if it has both, the key is
`file_line_2`, and so on."""


def find_line_key(keys: Iterable[str]) -> str | None:
    """Return the key of the line number among the keys of a JSON object; None if there is none.

    Predictions are written behind the user's columns, so it is the last of the possible keys.

    >>> find_line_key(["text", "line", "file_line", "file_line_2", "label"])
    'file_line_2'
    """
    pattern = re.compile(rf"{LINE}|{OTHER_LINE}(_\d+)?")
    line_keys = [key for key in keys if pattern.fullmatch(key)]
    return line_keys[-1] if line_keys else None
