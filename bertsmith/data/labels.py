"""Convert labels to the class indices of a model, or to numbers.

The classes of a model are the labels of its training examples, sorted, so that examples in another
order give the same indices. Labels that cannot be classes are refused before training. The
argument `path` names the file of the examples in messages; for rows in memory it is `IN_MEMORY`.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.examples import LIST_SEPARATOR, Example
from bertsmith.data.json_rows import list_names
from bertsmith.data.text_files import IN_MEMORY, locate_row
from bertsmith.errors import ExamplesError, InputError, option

MAX_FRACTIONS = 20
"""Maximum number of different labels with a decimal point; more of them are scores, not classes. In
a file of more rows than this, the labels must not all be different, either."""
NUMBER_TEXT = re.compile(r"[+-]?\d+(\.\d+)?")
INTEGER = re.compile(r"[+-]?\d+")
TRUTH = {"true": Decimal(1), "false": Decimal(0)}
"""The numbers that truth values stand for, in upper or lower case."""
MAX_NUMBER = float(np.finfo(np.float32).max)
"""Largest number of fp32; a model reads larger ones as infinite."""


def label_array(labels: Sequence[Any]) -> NDArray[Any]:
    """Return labels as an array, `[labels]`, whose items equal the labels in value and type.

    It is an array of objects if numpy's own types would change a label: numpy makes floats of whole
    numbers beyond int64, and drops NUL at the end of a text.
    """
    array = np.array(labels)
    if [(type(label), label) for label in array.tolist()] != [(type(x), x) for x in labels]:
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
    return array


def check_classes(examples: Sequence[Example], path: Path) -> None:
    """Check that there are labels of two classes or more.

    Raises:
        ExamplesError: there are fewer than two.
    """
    names = dict.fromkeys(example.label for example in examples if example.label)
    if len(names) < 2:
        raise ExamplesError(
            f"{path}: the only label is {list_names(names)}. Give examples of two classes or more."
        )


def class_names(examples: Sequence[Example], path: Path) -> tuple[str, ...]:
    """Collect the labels, sorted by value if all are numbers, else by name.

    Whole numbers among names are allowed, as in `1, 2, spam`; `mixed_labels` warns of them.

    Raises:
        InputError: the labels cannot be classes, for one of three reasons.

            - Each row has a label of its own, in more than `MAX_FRACTIONS` rows.
            - More than `MAX_FRACTIONS` labels are fractional numbers, or some are, beside names.
            - One value has two spellings, such as `1` and `1.0`, `true` and `True`, or `1` and
              `true`. If some labels are names, this counts only if one is a truth value.
    """
    # From the last example to the first, so that each label keeps its first row.
    first_rows = {example.label: example.row for example in reversed(examples) if example.label}
    fractions = [
        name for name in first_rows if NUMBER_TEXT.fullmatch(name) and not INTEGER.fullmatch(name)
    ]
    words = [name for name in first_rows if not NUMBER_TEXT.fullmatch(name)]
    if fractions and words:
        location = locate_row(path, first_rows[fractions[0]])
        raise InputError(
            f"{location}: the label '{fractions[0]}' is a fractional number among names "
            f"({list_names(words)}). Fix the row, or choose the column with "
            f"{option('label_column')}."
        )
    if len(fractions) > MAX_FRACTIONS or len(first_rows) == len(examples) > MAX_FRACTIONS:
        raise InputError(
            f"{path}: {len(first_rows):,} different labels in {len(examples):,} rows, such as "
            f"{list_names(list(first_rows)[-3:])}. Choose a column of classes with "
            f"{option('label_column')}."
        )
    _check_spellings(first_rows, path)
    return sorted_names(first_rows)


def _check_spellings(first_rows: Mapping[str, int], path: Path) -> None:
    """Raise InputError if a value has two spellings; `first_rows` has the first row of each label.

    If some labels are names, numbers may be names, too, such as `1` and `1.0` beside `none`. Then
    spellings are checked only if a label is a truth value.
    """
    values = {name: value for name in first_rows if (value := _numeric_value(name)) is not None}
    if len(values) < len(first_rows) and not any(name.lower() in TRUTH for name in first_rows):
        return
    seen: dict[Decimal, str] = {}
    for name in sorted(values, key=lambda name: first_rows[name]):
        other = seen.setdefault(values[name], name)
        if other != name:
            raise InputError(
                f"{locate_row(path, first_rows[name])}: the label '{name}' is "
                f"{_describe_equality(name, other)} in row {first_rows[other]}. Write each class "
                "in one way."
            )


def _numeric_value(name: str) -> Decimal | None:
    """Convert a number or truth value to a Decimal; None for other names."""
    return Decimal(name) if NUMBER_TEXT.fullmatch(name) else TRUTH.get(name.lower())


def _describe_equality(name: str, other: str) -> str:
    """Describe a label that has the value of another label, for messages."""
    if NUMBER_TEXT.fullmatch(name) and NUMBER_TEXT.fullmatch(other):
        return f"the same number as '{other}'"
    return f"the same as '{other}'"


def check_predicted_names(
    rows: Mapping[str, int], gold: Path, first_predictions: Mapping[str, int], predictions: Path
) -> None:
    """Raise InputError if a value has two spellings, such as `1` in one file and `1.0` in another.

    Predictions may hold other names: a system may answer `none` beside `1` and `0`.

    Args:
        rows: for each gold label the number of the first row with it.
        gold: the file of gold labels.
        first_predictions: for each label the number of the first prediction with it, ascending.
        predictions: the file of predictions.

    Raises:
        InputError: one value has two spellings, among the gold labels or across both files.
    """
    _check_spellings(rows, gold)
    seen = {
        value: (name, f"row {row} of {gold}")
        for name, row in rows.items()
        if (value := _numeric_value(name)) is not None
    }
    for name, prediction in first_predictions.items():
        if name in rows or (value := _numeric_value(name)) is None:
            continue
        other, location = seen.setdefault(value, (name, f"prediction {prediction:,}"))
        if other != name:
            raise InputError(
                f"{predictions}: prediction {prediction:,} is '{name}', "
                f"{_describe_equality(name, other)} in {location}. Write each class in one way."
            )


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct labels, sorted by value if all are numbers, else by name.

    >>> sorted_names(["10", "9", "9"]), sorted_names(["10", "9", "none"])
    (('9', '10'), ('10', '9', 'none'))
    """
    different = set(names)
    if all(map(NUMBER_TEXT.fullmatch, different)):
        return tuple(sorted(different, key=lambda name: (float(name), name)))
    return tuple(sorted(different))


