"""Labelled rows: a csv, tsv or jsonl file in, examples out, in the file's order.

A label is a name and stays the string it was, so `1`, `positive` and `not_entailment` are treated
alike. A row that lacks a text or a label is an error, or is skipped and counted; it never just
disappears.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from bertsmith.data.records import RAGGED, find_column, listed
from bertsmith.data.tables import (
    json_type,
    place_name,
    read_csv,
    read_jsonl,
    read_tsv,
    read_txt,
    table_format,
)
from bertsmith.errors import InputError

# The usual names, first match wins; a pair is only taken where both of its columns are there.
TEXT_COLUMNS: tuple[tuple[str, str | None], ...] = (
    ("sentence1", "sentence2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text1", "text2"),
    ("text", "text_pair"),
    ("#1 string", "#2 string"),
    ("text", None),
    ("sentence", None),
    ("text_a", None),
    ("review", None),
    ("content", None),
    ("comment", None),
    ("document", None),
    ("question", None),
)
LABEL_COLUMNS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
    "quality",
    "score",
    "rating",
)

LIST_SEPARATOR = "\x1f"
"""Ends each label of a JSON list of them: ASCII's unit separator, which no label holds."""

Item = TypeVar("Item")
Role = Literal["text", "pair", "label"]
Record = dict[Role, str]


