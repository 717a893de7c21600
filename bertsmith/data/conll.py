"""Parse CoNLL files: a word per line, sentences as blocks of lines.

Plain columns, as in CoNLL's shared tasks, stand between tabs or between spaces. CoNLL-U has the ten
columns of Universal Dependencies. There the parts of a multi-word token (`8 do`, `9 n't` of `8-9
don't`) are the words, as they have the labels; an empty node (`8.1`) stands nowhere in the text and
is left out. Both are counted.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bertsmith.data.label_schemes import OUTSIDE, PREFIXED
from bertsmith.data.lines import MAX_ROW_BYTES
from bertsmith.data.tables import whole_number
from bertsmith.data.tagged import Remark, TagColumns, TaggedSentence
from bertsmith.data.text_files import check_line_ends
from bertsmith.errors import InputError
from bertsmith.tokenization.words import Place

Row = tuple[int, str]
"""A line's number in its file, and the line without its end."""

DOCUMENT_START = "-DOCSTART-"
CONLLU_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
CONLLU_ID = re.compile(r"(\d{1,9})(?:([-.])(\d{1,9}))?")
LOOKED_AT = 200
"""Rows that are read to find the number of columns."""
MAX_ROWS = 1_000_000
"""Maximum rows of a sentence: a file that has lost its empty lines would be a single one. Its
characters are at most `MAX_ROW_BYTES`."""
MAX_KNOWN = 10_000
"""Maximum labels remembered to tell comments from words; more are ids or words."""
MAY_BE_EMPTY = {"feats", "deps", "misc"}
"""Columns where `_` means that there is nothing to say; elsewhere it is a missing label."""


def iter_blocks(
    place: str,
    lines: Iterable[str],
    counts: Counter[str],
    gaps: dict[int, list[str]] | None = None,
) -> Iterator[list[Row]]:
    """Yield the blocks between empty lines; count `-DOCSTART-` lines as `documents`.

    After a row that is not a comment, and with the label of an entity, `-DOCSTART-` is an ordinary
    word.

    Args:
        gaps: filled with the lines before each block, by the number of its first row; empty lines
            are "".

    Raises:
        InputError: a carriage return within a line of the file that messages call `place`, or more
            than `MAX_ROWS` lines or `MAX_ROW_BYTES` characters of one block.
    """
    block: list[Row] = []
    gap: list[str] = []
    size = 0
    for row, line in enumerate(lines, start=1):
        content = line.rstrip("\r\n")
        check_line_ends(f"{place}:{row}", content)
        size += len(line)
        if len(block) == MAX_ROWS or size > MAX_ROW_BYTES:
            most = (
                f"{MAX_ROWS:,} rows" if len(block) == MAX_ROWS else f"{MAX_ROW_BYTES:,} characters"
            )
            raise InputError(
                f"{place}:{row}: found more than {most} without an empty line. An empty line "
                "stands after each sentence: put one there."
            )
        starts_document = is_document_start(content) and all(
            earlier.startswith("# ") for _, earlier in block
        )
        counts["documents"] += starts_document
        if content.strip(" \t") and not starts_document:
            if not block and gaps is not None:
                gaps[row] = gap
            block.append((row, content))
            gap = []
        else:
            if block:
                yield block
            block, size = [], 0
            gap.append(content if starts_document else "")
    if block:
        yield block


def is_document_start(line: str) -> bool:
    """Return whether a line is `-DOCSTART-` without the label of an entity."""
    cells = line.split()
    return cells[:1] == [DOCUMENT_START] and not PREFIXED.fullmatch(cells[-1])


@dataclass(frozen=True)
class Shape:
    """Column layout of a file.

    `row` is the first row that has it. `ends_in_tab`: a tab stands behind the last column.
    """

    row: int
    tabs: bool
    width: int
    ends_in_tab: bool = False

    def cut(self, line: str) -> list[str]:
        """Split a row into cells, as many as it has."""
        return split_columns(line.removesuffix("\t") if self.ends_in_tab else line, self.tabs)

    def cells(self, line: str) -> list[str] | None:
        """Split a row into cells; None if their number or separators differ."""
        cells = self.cut(line)
        return cells if len(cells) == self.width and (self.tabs or "\t" not in line) else None