def class_numbers(
    examples: Sequence[Example], names: Sequence[str], path: Path
) -> NDArray[np.int64]:
    """Return the index of each example's label in `names`, int64 `[examples]`.

    Raises:
        ExamplesError: a label is not in `names`; the message names its row and the known labels.
    """
    numbers = _numbers_of(names, path)
    for example in examples:
        if example.label not in numbers:
            raise _unknown_label(example.label, example, names, path)
    return np.array([numbers[example.label] for example in examples], dtype=np.int64)


def _numbers_of(names: Sequence[str], path: Path) -> dict[str | None, int]:
    """Return the index of each name.

    Labels that are read from a file have no blanks at their ends. So the index of a name can also
    be found by the name without such blanks, unless two names differ in these blanks alone.
    """
    num_names = Counter(name.strip() for name in names)  # by stripped form
    numbers: dict[str | None, int] = {}
    if path != IN_MEMORY:
        numbers = {name.strip(): i for i, name in enumerate(names) if num_names[name.strip()] == 1}
    return numbers | {name: i for i, name in enumerate(names)}


def label_set(example: Example, separator: str) -> tuple[str, ...]:
    """Split the label of a multi-label example into its labels, without duplicates."""
    return split_labels(example.label or "", separator)


def split_labels(label: str, separator: str) -> tuple[str, ...]:
    """Split several labels that are written as one text, without duplicates.

    A JSON list of labels was read as one text with `LIST_SEPARATOR` behind each label. In such a
    text `separator` is an ordinary character of a label.
    """
    if LIST_SEPARATOR in label:
        parts = [part for part in label.split(LIST_SEPARATOR) if part.strip()]
    else:
        parts = [part.strip() for part in label.split(separator) if part.strip()]
    return tuple(dict.fromkeys(parts))