@dataclass(frozen=True, slots=True)
class Example:
    """One text, or a pair of texts, and its label; `row` is its line in the file, from 1."""

    text: str
    pair: str | None = None
    label: str | None = None
    row: int = 0

    @property
    def content(self) -> tuple[str, str | None]:
        """What is read of it."""
        return self.text, self.pair

    @property
    def num_chars(self) -> int:
        """Characters of text."""
        return len(self.text) + len(self.pair or "")

    def one_line(self) -> list[str]:
        """The texts, with white space as single spaces."""
        return [" ".join(text.split()) for text in (self.text, self.pair) if text is not None]

    def to_json(self) -> dict[str, Any]:
        """Row and texts."""
        pair = {} if self.pair is None else {"pair": self.pair}
        return {"row": self.row, "text": self.text, **pair}


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold what, and how rows that lack something are treated."""

    text_column: str | None = None
    """Column with the text: its name, or its number counted from 1. Found by the usual names
    (text, sentence, sentence1, review, ...) if not given."""
    pair_column: str | None = None
    """Column with the second text, where each row is a pair of texts."""
    label_column: str | None = None
    """Column with the label. Found by the usual names (label, class, target, ...) if not given."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first row of a csv or tsv file names the columns. auto: yes, unless you give all
    columns by their numbers."""
    skip_incomplete: bool = False
    """Leave out rows whose text or label is empty or missing, or that have not as many columns as
    the first, and count them, instead of stopping."""


class ExampleReader:
    """The examples of one file, read as they are asked for.

    Args:
        path: `.csv`, `.tsv`, `.jsonl` or `.txt` (one text per line), plain or `.gz/.xz/.zst`;
            or `STANDARD_INPUT`.
        columns: which columns to read.
        labelled: whether a label is wanted; if not, no label column is looked for.
        empty_labels: whether a label may be empty, or in JSON a list, as where a text can have any
            number of them.
        pairs: whether each row must have a second text; if not, it is read where there is one.

    Attributes:
        names: the column that each role (text, pair, label) is read from; known once reading
            has begun.
        num_skipped: rows left out so far because something in them was empty.
        has_header: whether the first row was taken as column names.
    """

    def __init__(
        self,
        path: Path,
        columns: Columns | None = None,
        *,
        labelled: bool = True,
        empty_labels: bool = False,
        pairs: bool = False,
    ) -> None:
        self.path = Path(path)
        self.place = place_name(self.path)
        self.columns = columns or Columns()
        self.labelled = labelled
        self.empty_labels = empty_labels
        self.pairs = pairs
        self.names: dict[Role, str] = {}
        self.num_skipped = 0
        self.has_header = False

    def __iter__(self) -> Iterator[Example]:
        """Yield the examples.

        Raises:
            InputError: the file cannot be read as a table with these columns, a row does not
                fit, or there is no row at all.
        """
        self.num_skipped = 0
        num_rows = 0
        for row, record in self._records():
            num_rows += 1
            if record is None:
                self.num_skipped += 1
                continue
            empty = next((role for role, cell in record.items() if self._lacks(role, cell)), None)
            if empty is None:
                label = _trimmed(record["label"]) if self.labelled else None
                yield Example(record["text"], record.get("pair"), label, row)
            elif self.columns.skip_incomplete:
                self.num_skipped += 1
            else:
                raise InputError(
                    f"{self.place}:{row}: '{self.names[empty]}' is empty. Fix the row, or pass "
                    "--skip-incomplete (skipped rows are counted)."
                )
        if num_rows == self.num_skipped:
            raise InputError(f"{self.place}: no complete rows. Give a file with at least one.")

    def _lacks(self, role: Role, cell: str) -> bool:
        return not cell.strip() and not (role == "label" and self.empty_labels)

    def _records(self) -> Iterator[tuple[int, Record | None]]:
        """Each row's number and cells; None for one that is to be skipped."""
        kind = table_format(self.path)
        if kind == "jsonl":
            return self._read_objects(read_jsonl(self.path))
        if kind == "txt":
            if self.labelled or self.pairs:
                lacking = "labels" if self.labelled else "pairs, which the model was trained on"
                raise InputError(
                    f"{self.place}: lines of text have no {lacking}. Use .csv, .tsv or .jsonl."
                )
            self.names = {"text": "the line"}
            return ((row, {"text": line}) for row, line in read_txt(self.path))
        return self._read_table(read_csv(self.path) if kind == "csv" else read_tsv(self.path))

    def _read_table(
        self, rows: Iterator[tuple[int, list[str]]]
    ) -> Iterator[tuple[int, Record | None]]:
        first_row, first = next(rows, (0, []))
        if not first:
            raise InputError(f"{self.place}: no rows. Give a file with at least one.")
        self.has_header = self._is_header()
        places = self._resolve(first, numbers_only=not self.has_header)
        if not self.has_header:
            yield first_row, {role: first[place] for role, place in places.items()}
        guessed = self.columns.header == "auto" and self.columns.text_column is None
        for row, cells in rows:
            if len(cells) != len(first):
                if self.columns.skip_incomplete:
                    yield row, None
                    continue
                raise InputError(
                    f"{self.place}:{row}: found {len(cells)} columns where row {first_row} has "
                    f"{len(first)}. {RAGGED[table_format(self.path)]} Or pass --skip-incomplete "
                    "(skipped rows are counted)."
                )
            if guessed and cells[places["text"]] == self.names["text"]:
                raise InputError(
                    f"{self.place}:{row}: the text '{self.names['text']}' stands in the first row "
                    "too, which was taken for the names of the columns. If it is that, pass "
                    "--header yes; if it is a row like others, --header no --text-column N."
                )
            yield row, {role: cells[place] for role, place in places.items()}

    def _read_objects(
        self, rows: Iterator[tuple[int, dict[str, Any]]]
    ) -> Iterator[tuple[int, Record | None]]:
        known: dict[str, None] = {}  # every key met so far, in order
        for row, value in rows:
            if not self.names:
                self._resolve(list(value), numbers_only=False)
            elif "pair" not in self.names and not value.keys() <= known.keys():
                self._check_no_pair(row, list(known | dict.fromkeys(value)))
            known |= dict.fromkeys(value)
            names = self.names.items()
            missing = next((name for _, name in names if name not in value), None)
            if missing is None:
                yield row, {role: self._as_text(row, role, value[name]) for role, name in names}
            elif self.columns.skip_incomplete:
                yield row, None
            else:
                raise InputError(
                    f"{self.place}:{row}: no key '{missing}'. Keys found: {listed(value)}. Every "
                    "line needs the keys of the first. Or pass --skip-incomplete (skipped rows "
                    "are counted)."
                )

    def _check_no_pair(self, row: int, found: list[str]) -> None:
        """Refuse a second text that the lines before this one lack."""
        wanted = self._wanted([name.strip().lower() for name in found])
        if wanted.get("pair") is not None:
            raise InputError(
                f"{self.place}:{row}: has a second text ('{wanted['pair']}'), which the lines "
                "before lack. Give every line one, or name the only text with --text-column."
            )

    def _as_text(self, row: int, role: Role, value: Any) -> str:
        """A JSON value as a cell: null is empty, and only a label may be a number."""
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        if role == "label" and isinstance(value, bool | int | float):
            return json.dumps(value)
        if role == "label" and self.empty_labels and isinstance(value, list):
            return "".join(self._as_text(row, role, part) + LIST_SEPARATOR for part in value)
        raise InputError(
            f"{self.place}:{row}: '{self.names[role]}' is {json_type(value)}; "
            f"a string{' or a number' if role == 'label' else ''} is expected. Fix the row."
        )

    def _is_header(self) -> bool:
        if self.columns.header != "auto":
            return self.columns.header == "yes"
        return any(name is None or not name.isdecimal() for name in self._given().values())

    def _given(self) -> dict[Role, str | None]:
        """What the columns were asked for as, of those that are needed."""
        given: dict[Role, str | None] = {"text": self.columns.text_column}
        if self.columns.pair_column is not None:
            given["pair"] = self.columns.pair_column
        if self.labelled:
            given["label"] = self.columns.label_column
        return given

    def _resolve(self, found: list[str], *, numbers_only: bool) -> dict[Role, int]:
        """Where each role stands among the columns `found`; fills `names`."""
        wanted = self._wanted([] if numbers_only else [name.strip().lower() for name in found])
        places: dict[Role, int] = {}
        for role, name in wanted.items():
            place = find_column(name, [] if numbers_only else found, len(found))
            if place is None:
                raise InputError(self._missing_column(role, name, found, numbers_only))
            places[role] = place
        numbers = [f"column {place + 1}" for place in range(len(found))]
        labels = numbers if numbers_only else found
        self.names = {role: labels[place] for role, place in places.items()}
        return places

    def _wanted(self, lowered: list[str]) -> dict[Role, str | None]:
        """The column asked for in each role, or the usual one that is there."""
        wanted = self._given()
        if wanted["text"] is None:
            usual = (
                candidate
                for candidate in TEXT_COLUMNS
                if all(name is None or name in lowered for name in candidate)
            )
            wanted["text"], usual_pair = next(usual, (None, None))
            if usual_pair is not None:
                wanted.setdefault("pair", usual_pair)
        if self.pairs:
            wanted.setdefault("pair", None)
        if self.labelled and wanted["label"] is None:
            wanted["label"] = next((name for name in LABEL_COLUMNS if name in lowered), None)
        return wanted

    def _missing_column(
        self, role: Role, name: str | None, found: list[str], numbers_only: bool
    ) -> str:
        sought = "second text, which each example of the model has" if role == "pair" else role
        asked = f"no column '{name}'" if name else f"no column looks like the {sought}"
        if numbers_only:
            columns = f"The first row, read without a header, has {len(found)}: {listed(found)}"
            advice = f"Give --{role}-column a number from 1 to {len(found)}, or --header yes."
        else:
            columns = f"Columns found: {listed(found)}"
            advice = f"Name it with --{role}-column (or give its number, counted from 1)."
        return f"{self.place}: {asked}. {columns}. {advice}"