def find_shape(rows: Sequence[Row], labelled: bool) -> Shape | None:
    """Find the layout that most rows have; None if all look like comments.

    Rows that begin with # count only where there are no others. A last column that is empty
    everywhere is dropped, unless it would hold the labels.
    """
    telling = [row for row in rows if not row[1].startswith("#")]
    telling = telling or [row for row in rows if not row[1].startswith("# ") and row[1] != "#"]
    if not telling:
        return None
    found = [("\t" in line, len(split_columns(line, "\t" in line))) for _, line in telling]
    (tabs, width), _ = Counter(found).most_common(1)[0]
    alike = [row for row, shape in zip(telling, found, strict=True) if shape == (tabs, width)]
    first_row = alike[0][0]
    ends_in_tab = width > 1 + labelled and all(line.endswith("\t") for _, line in alike)
    return Shape(first_row, tabs, width - ends_in_tab, ends_in_tab)


class ColumnParser:
    """Parser of sentences in plain columns, whose layout the first rows decide.

    Args:
        place: how messages call the file.
        columns: numbers of word and label, counted from 1; the first and the last if None.
        labelled: whether a label is wanted.
        counts: gets the number of `comments`.

    Attributes:
        gaps: the lines before each block, from `iter_blocks`.
    """

    def __init__(
        self, place: str, columns: TagColumns, labelled: bool, counts: Counter[str]
    ) -> None:
        self.place = place
        self.gaps: dict[int, list[str]] = {}
        self._before: list[str] = []  # lines that no sentence has been found to yet
        self._is_first = True
        self.columns = columns
        self.labelled = labelled
        self._counts = counts
        self._shape = Shape(0, tabs=False, width=0)
        self._known: set[str] = set()
        self._num_comments = 0  # that no sentence has been found to yet

    def look(self, blocks: Iterator[list[Row]]) -> Iterator[list[Row]]:
        """Find the file's layout in its first blocks, then return all blocks.

        Comments after the last sentence are left out and counted.
        """
        head: list[list[Row]] = []
        num_rows = 0
        for block in blocks:
            head.append(block)
            num_rows += sum(not line.startswith("#") for _, line in block)
            if num_rows >= LOOKED_AT:
                break
        rows = list(itertools.chain.from_iterable(head))
        self._shape = find_shape(rows, self.labelled) or self._shape
        self._learn_labels(rows)
        return self._without_end(itertools.chain(head, blocks))

    def _learn_labels(self, rows: Iterable[Row]) -> None:
        if len(self._known) < MAX_KNOWN:
            cells = (self._shape.cells(line) for _, line in rows if not line.startswith("#"))
            self._known.update(found[self._usual_label_place] for found in cells if found)

    def _without_end(self, blocks: Iterator[list[Row]]) -> Iterator[list[Row]]:
        """Drop comment blocks after the last sentence; count them with it."""
        held: list[list[Row]] = []
        for block in blocks:
            if held and not all(self._is_comment(line) for _, line in block):
                yield from held
                held = []
            held.append(block)
            self._learn_labels(block)
        if held:
            num_behind = sum(map(len, held[1:]))
            self._counts["comments"] += num_behind
            self._num_comments += num_behind
            yield held[0]

    def parse(self, block: list[Row]) -> TaggedSentence | None:
        """Parse a block from `look`; None if it has only comments.

        Raises:
            InputError: a row that does not have the columns of the others, or an empty cell.
        """
        rows = self._without_comments(block)
        gap = self.gaps.pop(block[0][0], [])
        if not self.labelled:  # what is learnt is written nowhere
            self._before += [*gap, *(line for _, line in block[: len(block) - len(rows)])]
        if not rows:
            return None
        cells = [(row, self._cells(row, line)) for row, line in rows]
        word_place = self._find("word", self.columns.word_column, 0)
        words = [self._cell(row, "word", found[word_place]) for row, found in cells]
        labels: list[str] = []
        if self.labelled:
            label_place = self._find("label", self.columns.label_column, self._shape.width - 1)
            if label_place == word_place:
                raise InputError(
                    f"{self.place}:{self._shape.row}: column {word_place + 1} of "
                    f"{self._shape.width} is taken for both word and label. Columns stand between "
                    "tabs or spaces; choose them with --word-column and --label-column."
                )
            labels = [self._label(row, found[label_place]) for row, found in cells]
        if len(self._known) < MAX_KNOWN:
            self._known.update(found[self._usual_label_place] for _, found in cells)
        remarks: list[Remark] = ["comments"] * self._num_comments
        self._num_comments = 0
        if gap and gap[-1]:
            remarks.append("joined_documents")
        before = tuple(self._before if self._is_first else self._before[1:])
        self._before, self._is_first = [], False
        return TaggedSentence(
            tuple(words), tuple(labels), rows[0][0], remarks=tuple(remarks), before=before
        )

    def _without_comments(self, block: list[Row]) -> list[Row]:
        """Remove the comments at the head of a block, and count them."""
        first = 0
        while first < len(block) and self._is_comment(block[first][1]):
            first += 1
        self._counts["comments"] += first
        self._num_comments += first
        return block[first:]

    def _is_comment(self, line: str) -> bool:
        """Return whether a line is a comment, not a word such as #Paris.

        A line with as many columns as the others is a row. `# id = 7` may have as many by chance:
        between spaces, the last column must also be a possible label.
        """
        if not line.startswith("#"):
            return False
        if (cells := self._shape.cells(line)) is None:
            return True
        label = cells[self._usual_label_place]
        may_be_label = label in self._known or is_label(label)
        return line.startswith("# ") and not self._shape.tabs and not may_be_label

    @property
    def _usual_label_place(self) -> int:
        """Index of the label column. A wrong number is refused only where labels are wanted."""
        number = whole_number(self.columns.label_column or "") or 0
        return number - 1 if 1 <= number <= self._shape.width else self._shape.width - 1

    def _cells(self, row: int, line: str) -> list[str]:
        shape = self._shape
        if (cells := shape.cells(line)) is not None:
            return cells
        if shape.tabs != ("\t" in line) and len(line.split()) > 1:
            found, wanted = ("spaces", "tabs") if shape.tabs else ("tabs", "spaces")
            raise InputError(
                f"{self.place}:{row}: columns between {found}, where row {shape.row} has "
                f"them between {wanted}. Use one of the two in the whole file."
            )
        raise InputError(
            f"{self.place}:{row}: found {len(shape.cut(line))} columns where row {shape.row} has "
            f"{shape.width}. Each word has a line with all columns, and an empty line stands after "
            "a sentence. Fix the row, or pass --skip-incomplete (skipped sentences are counted)."
        )

    def _find(self, role: str, asked: str | None, usual: int) -> int:
        if asked is None:
            return usual
        number = whole_number(asked) or 0
        if not 1 <= number <= self._shape.width:
            raise InputError(
                f"{self.place}:{self._shape.row}: no column '{asked}' for the {role}. The row has "
                f"{self._shape.width}; give --{role}-column a number from 1 to {self._shape.width}."
            )
        return number - 1

    def _label(self, row: int, cell: str) -> str:
        label = self._cell(row, "label", cell)
        first, *others = label.split(" ")
        is_type = PREFIXED.fullmatch(first) and not any(map(is_label, others))  # B-Job Title
        if others and not is_type:
            raise InputError(
                f"{self.place}:{row}: the label '{label}' holds a space: tabs and spaces seem to "
                "be mixed. Use one of the two between columns."
            )
        return label

    def _cell(self, row: int, role: str, cell: str) -> str:
        if not cell.strip(" "):
            raise InputError(
                f"{self.place}:{row}: the {role} is empty. Fix the row, or pass --skip-incomplete "
                "(skipped sentences are counted)."
            )
        return cell if role == "word" else cell.strip(" ")