def label_names(examples: Sequence[Example], separator: str, path: Path) -> tuple[str, ...]:
    """Collect the labels of multi-label examples, sorted by name.

    Raises:
        ExamplesError: no example has a label.
    """
    names = sorted({name for example in examples for name in label_set(example, separator)})
    if not names:
        raise ExamplesError(
            f"{path}: no row has a label. Choose the column with {option('label_column')}."
        )
    return tuple(names)


def label_flags(
    examples: Sequence[Example], names: Sequence[str], separator: str, path: Path
) -> NDArray[np.bool_]:
    """Encode the labels of multi-label examples as flags, bool `[examples, labels]`.

    Raises:
        ExamplesError: a label is not in `names`; the message names its row and the known labels.
    """
    numbers = _numbers_of(names, path)
    flags = np.zeros((len(examples), len(names)), dtype=np.bool_)
    for index, example in enumerate(examples):
        for label in label_set(example, separator):
            if label not in numbers:
                raise _unknown_label(label, example, names, path)
            flags[index, numbers[label]] = True
    return flags


def _unknown_label(
    label: str | None, example: Example, names: Sequence[str], path: Path
) -> ExamplesError:
    """Build the error for a label that is none of `names`, but may be another spelling of one."""
    value = _numeric_value(label or "")
    equal_names = (name for name in names if value is not None and _numeric_value(name) == value)
    equal_name = next(equal_names, None)
    hint = "" if equal_name is None else f" It is {_describe_equality(label or '', equal_name)}."
    # Row 1 is an example only where the table was read without a header.
    if example.row == 1 and {".csv", ".tsv", ".xlsx"} & set(path.suffixes):
        hint += f" If the row names the columns, pass {option('header', 'yes')}."
    return ExamplesError(
        f"{locate_row(path, example.row)}: the label '{label}' is none of those that the model "
        f"learns ({list_names(names)}).{hint} Fix the row, or train with such examples."
    )


def numeric_labels(examples: Sequence[Example], path: Path) -> NDArray[np.float64]:
    """Convert the labels to numbers, float64 `[examples]`.

    Raises:
        InputError: a label is not a number, or is too large for fp32; the message names its row.
    """
    values = (
        parse_number(example.label, f"{locate_row(path, example.row)}: the label")
        for example in examples
    )
    return np.fromiter(values, dtype=np.float64, count=len(examples))


def parse_number(
    label: str | None,
    what: str,
    advice: str = f"Fix the row, or choose the column with {option('label_column')}.",
) -> float:
    """Convert a label to a number that fp32 can hold.

    Raises:
        InputError: the label is not a number, or is too large for fp32. The message begins with
            `what`; if the label is not a number, it ends with `advice`.
    """
    text = str(label)
    try:
        # 1_000 is a number to Python only; in a table it is a slip or a name.
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if abs(value) <= MAX_NUMBER:
        return value
    if math.isnan(value):
        raise InputError(f"{what} '{text}' is not a number, such as 3 or 2.75. {advice}")
    raise InputError(
        f"{what} '{text}' is too large for fp32; allowed are numbers from {-MAX_NUMBER:.1e} to "
        f"{MAX_NUMBER:.1e}. Fix the row, or give all numbers in a larger unit."
    )