def read_examples(
    path: Path,
    columns: Columns | None = None,
    *,
    limit: int | None = None,
    empty_labels: bool = False,
    pairs: bool = False,
) -> tuple[list[Example], int]:
    """Read labelled examples, at most the first `limit`, and how many rows were skipped.

    Raises:
        InputError: as in `ExampleReader`; also if a first row looks like an overlooked header.
    """
    reader = ExampleReader(path, columns, empty_labels=empty_labels, pairs=pairs)
    examples: list[Example] = []
    for example in reader:
        examples.append(example)
        if limit is not None and len(examples) == limit:
            break
    if not empty_labels:
        _check_header(reader, examples)
    return examples, reader.num_skipped


def typed_examples(texts: Sequence[str]) -> list[Example]:
    """Texts as they were typed, each alone; `row` counts them.

    Raises:
        InputError: one of them is empty.
    """
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"text {number} is empty. Give each text in quotes.")
    return [Example(text, row=number) for number, text in enumerate(texts, start=1)]


def typed_pairs(texts: Sequence[str]) -> list[Example]:
    """Texts as they were typed, two and two; `row` counts the pairs.

    Raises:
        InputError: one of them is empty, or the last has no partner.
    """
    alone = typed_examples(texts)
    if len(alone) % 2:
        raise InputError(
            f"found {len(alone)} texts, but the model reads pairs: it was trained on them. Give "
            "two texts for each pair, each in quotes."
        )
    pairs = zip(alone[::2], alone[1::2], strict=True)
    return [Example(a.text, b.text, row=number) for number, (a, b) in enumerate(pairs, start=1)]


def are_pairs(examples: Iterable[Example]) -> bool:
    """Whether examples are pairs of texts."""
    return any(example.pair is not None for example in examples)


def random_sample(examples: Sequence[Item], size: int | None, seed: int) -> list[Item]:
    """Draw `size` of the examples, in their given order; all of them where it is None."""
    places = np.random.default_rng(seed).permutation(len(examples))
    return [examples[place] for place in sorted(places[:size].tolist())]


def stratified_sample(examples: Sequence[Example], size: int, seed: int) -> list[Example]:
    """Draw `size` examples so that each label keeps its share, in their given order.

    Every label keeps at least one example as long as `size` allows (Adams' method of
    apportionment: the r-th of n examples of a label has rank r / n, the lowest ranks are taken).
    """
    sizes = Counter(example.label for example in examples)
    seen: Counter[str | None] = Counter()
    ranks: list[tuple[float, int]] = []
    for place in np.random.default_rng(seed).permutation(len(examples)).tolist():
        label = examples[place].label
        ranks.append((seen[label] / sizes[label], place))
        seen[label] += 1
    chosen = sorted(ranks, key=lambda rank: rank[0])[:size]
    return [examples[place] for place in sorted(place for _, place in chosen)]


def _trimmed(label: str) -> str:
    """A label without the white space around it; `LIST_SEPARATOR`, which counts as such, stays."""
    return label if label.endswith(LIST_SEPARATOR) else label.strip()


def _check_header(reader: ExampleReader, examples: Sequence[Example]) -> None:
    """Refuse a first row whose label never comes again: most likely it names the columns."""
    tabular = table_format(reader.path) in ("csv", "tsv")
    if not tabular or reader.has_header or reader.columns.header != "auto" or len(examples) < 10:
        return
    first = examples[0]
    if all(example.label != first.label for example in examples[1:]):
        raise InputError(
            f"{reader.place}:{first.row}: the label '{first.label}' occurs in this first row only. "
            "If the row names the columns, pass --header yes; if not, --header no."
        )
