"""Stream sentences with labelled words from CoNLL, CoNLL-U, jsonl and text files.

Nothing is dropped without being counted: `TaggedReader.counts` has the documents, comments,
multi-word tokens, empty nodes and misaligned entities met so far, and the sentences skipped.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from bertsmith.data.conll import (
    CONLLU_FIELDS,
    DOCUMENT_START,
    ColumnParser,
    ConlluParser,
    iter_blocks,
    split_columns,
)
from bertsmith.data.label_schemes import (
    Scheme,
    convert_labels,
    count_illegal,
    detect_scheme,
    scheme_of_predictions,
)
from bertsmith.data.sources import COMPRESSIONS
from bertsmith.data.tables import (
    STANDARD_INPUT,
    check_line_ends,
    iter_lines,
    place_name,
    read_jsonl,
    read_txt,
)
from bertsmith.data.tagged import TagColumns, TaggedSentence
from bertsmith.data.tagged_objects import ObjectParser, parse_line
from bertsmith.errors import InputError
from bertsmith.tokenization.words import find_words

FoundFormat = Literal["conll", "conllu", "jsonl", "text"]

SUFFIXES: dict[str, FoundFormat] = {
    "conllu": "conllu",
    "jsonl": "jsonl",
    "conll": "conll",
    "tsv": "conll",
    "bio": "conll",
    "iob": "conll",
}
"""Formats by the ending of a name; for others the first lines are read."""

PARSERS: dict[str, type[ColumnParser | ConlluParser | ObjectParser]] = {
    "conll": ColumnParser,
    "conllu": ConlluParser,
    "jsonl": ObjectParser,
}

UNREADABLE = ("csv", "parquet", "json", "pdf", "zip")
DETECTED_FROM = 5000
"""Sentences read ahead to detect the label scheme."""
LOOKED_AT = 200
"""Lines read ahead to detect the format."""
MAX_HELD = 1 << 22
"""Maximum characters read ahead to detect a format or a scheme."""
MOST = 3 / 4
"""Share of rows that must have the same number of columns; running text hardly ever has it."""
Item = TypeVar("Item")
FORMAT_NAMES: dict[FoundFormat, str] = {
    "conll": "columns, a word a line",
    "conllu": "CoNLL-U",
    "jsonl": "JSON objects",
    "text": "running text, one text per line",
}


class TaggedReader:
    """Lazy reader of one file's sentences.

    Args:
        path: a file of words and labels, plain or `.gz/.xz/.zst`; or `STANDARD_INPUT`.
        columns: where words and labels stand.
        labelled: whether labels are wanted.
        beside: the scheme of the gold labels, assumed of predicted ones if it can be theirs.

    Attributes:
        counts: what was left out or noticed so far, by name; `skipped` are sentences that could
            not be read.
        format: how the file is read; known once reading has begun.
    """

    def __init__(
        self,
        path: Path,
        columns: TagColumns | None = None,
        *,
        labelled: bool = True,
        beside: Scheme | None = None,
    ) -> None:
        self.path = Path(path)
        self.columns = columns or TagColumns()
        self.labelled = labelled
        self.beside = beside
        self.counts: Counter[str] = Counter()
        self.format: FoundFormat | None = None

    def __iter__(self) -> Iterator[TaggedSentence]:
        """Yield the sentences, in the file's order.

        Raises:
            InputError: the file cannot be read as asked, a row does not fit (unless such
                sentences are to be skipped), or there is no sentence at all.
        """
        self.counts.clear()
        self.format = find_format(self.path, self.columns, labelled=self.labelled)
        num_sentences = 0
        sentences = self._sentences(self.format)
        for sentence in self._with_scheme(sentences) if self.labelled else sentences:
            num_sentences += 1
            yield sentence
        if not num_sentences:
            raise InputError(f"{place_name(self.path)}: {self._lack()}")

    def _lack(self) -> str:
        if self.num_skipped:
            return (
                f"all of its sentences ({self.num_skipped:,}) were skipped, as none can be read. "
                "Leave --skip-incomplete out to see why."
            )
        return "no sentence in it. Give a file with at least one."

    def _sentences(self, format_: FoundFormat) -> Iterator[TaggedSentence]:
        if format_ == "text":
            lines = read_txt(self.path, keep_empty_end=True)
            return (parse_line(row, line, self.columns) for row, line in lines)
        place = place_name(self.path)
        parser = PARSERS[format_](place, self.columns, self.labelled, self.counts)
        if format_ == "jsonl":
            return self._parsed(parser.parse, read_jsonl(self.path))
        if not isinstance(parser, ColumnParser):
            blocks = iter_blocks(place, iter_lines(self.path), self.counts)
            return self._parsed(parser.parse, blocks)
        blocks = iter_blocks(place, iter_lines(self.path), self.counts, parser.gaps)
        return self._parsed(parser.parse, parser.look(blocks))

    def _with_scheme(self, sentences: Iterator[TaggedSentence]) -> Iterator[TaggedSentence]:
        """Set the scheme that was asked for, or that the first sentences show.

        Sentences are read ahead, but `counts` holds only what was met up to the sentence given
        last.
        """
        first: list[TaggedSentence] = []
        counts: list[Counter[str]] = []  # as they stood at each of the first
        error: InputError | None = None
        try:
            held = up_to(MAX_HELD, sentences, lambda sentence: sentence.num_chars)
            for sentence in itertools.islice(held, DETECTED_FROM):
                first.append(sentence)
                counts.append(self.counts.copy())
        except InputError as found:  # raised again where its turn comes
            error = found
        scheme = self.columns.scheme or self._detect(first)
        reached = self.counts.copy()
        for sentence, met in zip(first, counts, strict=True):
            self._set_counts(met)
            yield self._finished(sentence, scheme)
        self._set_counts(reached)
        if error:
            raise error
        for sentence in sentences:
            yield self._finished(sentence, scheme)

    def _finished(self, sentence: TaggedSentence, scheme: Scheme) -> TaggedSentence:
        """Set a sentence's scheme, and repair its labels if asked.

        Raises:
            InputError: a label that is none in this scheme.
        """
        labels, remarks = sentence.labels, sentence.remarks
        if self.columns.repair:
            try:
                is_legal = not count_illegal(labels, scheme)
            except InputError as error:
                raise InputError(f"{place_name(self.path)}:{sentence.row}: {error}") from None
            if not is_legal:
                labels = tuple(convert_labels(labels, scheme, scheme))
                remarks = (*remarks, "repaired")
        return replace(sentence, labels=labels, scheme=scheme, remarks=remarks)

    def _set_counts(self, counts: Counter[str]) -> None:
        """Replace the counts in place: the parsers hold the same object."""
        self.counts.clear()
        self.counts.update(counts)

    def _detect(self, sentences: list[TaggedSentence]) -> Scheme:
        labels = [sentence.labels for sentence in sentences]
        try:
            return (
                scheme_of_predictions(labels, self.beside) if self.beside else detect_scheme(labels)
            )
        except InputError as error:
            raise InputError(f"{place_name(self.path)}: {error}") from None

    def found_by_looking(self) -> str | None:
        """Describe a format that neither flag nor file name tells; else None.

        Raises:
            InputError: as in `find_format`.
        """
        is_told = self.columns.format != "auto" or self.path == STANDARD_INPUT
        found = find_format(self.path, self.columns, labelled=self.labelled)
        if is_told or _format_by_name(self.path):
            return None
        others = ", ".join(name for name in get_args(FoundFormat) if name != found)
        return (
            f"{self.path}: read as {FORMAT_NAMES[found]}, as its first lines look; if it is not, "
            f"pass --format ({others})."
        )

    @property
    def num_skipped(self) -> int:
        """Number of sentences left out because they could not be read."""
        return self.counts["skipped"]

    def _parsed(
        self, parse: Callable[[Any], TaggedSentence | None], parts: Iterable[Any]
    ) -> Iterator[TaggedSentence]:
        for part in parts:
            try:
                sentence = parse(part)
            except InputError:
                if not self.columns.skip_incomplete:
                    raise
                self.counts["skipped"] += 1
                continue
            if sentence is not None:
                # Comments are counted as they are met, as one may stand behind all sentences.
                self.counts.update(name for name in sentence.remarks if name != "comments")
                yield sentence


def read_tagged(
    path: Path, columns: TagColumns | None = None, *, limit: int | None = None
) -> tuple[list[TaggedSentence], Counter[str]]:
    """Read at most `limit` labelled sentences, and return the reader's counts.

    Raises:
        InputError: as in `TaggedReader`.
    """
    reader = TaggedReader(path, columns)
    return list(itertools.islice(reader, limit)), reader.counts


def find_format(path: Path, columns: TagColumns, *, labelled: bool) -> FoundFormat:
    """Find a file's format: as asked, else by its name, else by content.

    Raises:
        InputError: there is no such file, or it is of a kind that has no labelled words.
    """
    found = columns.format if columns.format != "auto" else None
    if path == STANDARD_INPUT:
        found = found or "text"
    elif not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {what}. Check the spelling.")
    found = found or _format_by_name(path) or _format_by_content(path, labelled)
    if labelled and found == "text":
        raise InputError(
            f"{place_name(path)}: running text has no labels. Give CoNLL columns, CoNLL-U or jsonl."
        )
    return found


def up_to(limit: int, items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[Item]:
    """Yield the first items, until their sizes add up to `limit`."""
    total = 0
    for item in items:
        yield item
        total += size(item)
        if total >= limit:
            return


def _format_by_name(path: Path) -> FoundFormat | None:
    parts = path.name.lower().split(".")
    suffix = parts[-2] if parts[-1] in COMPRESSIONS and len(parts) > 1 else parts[-1]
    if suffix in UNREADABLE and len(parts) > 1:
        raise InputError(
            f"{path}: labelled words are not read from .{suffix}. Give CoNLL columns (a word and "
            "its label a line, an empty line after each sentence), CoNLL-U or jsonl."
        )
    return SUFFIXES.get(suffix)


def _format_by_content(path: Path, labelled: bool) -> FoundFormat:
    lines = itertools.islice(up_to(MAX_HELD, iter_lines(path), len), LOOKED_AT)
    head = [line.rstrip("\r\n") for line in lines]
    if len(head) == 1:
        check_line_ends(f"{place_name(path)}:1", head[0])
    rows = [line for line in head if line.strip() and not line.startswith(("#", DOCUMENT_START))]
    if rows and rows[0].startswith("{"):
        return "jsonl"
    if rows and len(cells := rows[0].split("\t")) == len(CONLLU_FIELDS) and cells[0][:1] == "1":
        return "conllu"
    return "conll" if labelled or _looks_like_columns(rows, head) else "text"


def _looks_like_columns(rows: list[str], head: list[str]) -> bool:
    """Return whether lines look like CoNLL columns rather than running text.

    They do if documents are marked, or blocks of rows mostly have the same number of columns. A row
    that lacks one does not make a file running text: the parser reports it. Lines of a single word
    each are rows as well where they stand in several blocks.
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
    return num_alike == len(rows) or (has_long_block and num_alike >= MOST * len(rows))


def _is_filled(line: str) -> bool:
    return bool(line.strip())


def _are_words(rows: list[str]) -> bool:
    """Return whether lines without spaces are words, not texts in unspaced scripts."""
    return sum(len(find_words(row)) for row in rows) <= 2 * len(rows)
