"""Parse CoNLL files: each word has a line, and an empty line ends a sentence.

The columns of a line are separated by tabs or by spaces, as in CoNLL's shared tasks.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bertsmith.data.columns import TagColumns
from bertsmith.data.label_schemes import OUTSIDE, PREFIXED
from bertsmith.data.lines import MAX_ROW_BYTES
from bertsmith.data.tables import column_index
from bertsmith.data.tagged import Remark, TaggedSentence
from bertsmith.data.tagged_checks import check_rows, check_word_numbers
from bertsmith.data.text_files import check_line_ends
from bertsmith.errors import InputError, option

Row = tuple[int, str]
"""A line's number in its file, and the line without its end."""

DOCUMENT_START = "-DOCSTART-"
"""Word of the line by which CoNLL-2003 marks the start of a document."""
ROWS_AHEAD = 200
"""Number of rows that are read ahead to detect the columns."""
MAX_SENTENCE_ROWS = 1_000_000
"""Maximum number of rows of a sentence. Without a limit, a file that lost its empty lines would be
read into memory as one sentence. A sentence has at most `MAX_ROW_BYTES` characters, too."""


class LineBlock(NamedTuple):
    """The rows of a sentence, and the empty and `-DOCSTART-` lines `before` them.

    In `before`, an empty line is "".
    """

    rows: list[Row]
    before: list[str]


def iter_blocks(source_name: str, lines: Iterable[str]) -> Iterator[LineBlock]:
    """Yield the blocks between empty lines and `-DOCSTART-` lines.

    `-DOCSTART-` is an ordinary word in two cases: it has the label of an entity, or a word stands
    before it in its block. Rows before it that begin with `# ` are comments, not words.

    Raises:
        InputError: a line of the file `source_name` has a carriage return inside, or a block has
            more than `MAX_SENTENCE_ROWS` lines or `MAX_ROW_BYTES` characters.
    """
    block = LineBlock([], [])
    size = 0
    for row, line in enumerate(lines, start=1):
        content = line.rstrip("\r\n")
        check_line_ends(f"{source_name}:{row}", content)
        size += len(line)
        is_long = len(block.rows) == MAX_SENTENCE_ROWS
        if is_long or size > MAX_ROW_BYTES:
            limit = f"{MAX_SENTENCE_ROWS:,} rows" if is_long else f"{MAX_ROW_BYTES:,} characters"
            raise InputError(
                f"{source_name}:{row}: found more than {limit} without an empty line. Put an "
                "empty line after each sentence."
            )
        starts_document = is_document_start(content) and all(
            earlier.startswith("# ") for _, earlier in block.rows
        )
        if content.strip(" \t") and not starts_document:
            block.rows.append((row, content))
            continue
        if block.rows:
            yield block
            block = LineBlock([], [])
            size = 0
        block.before.append(content if starts_document else "")
    if block.rows:
        yield block


def is_document_start(line: str) -> bool:
    """Return whether a line is `-DOCSTART-` without the label of an entity."""
    cells = line.split()
    return cells[:1] == [DOCUMENT_START] and not PREFIXED.fullmatch(cells[-1])


@dataclass(frozen=True)
class ColumnLayout:
    """The separator and the number of columns in the rows of a file."""

    row: int
    """Number of the first row with this layout, for messages."""
    tabs: bool
    """Whether columns are separated by tabs, not by spaces."""
    width: int
    """Number of columns."""
    ends_in_tab: bool = False
    """Whether each row ends with a tab, behind which there is no column."""

    def cut(self, line: str) -> list[str]:
        """Split a row into its cells, however many there are."""
        return split_columns(line.removesuffix("\t") if self.ends_in_tab else line, self.tabs)

    def cells(self, line: str) -> list[str] | None:
        """Split a row into cells; None if their number or separators differ."""
        cells = self.cut(line)
        return cells if len(cells) == self.width and (self.tabs or "\t" not in line) else None


def find_layout(rows: Sequence[Row], labelled: bool) -> ColumnLayout | None:
    """Find the layout that most rows have; None if all look like comments.

    Rows that begin with # count only if there are no other rows, and then only if no space follows
    the #. A last column that is empty in all rows of the layout is dropped, but only if a column
    remains for the word and, with `labelled`, another one for the label.
    """
    data_rows = [row for row in rows if not row[1].startswith("#")]
    data_rows = data_rows or [row for row in rows if not row[1].startswith("# ") and row[1] != "#"]
    if not data_rows:
        return None
    # For each row, whether tabs separate its columns, and their number.
    layouts = [("\t" in line, len(split_columns(line, "\t" in line))) for _, line in data_rows]
    (tabs, width), _ = Counter(layouts).most_common(1)[0]
    alike = [row for row, layout in zip(data_rows, layouts, strict=True) if layout == (tabs, width)]
    first_row = alike[0][0]
    ends_in_tab = width > 1 + labelled and all(line.endswith("\t") for _, line in alike)
    return ColumnLayout(first_row, tabs, width - ends_in_tab, ends_in_tab)


