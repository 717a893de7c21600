"""Stream sentences with labelled words from CoNLL and CoNLL-U files and from JSON objects.

Texts without labels are read as well, to predict labels. `TaggedSentence.remarks` lists what was
left out or changed while reading, and `TaggedReader.num_skipped` counts the sentences that could
not be read.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from bertsmith.data.columns import TagColumns
from bertsmith.data.conll import DOCUMENT_START, ColumnParser, iter_blocks, split_columns
from bertsmith.data.conllu import CONLLU_FIELDS, ConlluParser
from bertsmith.data.label_schemes import (
    Scheme,
    convert_labels,
    count_illegal,
    detect_scheme,
    scheme_of_predictions,
)
from bertsmith.data.objects import ObjectFormat, holds_objects, read_objects
from bertsmith.data.parquet_classes import read_parquet_with_classes
from bertsmith.data.reader import Reader, count_chars
from bertsmith.data.sources import check_not_packed, ending_of
from bertsmith.data.tables import read_txt
from bertsmith.data.tagged import TaggedSentence
from bertsmith.data.tagged_checks import FOR_TEXTS, check_words
from bertsmith.data.tagged_objects import ObjectParser, parse_line
from bertsmith.data.text_files import (
    STANDARD_INPUT,
    ExampleSource,
    check_is_file,
    check_line_ends,
    iter_lines,
    locate_row,
    name_source,
)
from bertsmith.errors import ConfigError, InputError, option
from bertsmith.tokenization.words import find_words

TaggedFormat = Literal["conll", "conllu", "jsonl", "json", "parquet", "text"]

SUFFIXES: dict[str, TaggedFormat] = {
    "conllu": "conllu",
    "jsonl": "jsonl",
    "json": "json",
    "parquet": "parquet",
    "conll": "conll",
    "tsv": "conll",
    "bio": "conll",
    "iob": "conll",
}
"""Formats by the ending of a file's name; for other endings, the first lines decide."""

UNREADABLE = ("csv", "xlsx", "pdf")
"""Endings of files that do not hold labelled words."""
DETECTED_FROM = 5000
"""Number of sentences that are read ahead to detect the label scheme."""
LINES_AHEAD = 200
"""Number of lines that are read ahead to detect the format, and of sentences without labels that
are read ahead to check that they hold words."""
MAX_CHARACTERS_AHEAD = 1 << 22
"""Maximum number of characters that are read ahead."""
MIN_ALIKE_SHARE = 3 / 4
"""Share of rows that must have the same number of columns; in running text, hardly ever so many
lines have the same number of words."""
Item = TypeVar("Item")
FORMAT_NAMES: dict[TaggedFormat, str] = {
    "conll": "columns, a word a line",
    "conllu": "CoNLL-U",
    "jsonl": "JSON objects",
    "json": "a list of JSON objects",
    "parquet": "a Parquet table",
    "text": "running text, one text per line",
}