def is_label(text: str) -> bool:
    """Return whether a text is a label of a scheme that marks spans."""
    return text == OUTSIDE or PREFIXED.fullmatch(text) is not None


def split_columns(line: str, tabs: bool) -> list[str]:
    """Split a row into cells, at tabs or at runs of spaces.

    Only the plain space (U+0020) separates, so that a word may be any other.
    """
    return line.split("\t") if tabs else [cell for cell in line.split(" ") if cell]


class ConlluParser:
    """Parser of CoNLL-U blocks that also restores the untokenized text.

    Args:
        place: how messages call the file.
        columns: names or numbers of CoNLL-U's columns for word and label; form and upos if None.
        labelled: whether a label is wanted.
        counts: gets the number of `comments`.
    """

    def __init__(
        self, place: str, columns: TagColumns, labelled: bool, counts: Counter[str]
    ) -> None:
        self.place = place
        self.labelled = labelled
        self._word_place = self._find("word", columns.word_column or "form")
        self._label_place = self._find("label", columns.label_column or "upos")
        self._counts = counts

    def parse(self, block: list[Row]) -> TaggedSentence | None:
        """Parse a block; None if it has no words.

        Raises:
            InputError: a row that is not CoNLL-U, or a word without a label.
        """
        rows = [(row, self._cells(row, line)) for row, line in block if not line.startswith("#")]
        self._counts["comments"] += len(block) - len(rows)
        words = [(row, cells) for row, cells in rows if cells[0].isdecimal()]
        if not words:
            return None
        labels = [self._label(row, cells) for row, cells in words] if self.labelled else []
        forms = tuple(cells[self._word_place] for _, cells in words)
        given: tuple[str, tuple[Place, ...]] | None = locate_forms([cells for _, cells in rows])
        if self._word_place != CONLLU_FIELDS.index("form"):
            given = None  # a lemma stands nowhere in the text
        marks: dict[str, Remark] = {"-": "multiword_tokens", ".": "empty_nodes"}
        numbers = (CONLLU_ID.fullmatch(cells[0]) for _, cells in rows)
        remarks = tuple(marks[n[2]] for n in numbers if n is not None and n[2])
        return TaggedSentence(forms, tuple(labels), words[0][0], given, remarks=remarks)

    def _cells(self, row: int, line: str) -> list[str]:
        cells = line.split("\t")
        if len(cells) != len(CONLLU_FIELDS):
            raise InputError(
                f"{self.place}:{row}: found {len(cells)} columns between tabs; CoNLL-U has "
                f"{len(CONLLU_FIELDS)}. Fix the row, or pass --format conll for other columns."
            )
        number = CONLLU_ID.fullmatch(cells[0])
        if number is None:
            raise InputError(
                f"{self.place}:{row}: the first column is '{cells[0]}'; CoNLL-U has the word's "
                "number there (8), a range (8-9) or an empty node (8.1). Fix the row."
            )
        if number[2] == "-" and int(number[3]) < int(number[1]):
            raise InputError(
                f"{self.place}:{row}: the range '{cells[0]}' ends before it begins; CoNLL-U has "
                f"the numbers of its first and last word there ({number[3]}-{number[1]}). Fix the "
                "row, or pass --skip-incomplete (skipped sentences are counted)."
            )
        if not cells[1]:
            raise InputError(f"{self.place}:{row}: the word is empty. Fix the row.")
        return cells

    def _label(self, row: int, cells: Sequence[str]) -> str:
        label, name = cells[self._label_place], CONLLU_FIELDS[self._label_place]
        if not label or (label == "_" and name not in MAY_BE_EMPTY):
            raise InputError(
                f"{self.place}:{row}: '{name}' of the word '{cells[1]}' is empty. Fix the row, or "
                "pass --skip-incomplete (skipped sentences are counted)."
            )
        return label

    def _find(self, role: str, asked: str) -> int:
        if asked.lower() in CONLLU_FIELDS:
            return CONLLU_FIELDS.index(asked.lower())
        number = whole_number(asked) or 0
        if not 1 <= number <= len(CONLLU_FIELDS):
            raise InputError(
                f"{self.place}: CoNLL-U has no column '{asked}' for the {role}. Its columns: "
                f"{', '.join(CONLLU_FIELDS)}. Give --{role}-column one of them, or its number."
            )
        return number - 1