class ColumnParser:
    """Parser of sentences in columns; the first rows of the file decide its layout.

    Lines that begin with # at the start of a block are comments, unless they have as many columns
    as the other rows. A comment such as `# id = 7` may have as many columns by chance. So if spaces
    separate the columns, a line that begins with # and a space is a row only if its label is `O` or
    a label such as `B-PER`.

    Args:
        source_name: the file's name in messages.
        columns: numbers of the columns of word and label, counted from 1; by default the first and
            the last.
        labelled: whether labels are read.
    """

    def __init__(self, source_name: str, columns: TagColumns, labelled: bool) -> None:
        self.source_name = source_name
        self.columns = columns
        self.labelled = labelled
        # `detect_layout` replaces it, unless all rows are comments: none fits a width of 0.
        self._layout = ColumnLayout(0, tabs=False, width=0)
        # Lines, and number of comments, since the last sentence. The next sentence takes them over.
        self._before: list[str] = []
        self._num_comments = 0
        self._is_first = True

    def detect_layout(self, blocks: Iterator[LineBlock]) -> Iterator[LineBlock]:
        """Find the file's layout in its first blocks, then yield all blocks.

        Blocks of comments after the last sentence are left out; their lines are counted with the
        comments of the last sentence.

        Raises:
            InputError: the rows look like a table of texts, the first row names the columns, or
                the first column numbers the words and no other was chosen for them.
        """
        head: list[LineBlock] = []  # the blocks that are read ahead
        num_rows = 0
        for block in blocks:
            head.append(block)
            num_rows += sum(not line.startswith("#") for _, line in block.rows)
            if num_rows >= ROWS_AHEAD:
                break
        rows = [row for block in head for row in block.rows]
        self._layout = find_layout(rows, self.labelled) or self._layout
        fitting = filter(None, (self._layout.cells(line) for _, line in rows))
        columns = list(zip(*fitting, strict=True))  # of the rows that fit the layout
        # 0 also if the chosen column does not exist, which `parse` refuses.
        word_index = column_index(self.columns.word_column or "1", self._layout.width) or 0
        check_rows(self.source_name, rows, columns, word_index)
        if self.columns.word_column is None:
            self._check_word_numbers(head)
        # The latest block that has words, and the blocks of comments after it.
        waiting: list[LineBlock] = []
        for block in itertools.chain(head, blocks):
            if waiting and not all(self._is_comment(line) for _, line in block.rows):
                yield from waiting
                waiting = []
            waiting.append(block)
        if waiting:
            self._num_comments += sum(len(block.rows) for block in waiting[1:])
            yield waiting[0]

    def _check_word_numbers(self, blocks: Sequence[LineBlock]) -> None:
        """Check that the first column holds words and not their numbers.

        Sentences with a row that does not fit the layout are left out.
        """
        sentences: list[list[list[str]]] = []
        for block in blocks:
            rows = itertools.dropwhile(lambda row: self._is_comment(row[1]), block.rows)
            cells = [self._layout.cells(line) for _, line in rows]
            fitting = [row_cells for row_cells in cells if row_cells is not None]
            if fitting and len(fitting) == len(cells):
                sentences.append(fitting)
        is_label_chosen = not self.labelled or self.columns.label_column is not None
        check_word_numbers(
            self.source_name, self._layout.row, sentences, is_label_chosen=is_label_chosen
        )

    def parse(self, block: LineBlock) -> TaggedSentence | None:
        """Parse a block from `detect_layout`; None if it has only comments.

        Raises:
            InputError: a row has other columns than the rest of the file, a word or label is empty,
                a label holds a space, or a column that `columns` names does not exist.
        """
        rows = list(itertools.dropwhile(lambda row: self._is_comment(row[1]), block.rows))
        comments = block.rows[: len(block.rows) - len(rows)]
        self._num_comments += len(comments)
        if not self.labelled:
            # A file of predictions repeats all lines, so that each word keeps its line's number.
            self._before += [*block.before, *(line for _, line in comments)]
        if not rows:
            return None
        cells = [(row, self._split_row(row, line)) for row, line in rows]
        word_index = self._column_index("word", self.columns.word_column, 0)
        words = [self._check_cell(row, "word", row_cells[word_index]) for row, row_cells in cells]
        labels: list[str] = []
        if self.labelled:
            last = self._layout.width - 1
            label_index = self._column_index("label", self.columns.label_column, last)
            if label_index == word_index:
                raise InputError(
                    f"{self.source_name}:{self._layout.row}: column {word_index + 1} of "
                    f"{self._layout.width} is taken for both word and label. Columns are separated "
                    f"by tabs or spaces; choose them with {option('word_column')} and "
                    f"{option('label_column')}."
                )
            labels = [self._check_label(row, row_cells[label_index]) for row, row_cells in cells]
        remarks: list[Remark] = ["comments"] * self._num_comments  # one for each comment
        if block.before and block.before[-1]:  # a -DOCSTART- line without an empty line behind it
            remarks.append("joined_documents")
        # The first of these lines ended the previous sentence. The writer of predictions ends each
        # sentence with an empty line by itself, so this line is left out.
        before = tuple(self._before if self._is_first else self._before[1:])
        self._before = []
        self._num_comments = 0
        self._is_first = False
        return TaggedSentence(
            tuple(words), tuple(labels), row=rows[0][0], remarks=tuple(remarks), before=before
        )

    def _is_comment(self, line: str) -> bool:
        """Return whether a line at the start of a block is a comment, by the rules of the class."""
        if not line.startswith("#"):
            return False
        if (cells := self._layout.cells(line)) is None:
            return True
        is_spaced = line.startswith("# ") and not self._layout.tabs
        return is_spaced and not is_label(cells[self._label_index])

    @property
    def _label_index(self) -> int:
        """Index of the label column; the last one if the user chose none, or one that is not there.

        `parse` refuses a column that is not there, if labels are read.
        """
        index = column_index(self.columns.label_column or "", self._layout.width)
        return self._layout.width - 1 if index is None else index

    def _split_row(self, row: int, line: str) -> list[str]:
        """Split a row into cells.

        Raises:
            InputError: the row has other columns than the rest of the file.
        """
        layout = self._layout
        if (cells := layout.cells(line)) is not None:
            return cells
        if layout.tabs != ("\t" in line) and len(line.split()) > 1:
            separator, expected = ("spaces", "tabs") if layout.tabs else ("tabs", "spaces")
            raise InputError(
                f"{self.source_name}:{row}: columns are separated by {separator}, but in row "
                f"{layout.row} by {expected}. Use one of the two in the whole file."
            )
        raise InputError(
            f"{self.source_name}:{row}: columns: found {len(layout.cut(line))}, where row "
            f"{layout.row} has {layout.width}. Each word has a line with all columns, and an empty "
            f"line stands after a sentence. Fix the row, or pass {option('skip_incomplete', True)} "
            "(skipped sentences are counted)."
        )

    def _column_index(self, role: str, chosen: str | None, default: int) -> int:
        """Return the index of the column that the user chose for words or labels, or `default`."""
        if chosen is None:
            return default
        index = column_index(chosen, self._layout.width)
        if index is None:
            raise InputError(
                f"{self.source_name}:{self._layout.row}: no column '{chosen}' for the {role}. The "
                f"row has {self._layout.width}; give {option(f'{role}_column')} a number from 1 to "
                f"{self._layout.width}."
            )
        return index

    def _check_label(self, row: int, cell: str) -> str:
        """Return a label without blanks at its ends.

        Raises:
            InputError: the label is empty, or holds a space that is not within a type, as the space
                of `B-Job Title` is.
        """
        label = self._check_cell(row, "label", cell)
        first, *others = label.split(" ")
        has_spaced_type = PREFIXED.fullmatch(first) and not any(map(is_label, others))
        if others and not has_spaced_type:
            raise InputError(
                f"{self.source_name}:{row}: the label '{label}' holds a space: tabs and spaces "
                "seem to be mixed. Use one of the two between columns."
            )
        return label

    def _check_cell(self, row: int, role: str, cell: str) -> str:
        """Return the cell of a word or label; refuse an empty one."""
        if not cell.strip(" "):
            raise InputError(
                f"{self.source_name}:{row}: the {role} is empty. Fix the row, or pass "
                f"{option('skip_incomplete', True)} (skipped sentences are counted)."
            )
        return cell if role == "word" else cell.strip(" ")


def is_label(text: str) -> bool:
    """Return whether a text is a label of a scheme that marks spans."""
    return text == OUTSIDE or PREFIXED.fullmatch(text) is not None


def split_columns(line: str, tabs: bool) -> list[str]:
    """Split a row into cells, at tabs or at runs of spaces.

    Only the plain space (U+0020) separates, so that a word may hold any other kind of space.
    """
    return line.split("\t") if tabs else [cell for cell in line.split(" ") if cell]
