"""Read the rows of csv, tsv and jsonl files as texts by role.

A role (the prompt, its choices, a score) is read from the column that was asked for, by name or by
number, else from the first usual name that is there. A role of many texts is read from several
columns; a jsonl file may also keep them as a list under one key.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bertsmith.data.tables import (
    ASK_FORMAT,
    STANDARD_INPUT,
    FoundFormat,
    TableFormat,
    json_type,
    place_name,
    read_jsonl,
    read_rows,
    table_format,
    whole_number,
)
from bertsmith.errors import InputError

Record = dict[str, tuple[str, ...]]
"""The texts of each role in one row; a role of one text has one, or none if it is optional."""

RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class Role:
    """Role of a column, such as the prompt or a score, and its usual names.

    Attributes:
        name: what it is called in messages.
        flag: how the user chooses its column.
        asked: the column asked for; of a role of many, several with commas or a range (`3-6`).
        usual: names that are looked for where none is asked for, first match wins. One of a role
            of many stands for the columns that begin with it and end in a number.
        is_many: whether it has several texts.
        is_optional: whether a table may lack it.
        may_be_empty: whether a row may.
        may_be_number: whether a JSON number is taken for text.
        is_read: whether it is wanted; if not, its column is kept from the other roles.
        sought: what a message says is missing; the name where not given.
    """

    name: str
    flag: str
    asked: str | None
    usual: tuple[str, ...]
    is_many: bool = False
    is_optional: bool = False
    may_be_empty: bool = False
    may_be_number: bool = False
    is_read: bool = True
    sought: str = ""

    def columns(
        self, found: Sequence[str], *, numbers_only: bool, taken: Collection[int] = ()
    ) -> list[int] | None:
        """Find its places among the columns `found`; None if there are none.

        Those `taken` hold something else, unless they are asked for.
        """
        if self.asked is not None:
            return asked_columns(self.asked, found, self.is_many, numbers_only=numbers_only)
        if numbers_only:
            return None
        places = (self._usual_columns(usual, found) for usual in self.usual)
        free = ([place for place in columns if place not in taken] for columns in places)
        return next(filter(None, free), None)

    def _usual_columns(self, usual: str, found: Sequence[str]) -> list[int]:
        """Find the column of this name; for many texts, numbered ones too."""
        if not self.is_many:
            place = find_column(usual, found, len(found))
            return [] if place is None else [place]
        lowered = [name.strip().lower() for name in found]
        called = re.compile(rf"{re.escape(usual)}([ _-]?\d+)?")
        places = [i for i, name in enumerate(lowered) if called.fullmatch(name)]
        return sorted(places, key=lambda i: natural_key(lowered[i]))


class RecordReader:
    """Lazy reader of one file's rows, as texts by role.

    Args:
        path: `.csv`, `.tsv` or `.jsonl`, plain or `.gz/.xz/.zst`.
        roles: what to read, those first that choose their columns first.
        header: whether the first row of a csv or tsv file names the columns; auto: yes, unless
            all columns asked for are numbers.
        skip_incomplete: leave out rows that lack something, and count them.
        can_skip: whether the user can ask for that, so that messages name the flag.
        asked_format: what the file is; by its name where auto.

    Attributes:
        names: the columns of each role; known once reading has begun.
        num_skipped: rows left out so far.
    """

    def __init__(
        self,
        path: Path,
        roles: Sequence[Role],
        *,
        header: Literal["auto", "yes", "no"] = "auto",
        skip_incomplete: bool = False,
        can_skip: bool = True,
        asked_format: TableFormat = "auto",
    ) -> None:
        self.path = Path(path)
        self.place = place_name(self.path)
        self.roles = roles
        self.header = header
        self.asked_format = asked_format
        self.skip_incomplete = skip_incomplete
        self._skipping = "pass --skip-incomplete (skipped rows are counted)." if can_skip else ""
        self.names: dict[str, tuple[str, ...]] = {}
        self.num_skipped = 0

    def iter_records(self) -> Iterator[tuple[int, Record]]:
        """Yield each row's line number and texts.

        Empty texts at the end of a role of many are left out, such a row has fewer; where a row
        may have none, empty texts are left out wherever they stand.

        Raises:
            InputError: the file cannot be read as a table with these roles, a row does not fit, or
                there is no complete row.
        """
        self.num_skipped = 0
        self.names = {}
        num_rows = 0
        for row, record in self._records():
            num_rows += 1
            if record is None:
                self.num_skipped += 1
                continue
            self._close_gaps(record)
            empty = next((role for role in self.roles if self._lacks(role, record)), None)
            if empty is None:
                yield row, record
            elif self.skip_incomplete:
                self.num_skipped += 1
            else:
                advice = f"Fix the row, or {self._skipping}" if self._skipping else "Fix the row."
                raise InputError(f"{self.place}:{row}: {self._called(empty)} is empty. {advice}")
        if num_rows == self.num_skipped:
            raise InputError(f"{self.place}: no complete rows. Give a file with at least one.")

    @property
    def found_format(self) -> FoundFormat:
        """Format of the file.

        Raises:
            InputError: as in `table_format`.
        """
        return table_format(self.path, self.asked_format)

    @property
    def has_header(self) -> bool:
        """Whether the first row of a csv or tsv file names the columns."""
        if self.header != "auto":
            return self.header == "yes"
        asked = [role.asked for role in self._read_roles if role.asked or not role.is_optional]
        return not all(text is not None and is_numbers(text) for text in asked)

    @property
    def _read_roles(self) -> list[Role]:
        return [role for role in self.roles if role.is_read]

    def has(self, name: str) -> bool:
        """Return whether the table has a column for the role of this name."""
        return name in self.names

    def _close_gaps(self, record: Record) -> None:
        """Drop empty texts where a row may have any number of them."""
        for role in self.roles:
            if role.is_many and role.may_be_empty:
                texts = record.get(role.name, ())
                record[role.name] = tuple(text for text in texts if text.strip())

    def _lacks(self, role: Role, record: Record) -> bool:
        """Return whether a role's text, or one of its texts, is missing."""
        texts = record.get(role.name, ())
        if not texts:
            return self.has(role.name) and not role.may_be_empty
        return not all(text.strip() for text in texts)

    def _records(self) -> Iterator[tuple[int, Record | None]]:
        """Yield each row's number and texts; None for a row to skip."""
        kind = self.found_format
        if kind == "jsonl":
            return self._read_objects()
        if kind == "txt" and self.path == STANDARD_INPUT:
            raise InputError(
                f"{self.place}: lines of text have no columns. Give a .csv, .tsv or .jsonl file. "
                f"{ASK_FORMAT}"
            )
        if kind == "txt":
            raise InputError(
                f"{self.place}: a .txt file has no columns. Use .csv, .tsv or .jsonl. {ASK_FORMAT}"
            )
        return self._read_table(read_rows(self.path, kind))

    def _read_table(
        self, rows: Iterator[tuple[int, list[str]]]
    ) -> Iterator[tuple[int, Record | None]]:
        first_row, first = next(rows, (0, []))
        if not first:
            raise InputError(f"{self.place}: no rows. Give a file with at least one.")
        places = self._resolve(first, numbers_only=not self.has_header)
        if not self.has_header:
            yield first_row, take(first, places)
        for row, cells in rows:
            if len(cells) != len(first):
                if self.skip_incomplete:
                    yield row, None
                    continue
                advice = RAGGED[self.found_format]
                advice += f" Or {self._skipping}" if self._skipping else ""
                raise InputError(
                    f"{self.place}:{row}: found {len(cells)} columns where row {first_row} has "
                    f"{len(first)}. {advice}"
                )
            yield row, take(cells, places)

    def _read_objects(self) -> Iterator[tuple[int, Record | None]]:
        known: dict[str, None] = {}  # every key met so far, in order
        lacking: InputError | None = None
        for row, value in read_jsonl(self.path):
            if not self.names:
                try:
                    self._resolve(list(value), numbers_only=False)
                except InputError as error:
                    if not self.skip_incomplete:
                        raise
                    self.names = {}
                    lacking = lacking or error
                    yield row, None
                    continue
            elif not value.keys() <= known.keys():
                self._extend(row, list(known | dict.fromkeys(value)))
            known |= dict.fromkeys(value)
            missing = self._missing_key(value)
            if missing is not None:
                if self.skip_incomplete:
                    yield row, None
                    continue
                advice = "Every line needs the keys of the first."
                advice += f" Or {self._skipping}" if self._skipping else ""
                raise InputError(
                    f"{self.place}:{row}: no key '{missing}'. Keys found: {listed(value)}. {advice}"
                )
            record: Record = {}
            for role in self._read_roles:
                texts = [
                    text
                    for name in self.names.get(role.name, ())
                    for text in self._texts(row, role, name, value)
                ]
                record[role.name] = without_empty_end(texts)
            yield row, record
        if lacking is not None and not self.names:
            raise lacking

    def _missing_key(self, value: dict[str, Any]) -> str | None:
        """Find a required key that an object lacks."""
        needed = [role for role in self.roles if not (role.may_be_empty or role.is_many)]
        names = (name for role in needed for name in self.names.get(role.name, ()))
        return next((name for name in names if name not in value), None)

    def _extend(self, row: int, found: list[str]) -> None:
        """Add the keys that the lines before this one lack.

        Raises:
            InputError: one of them is what each line must have, or none; or would have been taken
                instead of what was, had the first line had it.
        """
        self._check_choice(row, found)
        places = divide(self.roles, found, numbers_only=False)
        for role in self._read_roles:
            names = tuple(found[i] for i in places[role.name] or ())
            before = self.names.get(role.name, ())
            if names and not before and not role.may_be_empty:
                raise InputError(
                    f"{self.place}:{row}: has a {role.name} ('{names[0]}'), which the lines before "
                    "lack. Give every line one, or none."
                )
            if (role.is_many or not before) and set(before) < set(names):
                self.names[role.name] = names

    def _check_choice(self, row: int, found: list[str]) -> None:
        """Refuse a key that would have been chosen before the one in use."""
        places = divide(self.roles, found, numbers_only=False)
        for role in self._read_roles:
            names = [found[i] for i in places[role.name] or ()]
            before = self.names.get(role.name, ())
            if before and names and not role.is_many and names != list(before):
                raise InputError(
                    f"{self.place}:{row}: has '{names[0]}', which the lines before lack: there, "
                    f"'{before[0]}' was taken for the {role.name}. Name the right one with "
                    f"{role.flag}."
                )

    def _texts(self, row: int, role: Role, name: str, value: dict[str, Any]) -> list[str]:
        """Return the texts under one key of an object."""
        found = value.get(name)
        items = found if role.is_many and isinstance(found, list) else [found]
        return [self._as_text(row, role, name, item) for item in items]

    def _as_text(self, row: int, role: Role, name: str, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        if role.may_be_number and isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        expected = "a string" + (" or a number" if role.may_be_number else "")
        expected += " or a list of strings" if role.is_many else ""
        raise InputError(
            f"{self.place}:{row}: '{name}' is {json_type(value)}; {expected} is expected. Fix the "
            "row."
        )

    def _resolve(self, found: list[str], *, numbers_only: bool) -> dict[str, list[int]]:
        """Find each role's places among the columns `found`; fill `names`."""
        numbers = [f"column {place + 1}" for place in range(len(found))]
        places: dict[str, list[int]] = {}
        divided = divide(self.roles, found, numbers_only=numbers_only)
        for role in self._read_roles:
            columns = divided[role.name]
            if columns is None and (role.asked is not None or not role.is_optional):
                raise InputError(self._missing(role, found, numbers_only))
            if columns is not None:
                places[role.name] = columns
                called = numbers if numbers_only else found
                self.names[role.name] = tuple(called[i] for i in columns)
        return places

    def _missing(self, role: Role, found: list[str], numbers_only: bool) -> str:
        asked = f"no column looks like the {role.sought or role.name}"
        if role.asked:
            asked = f"no column '{role.asked}'"
        names = role.usual if role.asked is None else (role.asked, *role.asked.split(","))
        if not numbers_only and (name := next((n for n in names if stands_twice(n, found)), None)):
            return (
                f"{self.place}: several columns are called '{name.strip()}', and one is expected. "
                f"Columns found: {listed(found)}. Give the number of the right one, counted from "
                f"1, with {role.flag}, or rename the others."
            )
        if numbers_only:
            columns = f"The first row, read without a header, has {len(found)}: {listed(found)}"
            advice = f"Give {role.flag} a number from 1 to {len(found)}, or --header yes."
        else:
            columns = f"Columns found: {listed(found)}"
            advice = f"Name it with {role.flag} (or give its number, counted from 1)."
        return f"{self.place}: {asked}. {columns}. {advice}{self._other_borders(found)}"

    def _other_borders(self, found: list[str]) -> str:
        """Suggest another separator if a single column seems to be several."""
        kind = self.found_format
        rival = next((c for c in RIVALS.get(kind, ()) if len(found) == 1 and c in found[0]), None)
        if rival is None:
            return ""
        return (
            f" Or are the columns those between {RIVALS[kind][rival]}? In a .{kind} file they "
            f"stand between {BORDERS[kind]}."
        )

    def _called(self, role: Role) -> str:
        names = self.names.get(role.name, (role.name,))
        return " or ".join(f"'{name}'" for name in names)


BORDERS = {"csv": "commas", "tsv": "tabs"}
RIVALS = {
    "csv": {";": "semicolons", "\t": "tabs", "|": "bars"},
    "tsv": {",": "commas", ";": "semicolons", "|": "bars"},
}
"""Separators of columns, and those of files with the wrong ending."""

RAGGED = {
    "tsv": "In a .tsv file every tab starts a new column. Fix the row.",
    "csv": "Put a text that holds a comma, quote or line end in double quotes.",
}
"""Advice on a row that has not as many columns as the first."""


def divide(
    roles: Sequence[Role], found: Sequence[str], *, numbers_only: bool
) -> dict[str, list[int] | None]:
    """Assign columns to roles; None to a role without any.

    A column that was asked for serves that role alone, any other the first that looks for it; but
    a role that is not read leaves others what they cannot do without.
    """
    places = _first_come(roles, found, numbers_only=numbers_only)
    if all(places[role.name] or role.is_optional for role in roles):
        return places
    others = [role for role in roles if role.is_read or role.asked is not None]
    return {role.name: None for role in roles} | _first_come(
        others, found, numbers_only=numbers_only
    )


def _first_come(
    roles: Sequence[Role], found: Sequence[str], *, numbers_only: bool
) -> dict[str, list[int] | None]:
    of_role = partial(Role.columns, found=found, numbers_only=numbers_only)
    asked = {role.name: of_role(role) for role in roles if role.asked is not None}
    taken = {place for places in asked.values() for place in places or ()}
    places: dict[str, list[int] | None] = {}
    for role in roles:
        places[role.name] = asked[role.name] if role.name in asked else of_role(role, taken=taken)
        taken.update(places[role.name] or ())
    return places


def take(cells: Sequence[str], places: dict[str, list[int]]) -> Record:
    return {name: without_empty_end([cells[i] for i in where]) for name, where in places.items()}


def without_empty_end(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts up to the last one that is not empty."""
    last = max((i for i, text in enumerate(texts) if text.strip()), default=-1)
    return tuple(texts[: last + 1])


def asked_columns(
    asked: str, found: Sequence[str], is_many: bool, *, numbers_only: bool
) -> list[int] | None:
    """Find the columns asked for by name or number; None if one is missing."""
    names = [] if numbers_only else found
    place = find_column(asked, names, len(found))
    if place is not None or not is_many:
        return None if place is None else [place]
    if limits := RANGE.fullmatch(asked):
        first, last = whole_number(limits[1]), whole_number(limits[2])
        if first is None or last is None or last - first >= len(found):
            return None  # before so many are listed
        parts = [str(number) for number in range(first, last + 1)]
    else:
        parts = [part.strip() for part in asked.split(",")]
    places = [find_column(part, names, len(found)) for part in parts]
    known = [place for place in places if place is not None]
    return known if known and len(known) == len(parts) else None


def is_numbers(asked: str) -> bool:
    """Return whether columns were asked for by their numbers alone."""
    parts = asked.split(",")
    return bool(RANGE.fullmatch(asked)) or all(part.strip().isdecimal() for part in parts)


def find_column(name: str | None, found: Sequence[str], width: int) -> int | None:
    """Find the column with this name, else with this number (from 1)."""
    if name is None:
        return None
    for spelling in (str, str.strip, lambda value: value.strip().lower()):
        matches = [i for i, column in enumerate(found) if spelling(column) == spelling(name)]
        if len(matches) == 1:
            return matches[0]
    number = whole_number(name) or 0
    return number - 1 if 1 <= number <= width else None


def stands_twice(name: str, found: Sequence[str]) -> bool:
    """Return whether several columns have this name."""
    return sum(column.strip().lower() == name.strip().lower() for column in found) > 1


def natural_key(name: str) -> tuple[str, int, str]:
    """Return a sort key: `choice`, `choice9`, `choice10`, for numbers of any length."""
    stem = name.rstrip("0123456789")
    number = name[len(stem) :].lstrip("0")
    return stem, len(number) if name != stem else -1, number


def listed(names: Iterable[str]) -> str:
    """Format column names for a message; cut long names and long lists."""
    shown = [f"'{name}'" if len(name) <= 30 else f"'{name[:29]}…'" for name in names]
    return ", ".join(shown[:12]) + (f", … ({len(shown)} in all)" if len(shown) > 12 else "")
