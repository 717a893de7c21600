"""Describe the columns that a task looks for, and find them among the columns of a table.

A spec (`ColumnSpec`) describes one of them, such as the column of the text or of the label.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bertsmith.data.json_rows import CutText, describe_cut_label, json_type, plain_number
from bertsmith.data.tables import column_index, whole_number
from bertsmith.errors import InputError

_RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class ColumnSpec:
    """A column that a task reads, such as the prompt or a score.

    Attributes:
        name: its name in messages, and by which a reader finds its texts.
        option: name of the option that chooses it, such as `text_column`; empty if there is none.
        chosen: the column that the user chose; if `is_many`, several with commas or a range, `3-6`.
        trained_names: the columns that the model was trained on, which are preferred to those with
            usual names; a table may lack them.
        usual_names: names to look for if the user chose none; the first match wins. If `is_many`, a
            name also matches columns that begin with it and end in a number.
        is_many: whether its texts may be in several columns.
        is_optional: whether a table may lack it.
        may_be_empty: whether it may be empty in a row.
        may_lack_key: whether a JSON row may lack its key, though other rows have it.
        scalars: JSON types besides strings that are read as text.
        read_list: converts a JSON list of strings under its key to texts; None: lists are refused.
        is_label: whether its texts are classes; then a text with half of a surrogate pair is
            refused (`CutText`).
        is_read: if false, the column is not read, such as that of the labels when a model only
            predicts. The spec keeps it from being taken for a text; other specs take it only if
            they lack a column otherwise (`assign_columns`).
        instead: end of the advice "Give every row one, or ...", for rows of which some lack it.
    """

    name: str
    option: str
    chosen: str | None
    usual_names: tuple[str, ...]
    is_many: bool = False
    is_optional: bool = False
    may_be_empty: bool = False
    may_lack_key: bool = False
    scalars: tuple[type, ...] = ()
    is_label: bool = False
    read_list: Callable[[list[str]], list[str]] | None = None
    is_read: bool = True
    instead: str = "none"
    trained_names: tuple[str, ...] = ()

    def find_trained(self, column_names: Sequence[str]) -> list[int] | None:
        """Return the indices of the training columns in `column_names`; None if one is missing."""
        # Width 0: these are names, so they are never taken for numbers of columns.
        indices = [find_column(name, column_names, width=0) for name in self.trained_names]
        present = [index for index in indices if index is not None]
        return present if present and len(present) == len(indices) else None

    def find(
        self, column_names: Sequence[str], *, by_number: bool, used: Collection[int] = ()
    ) -> list[int] | None:
        """Return the indices of the spec's columns in `column_names`; None if there are none.

        Columns in `used` belong to other specs; they are taken only if the user chose them. With
        `by_number` the table has no header: `column_names` are the cells of its first row, and
        columns are found by number.
        """
        if self.chosen is not None:
            return find_chosen_columns(self.chosen, column_names, self.is_many, by_number=by_number)
        if by_number:
            return None
        for usual in self.usual_names:
            indices = self._usual_columns(usual, column_names)
            unused = [index for index in indices if index not in used]
            if unused:
                return unused
        return None

    def _usual_columns(self, usual: str, column_names: Sequence[str]) -> list[int]:
        """Return the indices of the column of this name and, if `is_many`, of numbered columns."""
        if not self.is_many:
            index = find_column(usual, column_names, len(column_names))
            return [] if index is None else [index]
        names = lowered(column_names)
        pattern = re.compile(rf"{re.escape(usual)}([ _-]?\d+)?")
        indices = [i for i, name in enumerate(names) if pattern.fullmatch(name)]
        return sorted(indices, key=lambda i: natural_key(names[i]))

    def texts(self, location: str, key: str, value: Any) -> list[str]:
        """Convert a JSON value under `key` to texts.

        Raises:
            InputError: the value in the row at `location` has another type, or is a label that lost
                half a character.
        """
        if self.read_list is not None and isinstance(value, list):
            item_name = f"an item of '{key}'"
            return self.read_list([self._text(location, item_name, item) for item in value])
        return [self._text(location, f"'{key}'", value)]

    def _text(self, location: str, value_name: str, value: Any) -> str:
        """Convert a JSON value that is no list to a text; null becomes an empty one."""
        if float in self.scalars:
            value = plain_number(value)  # a Decimal, as databases give, becomes an int or float
        if self.is_label and isinstance(value, CutText):
            raise InputError(f"{location}: {describe_cut_label(value.original)}")
        if value is None or isinstance(value, str):
            return value or ""
        if type(value) in self.scalars:
            return json.dumps(value)
        allowed = ["a string"]
        if self.scalars:
            allowed.append("a number" if float in self.scalars else "a whole number")
        if self.read_list:
            allowed.append("a list of strings")
        raise InputError(
            f"{location}: {value_name} is {json_type(value)}; {' or '.join(allowed)} is expected. "
            "Fix the row."
        )


def assign_columns(
    specs: Sequence[ColumnSpec], column_names: Sequence[str], *, by_number: bool
) -> dict[str, list[int] | None]:
    """Return the indices of each spec's columns, by the spec's name; None if it gets no column.

    A column that the user chose belongs to the spec for which it was chosen. Any other column
    belongs to the first spec that looks for it. But if a spec that must have a column gets none,
    specs that are not read give up their columns. With `by_number` the table has no header:
    `column_names` are the cells of its first row, and columns are found by number.
    """
    indices = _assign_in_order(specs, column_names, by_number=by_number)
    if all(indices[spec.name] or spec.is_optional for spec in specs):
        return indices
    others = [spec for spec in specs if spec.is_read or spec.chosen is not None]
    return {spec.name: None for spec in specs} | _assign_in_order(
        others, column_names, by_number=by_number
    )


def _assign_in_order(
    specs: Sequence[ColumnSpec], column_names: Sequence[str], *, by_number: bool
) -> dict[str, list[int] | None]:
    """Assign each column to the first spec that takes it.

    Specs whose columns the user chose come first, then those that take the columns of training, and
    then those that look for usual names.
    """
    find = partial(ColumnSpec.find, column_names=column_names, by_number=by_number)
    indices = {spec.name: find(spec) for spec in specs if spec.chosen is not None}
    used = {index for columns in indices.values() for index in columns or ()}
    for spec in specs:
        if by_number or spec.chosen is not None:
            continue
        trained = spec.find_trained(column_names)
        if trained and not used.intersection(trained):
            indices[spec.name] = trained
            used.update(trained)
    for spec in specs:
        if spec.name not in indices:
            indices[spec.name] = find(spec, used=used)
            used.update(indices[spec.name] or ())
    return indices


def lowered(names: Iterable[str]) -> list[str]:
    """Return names in lower case, without blanks at their ends."""
    return [name.strip().lower() for name in names]


def find_chosen_columns(
    chosen: str, column_names: Sequence[str], is_many: bool, *, by_number: bool
) -> list[int] | None:
    """Find the columns that the user chose by name or number; None if one is missing.

    If `is_many`, `chosen` may list several, separated by commas, or be a range such as `3-6`. With
    `by_number` the table has no header, and `column_names` are the cells of its first row.
    """
    names = [] if by_number else column_names
    index = find_column(chosen, names, len(column_names))
    if index is not None or not is_many:
        return None if index is None else [index]
    if limits := _RANGE.fullmatch(chosen):
        first, last = whole_number(limits[1]), whole_number(limits[2])
        if first is None or last is None or last - first >= len(column_names):
            return None  # before a list of up to a billion numbers is made
        choices = [str(number) for number in range(first, last + 1)]
    else:
        choices = [choice.strip() for choice in chosen.split(",")]
    indices = [find_column(choice, names, len(column_names)) for choice in choices]
    present = [index for index in indices if index is not None]
    return present if present and len(present) == len(choices) else None


def find_column(name: str, column_names: Sequence[str], width: int) -> int | None:
    """Find the index of the column with this name, or else with this number, from 1 to `width`.

    Blanks at the ends of a name, and then its case, are ignored only if no name is equal to the
    letter. A name that several columns have is not found. With `width` 0, numbers are not found.
    """
    for simplify in (str, str.strip, lambda value: value.strip().lower()):
        simple_name = simplify(name)
        matches = [i for i, column in enumerate(column_names) if simplify(column) == simple_name]
        if len(matches) == 1:
            return matches[0]
    return column_index(name, width)


def is_repeated(name: str, column_names: Sequence[str]) -> bool:
    return lowered(column_names).count(name.strip().lower()) > 1


def natural_key(name: str) -> tuple[str, int, str]:
    """Return a key that sorts names by the number at their end: `choice`, `choice9`, `choice10`."""
    stem = name.rstrip("0123456789")
    number = name[len(stem) :].lstrip("0")
    # The length comes first, so numbers are compared by value, though they stay texts.
    return stem, len(number) if name != stem else -1, number


def are_numbers(chosen: str) -> bool:
    """Return whether the user chose columns by number."""
    parts = chosen.split(",")
    return bool(_RANGE.fullmatch(chosen)) or all(part.strip().isdecimal() for part in parts)