class TaggedReader(Reader[TaggedSentence]):
    """Lazy reader of the sentences of a file, or of rows in memory.

    A scheme such as IOB2 says how labels mark spans of words.

    Args:
        source: a file of words and labels, plain or `.gz/.xz/.zst`; `STANDARD_INPUT`; or rows in
            memory, which are read like the objects of `.jsonl`.
        columns: the options for reading, such as which columns hold words and labels.
        labelled: whether labels are read.
        gold_scheme: if the labels are predictions, the scheme of the gold labels. The predictions
            are read in this scheme, unless their labels show another one.
    """

    def __init__(
        self,
        source: ExampleSource,
        columns: TagColumns | None = None,
        *,
        labelled: bool = True,
        gold_scheme: Scheme | None = None,
    ) -> None:
        self.source = source
        self.columns = columns or TagColumns()
        self.labelled = labelled
        self.gold_scheme = gold_scheme
        self._is_line_empty = False

    def __iter__(self) -> Iterator[TaggedSentence]:
        """Yield the sentences, in the file's order.

        Raises:
            InputError: the file cannot be read, a row does not fit (no error with
                `columns.skip_incomplete`), the file holds texts where words are expected, its
                labels follow no scheme, or it has no sentence.
        """
        self.num_skipped = num_sentences = 0
        for sentence in self._check_first(self._parse_sentences()):
            if sentence is None:
                self.num_skipped += 1
            else:
                num_sentences += 1
                yield sentence
        if not num_sentences:
            raise InputError(f"{name_source(self.source)}: {self._explain_lack()}")

    def _explain_lack(self) -> str:
        """Say why there is no sentence."""
        if self.num_skipped:
            return (
                f"all of its sentences ({self.num_skipped:,}) were skipped, as none can be read. "
                f"Leave {option('skip_incomplete', True)} out to see why."
            )
        return "no sentences. Give at least one."

    def _parse_sentences(self) -> Iterator[TaggedSentence | None]:
        """Yield the parsed sentences, and None for each sentence that is skipped."""
        source, columns = self.source, self.columns
        format_ = find_format(source, columns, labelled=self.labelled)
        if holds_objects(format_):
            objects = ObjectParser(source, columns, self.labelled)
            return self._parse_each(objects.parse, _read_rows(source, format_))
        assert isinstance(source, Path)
        if format_ == "text":
            lines = read_txt(source, keep_empty_end=True)
            return (parse_line(row, line, columns) for row, line in lines)
        source_name = name_source(source)
        # A block has the lines of one sentence.
        blocks = iter_blocks(source_name, self._lines(source))
        if format_ == "conllu":
            return self._parse_each(ConlluParser(source_name, columns, self.labelled).parse, blocks)
        parser = ColumnParser(source_name, columns, self.labelled)
        return self._parse_each(parser.parse, parser.detect_layout(blocks))

    def _lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of a file; `_is_line_empty` says whether the latest one is empty."""
        for line in iter_lines(path):
            self._is_line_empty = not line.strip()
            yield line

    def _parse_each(
        self, parse: Callable[[Any], TaggedSentence | None], items: Iterable[Any]
    ) -> Iterator[TaggedSentence | None]:
        """Parse blocks of lines, or objects; yield None for each that is skipped."""
        for item in items:
            try:
                sentence = parse(item)
            except InputError:
                if not self.columns.skip_incomplete:
                    raise
                yield None
            else:
                if sentence is not None:  # None if a block has only comments
                    yield sentence

    def _check_first(
        self, sentences: Iterator[TaggedSentence | None]
    ) -> Iterator[TaggedSentence | None]:
        """Check that the first sentences hold words, and detect the scheme of their labels.

        All sentences are yielded, with their scheme. If no labels are read, running text and
        standard input are not read ahead, so that each text is answered as soon as it arrives.
        """
        format_ = find_format(self.source, self.columns, labelled=self.labelled)
        if not self.labelled and (format_ == "text" or self.source == STANDARD_INPUT):
            yield from sentences
            return
        first: list[TaggedSentence | None] = []
        error: InputError | None = None
        try:
            bounded = up_to(
                MAX_CHARACTERS_AHEAD,
                sentences,
                lambda sentence: 0 if sentence is None else count_chars(sentence.words),
            )
            num_ahead = DETECTED_FROM if self.labelled else LINES_AHEAD
            first.extend(itertools.islice(bounded, num_ahead))
        except InputError as raised:  # raised again below, after the sentences before it
            error = raised
        parsed = list(filter(None, first))  # without those that are skipped
        if parsed:
            # Whether no empty line divides the rows of a file in columns: all are one sentence.
            is_alone = not holds_objects(format_) and len(first) == 1 and error is None
            is_ended = self._is_line_empty
            check_words(self.source, parsed, is_alone=is_alone, is_ended=is_ended)
        scheme: Scheme | None = None
        if self.labelled:
            scheme = self.columns.scheme or self._detect_scheme(parsed)
        for sentence in first:
            yield self._with_scheme(sentence, scheme)
        if error:
            raise error
        for sentence in sentences:
            yield self._with_scheme(sentence, scheme)

    def _with_scheme(
        self, sentence: TaggedSentence | None, scheme: Scheme | None
    ) -> TaggedSentence | None:
        """Set the scheme of a sentence, and with `columns.repair` make illegal labels legal.

        Raises:
            InputError: a label is not one of the scheme.
        """
        if sentence is None or scheme is None:
            return sentence
        labels, remarks = sentence.labels, sentence.remarks
        if self.columns.repair:
            try:
                is_legal = not count_illegal(labels, scheme)
            except InputError as error:
                raise InputError(
                    f"{locate_row(self.source, sentence.row)}: {error.message}"
                ) from None
            if not is_legal:
                labels = tuple(convert_labels(labels, scheme, scheme))
                remarks = (*remarks, "repaired")
        return replace(sentence, labels=labels, scheme=scheme, remarks=remarks)

    def _detect_scheme(self, sentences: list[TaggedSentence]) -> Scheme:
        """Detect the scheme from the sentences that were read ahead."""
        labels = [sentence.labels for sentence in sentences]
        try:
            if self.gold_scheme:
                return scheme_of_predictions(labels, self.gold_scheme)
            return detect_scheme(labels)
        except InputError as error:
            raise InputError(f"{name_source(self.source)}: {error.message}") from None

    def describe_guessed_format(self) -> str | None:
        """Describe the format if it was guessed from the first lines; else None.

        Raises:
            InputError: there is no such file, or files of its kind do not hold labelled words.
        """
        guess = find_format(self.source, self.columns, labelled=self.labelled)
        is_chosen = self.columns.format != "auto" or self.source == STANDARD_INPUT
        if is_chosen or not isinstance(self.source, Path) or _format_by_name(self.source):
            return None
        others = ", ".join(name for name in get_args(TaggedFormat) if name != guess)
        return (
            f"Reading {self.source} as {FORMAT_NAMES[guess]}, judging by its first lines; "
            f"{option('format')} changes this ({others})."
        )


def _read_rows(
    source: ExampleSource, format_: ObjectFormat
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if format_ == "parquet" and isinstance(source, Path):
        return read_parquet_with_classes(source)
    return read_objects(source, format_)


def find_format(source: ExampleSource, columns: TagColumns, *, labelled: bool) -> TaggedFormat:
    """Find a file's format: `columns.format`, else by the file's name, else by its first lines.

    Raises:
        InputError: there is no such file, files of its kind do not hold labelled words, or running
            text is to be read with labels.
    """
    if not isinstance(source, Path):
        return "jsonl"
    check_is_file(source)
    chosen = columns.format if columns.format != "auto" else None
    if source == STANDARD_INPUT:
        chosen = chosen or "text"
    chosen = chosen or _format_by_name(source) or _format_by_content(source, labelled)
    if labelled and chosen == "text":
        raise InputError(
            f"{name_source(source)}: read as running text ({option('format', 'text')}), which has "
            "no labels. Give CoNLL columns, CoNLL-U or rows of objects, and "
            f"{option('format', 'conll')}, conllu, jsonl, json or parquet."
        )
    return chosen


def check_has_word_column(columns: Any, source: ExampleSource) -> None:
    """Check that a file has columns if an option names that of the words: running text has none.

    Args:
        columns: the settings for reading the file; those of other tasks name no words.

    Raises:
        InputError: there is no such file, or files of its kind do not hold words.
        ConfigError: the option is set, and the file is read as running text.
    """
    if not isinstance(columns, TagColumns) or columns.word_column is None:
        return
    if find_format(source, columns, labelled=False) == "text":
        raise ConfigError(
            f"{option('word_column', columns.word_column)}: {name_source(source)} is read as "
            f"running text, without columns. Leave it out, or pass {option('format', 'conll')}."
        )


def up_to(limit: int, items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[Item]:
    """Yield the first items, until their sizes add up to `limit`."""
    total = 0
    for item in items:
        yield item
        total += size(item)
        if total >= limit:
            return


def _format_by_name(path: Path) -> TaggedFormat | None:
    suffix = ending_of(path)
    check_not_packed(path)
    if suffix in UNREADABLE:
        raise InputError(
            f"{path}: labelled words are not read from .{suffix}. Give CoNLL columns (a word and "
            "its label a line, an empty line after each sentence), CoNLL-U, .jsonl, .json or "
            ".parquet. "
            f"{FOR_TEXTS}"
        )
    return SUFFIXES.get(suffix)


def _format_by_content(path: Path, labelled: bool) -> TaggedFormat:
    lines = itertools.islice(up_to(MAX_CHARACTERS_AHEAD, iter_lines(path), len), LINES_AHEAD)
    head = [line.rstrip("\r\n") for line in lines]
    if len(head) == 1:
        check_line_ends(f"{name_source(path)}:1", head[0])
    rows = [line for line in head if line.strip() and not line.startswith(("#", DOCUMENT_START))]
    # The first row decides for JSON and CoNLL-U, where it has ten columns and begins with 1.
    if rows and rows[0].startswith("{"):
        return "jsonl"
    if rows and len(cells := rows[0].split("\t")) == len(CONLLU_FIELDS) and cells[0][:1] == "1":
        return "conllu"
    return "conll" if labelled or _looks_like_columns(rows, head) else "text"


def _looks_like_columns(rows: list[str], head: list[str]) -> bool:
    """Return whether lines look like CoNLL columns rather than running text.

    They do if a `-DOCSTART-` line marks a document, or if empty lines divide them into blocks and
    most rows have the same number of columns. A row that lacks a column does not make a file
    running text: the parser reports the row. Lines of a single word count as rows if they stand in
    several blocks.
    """
    if any(line.startswith(DOCUMENT_START) for line in head):
        return True
    blocks = [list(lines) for is_row, lines in itertools.groupby(head, _is_filled) if is_row]
    if not rows or all(map(_is_filled, head)):
        return False
    widths = Counter(len(split_columns(row.removesuffix("\t"), "\t" in row)) for row in rows)
    width, num_alike = widths.most_common(1)[0]
    has_long_block = any(len(block) > 1 for block in blocks)
    if width == 1:
        return has_long_block and len(blocks) > 1 and num_alike == len(rows) and _are_words(rows)
    return num_alike == len(rows) or (has_long_block and num_alike >= MIN_ALIKE_SHARE * len(rows))


def _is_filled(line: str) -> bool:
    return bool(line.strip())


def _are_words(rows: list[str]) -> bool:
    """Return whether lines without spaces are words, not texts in scripts without spaces."""
    return sum(len(find_words(row)) for row in rows) <= 2 * len(rows)