def locate_forms(rows: Sequence[Sequence[str]]) -> tuple[str, tuple[Place, ...]]:
    """Rebuild a sentence's text from CoNLL-U rows, and locate its words.

    Spaces follow `SpaceAfter=No`. The parts of a multi-word token have their own places where they
    spell it (`do` + `n't`), else all of them have its place (French `de` + `le` in `du`).
    """
    text = ""
    places: list[Place] = []
    pending: list[str] = []  # parts of the multi-word token that was read last
    token_place, num_parts = (0, 0), 0
    for cells in rows:
        first, kind, last = CONLLU_ID.fullmatch(cells[0]).groups()  # type: ignore[union-attr]
        if kind == ".":
            continue
        if kind is None and num_parts:
            pending.append(cells[1])
            num_parts -= 1
            if not num_parts:
                places += _part_places(pending, text, token_place)
                pending = []
            continue
        start = len(text)
        text += cells[1]
        token_place = (start, len(text))
        if kind == "-":
            num_parts = int(last) - int(first) + 1
        else:
            places.append(token_place)
        if "SpaceAfter=No" not in cells[9].split("|"):
            text += " "
    places += [token_place] * len(pending)  # the file ends within a multi-word token
    return text.removesuffix(" "), tuple(places)


def _part_places(parts: Sequence[str], text: str, token: Place) -> list[Place]:
    start, end = token
    if "".join(parts).lower() != text[start:end].lower():
        return [token] * len(parts)
    places: list[Place] = []
    for part in parts:
        places.append((start, start + len(part)))
        start += len(part)
    return places
