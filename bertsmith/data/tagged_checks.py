"""Refuse files of the wrong kind where labelled words are expected, such as a table of texts.

Labelled words stand one a line, with an empty line after each sentence. Each rule here is a guess.
It needs several signs that the rows are no words, so that real sentences pass: words may hold
blanks (`New York`, words of Vietnamese, non-breaking spaces), a file may be a single sentence, and
labels may be rare.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from bertsmith.data.examples import LABEL_COLUMNS, USUAL_NAMES
from bertsmith.data.label_schemes import OUTSIDE, PREFIXED, ROLES
from bertsmith.data.tagged import TaggedSentence
from bertsmith.data.text_files import ExampleSource, locate_row
from bertsmith.errors import InputError, option

WORD_NAMES = {"word", "words", "token", "tokens", "form"}
LABEL_NAMES = {"label", "labels", "tag", "tags", "pos", "upos", "ner", "ner_tags"}
TEXT_HEADINGS = WORD_NAMES | USUAL_NAMES | {"phrase", "tweet", "title", "body", "description"}
LABEL_HEADINGS = LABEL_NAMES | {*LABEL_COLUMNS, "ner_tag", "pos_tag", "chunk_tag", "xpos", "entity"}
OTHER_HEADINGS = {
    *("id", "idx", "index", "no", "#", "guid", "source", "lemma", "chunk", "head", "deprel"),
    *("sentence #", "sentence_id", "sent_id", "feats", "deps", "misc"),
}
"""Usual names of columns for neither words nor labels. A row is taken for a header if all its cells
are usual names."""

MIN_CELLS = 3
"""Minimum number of cells of a column for any sign that they are texts."""
MIN_CELLS_WEAK = 5
"""Minimum number of cells for two weak signs: nearly all cells hold blanks, or most have many
letters of a script without blanks."""
MIN_CELLS_CHANCE = 20
"""Minimum number of cells for signs that fewer cells often have by chance: more than half hold
blanks, or all labels are different."""
MIN_DIFFERENT_LABELS = 50
"""Minimum number of labels for the sign that nearly all are different."""
TEXT_PIECES = 4
"""A cell with as many pieces between blanks is a text; most words of Vietnamese that hold blanks
have two pieces."""
TEXT_CHARACTERS = 25
"""A cell with as many characters is a text, for example in Chinese, which has no blanks."""
CHINESE = "\u3040-\u30ff\u3400-\u9fff"
"""Letters of Chinese and Japanese."""
SOUTHEAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Letters and marks of Thai, Lao, Burmese and Khmer."""
UNSPACED = re.compile(f"[{CHINESE}{SOUTHEAST}]").search
"""Finds a letter of a script that writes no blanks between words."""
LONG_UNSPACED = re.compile(f"(?:[{CHINESE}][^{CHINESE}]*){{8}}|[{SOUTHEAST}]{{20}}").search
"""Finds more letters than most words of such a script have. Long names, as of ministries, have as
many, so only a majority of such cells is a sign."""
PUNCTUATED = re.compile(f"[{CHINESE}][，。！？；：、…]|[，。！？；：、…][{CHINESE}]").search
"""Finds a Chinese punctuation mark beside a letter; among words, the mark has a cell of its own."""
MIN_TABLE_ROWS = 100
"""Minimum number of rows without an empty line for the sign that hardly any word is repeated: then
they are a table. In 100 words of running text, a fifth or more are repetitions."""
MIN_UNMARKED_TABLE_ROWS = 50
"""The minimum in place of `MIN_TABLE_ROWS` if the labels mark no spans (`B-PER` marks one). Of 939
sentences of 50 to 69 words in CoNLL-2003, EWT and MSRA, 3 repeat hardly any word, and the labels of
these 3 mark spans."""
MAX_TABLE_LABELS = 3
"""Maximum number of different labels in a short table of texts; a sentence of 20 different words
has more parts of speech."""
MAX_LONE_SENTENCE_WORDS = 1000
"""Maximum number of words of a file that is one sentence; the longest sentences of news have some
hundreds."""
MIN_NUMBERED_ROWS = 4
"""Minimum number of rows for the sign that the first column numbers the words, if the file is a
single sentence; of several sentences, one with two rows is enough."""
MULTIWORD_NUMBER = re.compile(r"\d+[-.]\d+")
"""Number of a multi-word token (`3-4`) or of an empty node (`3.1`) in CoNLL-U."""
SHOWN_ROWS = 3
SHOWN_WORD_CHARACTERS = 40
"""Number of rows, and of characters of each, that a message shows."""

FOR_TEXTS = "For one label a text, use bertsmith finetune classify (in Python TextClassifier)."
FOR_WORDS = "Labelled words stand one a line, with an empty line after each sentence."
LIKE_TEXTS = f"this looks like a table of texts, not of words. {FOR_TEXTS} {FOR_WORDS}"


def check_rows(
    source_name: str,
    rows: Sequence[tuple[int, str]],
    columns: Sequence[Sequence[str]],
    word_index: int,
) -> None:
    """Refuse a file in columns whose first rows look like a table of texts.

    Args:
        source_name: the file's name in messages.
        rows: the first rows of the file, each as its number and line.
        columns: for each column its cells, from the rows that have as many columns as most.
        word_index: index of the column with the words.

    Raises:
        InputError: the rows look like a table of texts, or the first row names the columns; the
            message says what to do.
    """
    lines = [(row, line) for row, line in rows if not line.startswith("#")]
    if not lines:
        return
    _check_header(source_name, lines)
    for index, cells in enumerate(columns):
        # Other columns than that of the words need more signs: labels and features may be long.
        look_like_texts = _are_texts if index == word_index else _are_different_texts
        if look_like_texts(cells):
            first_row, _ = lines[0]
            shown = ", ".join(f"'{shorten_cell(line)}'" for _, line in lines[:SHOWN_ROWS])
            raise InputError(f"{source_name}:{first_row}: {LIKE_TEXTS} It begins: {shown}.")


def _check_header(source_name: str, lines: Sequence[tuple[int, str]]) -> None:
    """Raise InputError if the first line names the columns.

    If a later line ends with the last cell of the first line, that cell is a label, so the first
    line is a word with its label, even if both are usual names of columns (`form` and `pos`).
    """
    row, first = lines[0]
    cells = split_header(first)
    comes_again = any(line.rstrip().lower().endswith(cells[-1]) for _, line in lines[1:])
    if not names_columns(cells) or comes_again:
        return
    shown = " and ".join(f"'{cell}'" for cell in split_header(first, lower=False))
    fault = f"{source_name}:{row}: {shown} of the first row seem to name the columns"
    if WORD_NAMES.intersection(cells):
        raise InputError(f"{fault}. Remove this row.")
    raise InputError(f"{fault} of a table of texts. {FOR_TEXTS} {FOR_WORDS}")


def check_word_numbers(
    source_name: str,
    row: int,
    sentences: Sequence[Sequence[Sequence[str]]],
    *,
    is_label_chosen: bool,
) -> None:
    """Refuse a file in columns whose first column numbers the words of each sentence.

    GermEval 2014, CoNLL-X and CoNLL-2009 have such a column. A file of two columns passes, since
    its numbers are the words.

    Args:
        source_name: the file's name in messages.
        row: the row at which the first sentence begins.
        sentences: for each of the first sentences its rows, and for each row its cells.
        is_label_chosen: whether a column was chosen for the labels, or none are read.

    Raises:
        InputError: all sentences count from 1 or all from 0; the message says what to do.
    """
    num_columns = min((len(cells) for rows in sentences for cells in rows), default=0)
    longest = max(map(len, sentences), default=0)
    if num_columns < 3 or longest < (MIN_NUMBERED_ROWS if len(sentences) == 1 else 2):
        return
    first_columns = [_without_multiword(cells[0].strip() for cells in rows) for rows in sentences]
    if not _count_from(0, first_columns) and not _count_from(1, first_columns):
        return
    label_advice = ""
    # If there are three columns, the last can only be the label, after the number and the word.
    if not is_label_chosen and num_columns != 3:
        label_advice = (
            f" The labels are taken from the last column, {num_columns}; choose another with "
            f"{option('label_column')}."
        )
    lines = (" ".join(cells) for rows in sentences for cells in rows)
    shown = ", ".join(f"'{shorten_cell(line)}'" for line in islice(lines, SHOWN_ROWS))
    raise InputError(
        f"{source_name}:{row}: the first column numbers the words of each sentence. Remove it, or "
        f"pass {option('word_column', '2')} if the second holds the words.{label_advice} It "
        f"begins: {shown}."
    )


def _count_from(start: int, columns: Sequence[Sequence[str]]) -> bool:
    """Return whether in each of some columns the cells are `start`, `start` + 1 and so on."""
    for cells in columns:
        expected = [str(number) for number in range(start, start + len(cells))]
        if cells != expected:
            return False
    return True


def _without_multiword(cells: Iterable[str]) -> list[str]:
    """Leave out the numbers of multi-word tokens and empty nodes, which do not count words."""
    return [cell for cell in cells if not MULTIWORD_NUMBER.fullmatch(cell)]


def split_header(line: str, *, lower: bool = True) -> list[str]:
    """Split a line at the first of these separators that it holds: tab, comma, semicolon, bar.

    A line without one is split at spaces.
    """
    delimiter = next((char for char in "\t,;|" if char in line), None)
    cells = [cell.strip().strip('"') for cell in line.strip().split(delimiter)]
    return [cell.lower() for cell in cells] if lower else cells


def names_columns(cells: Sequence[str]) -> bool:
    """Return whether all cells, in lower case, are usual names of columns.

    At least one must name words or texts, and one labels.
    """
    names = set(cells)
    return (
        len(names) == len(cells) > 1
        and names <= TEXT_HEADINGS | LABEL_HEADINGS | OTHER_HEADINGS
        and bool(names & TEXT_HEADINGS)
        and bool(names & LABEL_HEADINGS)
    )


def check_words(
    source: ExampleSource,
    sentences: Sequence[TaggedSentence],
    *,
    is_alone: bool,
    is_ended: bool = False,
) -> None:
    """Refuse a source whose first sentences look like another kind of data.

    Args:
        source: the file or rows, for messages.
        sentences: the sentences that were read ahead; without labels, only their words are judged.
        is_alone: whether the file has only one sentence, because no empty line divides its rows.
        is_ended: whether an empty line ends this sentence.

    Raises:
        InputError: the sentences look like texts, the words like labels, the labels have too many
            different values, or the empty lines are missing; the message says what to do.
    """
    words = [word for sentence in sentences for word in sentence.words]
    labels = [label for sentence in sentences for label in sentence.labels]
    fault = _find_fault(words, labels)
    if fault is None and labels and is_alone:
        fault = _find_lost_empty_lines(words)
        if fault is None and not is_ended and _is_short_table(words, labels):
            fault = (
                f"no empty line ends a sentence in {len(words):,} rows, which look like short "
                f"texts with a label each. {FOR_TEXTS} If they are the words of one sentence, put "
                "an empty line behind it."
            )
    if fault is not None:
        raise InputError(
            f"{locate_row(source, sentences[0].row)}: {fault} It begins: {_show(sentences)}."
        )


def _find_fault(words: Sequence[str], labels: Sequence[str]) -> str | None:
    """Describe why words and labels are not those of sentences; None if they may be."""
    if _are_texts(words) or _are_different_texts(labels):
        return LIKE_TEXTS
    if labels and _are_span_labels(words) and not _are_span_labels(labels):
        return (
            f"the words look like labels. Choose the columns with {option('word_column')} and "
            f"{option('label_column')}."
        )
    num_different = len(set(labels))
    size = len(labels)
    are_all_different = size >= MIN_CELLS_CHANCE and num_different == size
    are_most_different = size >= MIN_DIFFERENT_LABELS and num_different >= 0.9 * size
    if are_all_different or are_most_different:
        return (
            f"there are {num_different:,} different labels for {size:,} words, so none can "
            f"be learned. Choose the column with {option('label_column')}. {FOR_TEXTS}"
        )
    return None


def _are_texts(cells: Sequence[str]) -> bool:
    """Return whether the cells of the column of words look like texts."""
    return (
        _hold_blanks(cells)
        or _are_most(cells, lambda cell: len(cell) >= TEXT_CHARACTERS, MIN_CELLS)
        or _are_most(cells, PUNCTUATED, MIN_CELLS)
        or _are_most(cells, LONG_UNSPACED, MIN_CELLS_WEAK)
    )


def _are_most(cells: Sequence[str], matches: Callable[[str], object], min_cells: int) -> bool:
    """Return whether there are `min_cells` or more, and `matches` is true of more than half."""
    num_matching = sum(bool(matches(cell)) for cell in cells)
    return len(cells) >= min_cells and num_matching > 0.5 * len(cells)


def _are_different_texts(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column other than that of the words look like texts.

    More than half must be different, since labels that hold blanks (`proper noun`) come again. That
    cells are long is a sign only in scripts without blanks, since morphological features are long.
    """
    return len(set(cells)) > 0.5 * len(cells) and (
        _hold_blanks(cells)
        or _are_most(cells, lambda cell: len(cell) >= TEXT_CHARACTERS and UNSPACED(cell), MIN_CELLS)
        or _are_most(cells, PUNCTUATED, MIN_CELLS)
    )


def _hold_blanks(cells: Sequence[str]) -> bool:
    """Return whether cells look like texts that have plain spaces between words."""
    piece_counts = [len(cell.strip().split(" ")) for cell in cells]
    num_two = sum(count >= 2 for count in piece_counts)  # cells of two pieces or more
    num_three = sum(count >= 3 for count in piece_counts)
    num_texts = sum(count >= TEXT_PIECES for count in piece_counts)
    size = len(cells)
    return (
        (size >= MIN_CELLS and num_two > 0.5 * size and num_texts >= 0.25 * size)
        or (size >= MIN_CELLS_WEAK and num_two > 0.9 * size)
        or (size >= MIN_CELLS_CHANCE and num_two > 0.5 * size and num_three > 0.2 * size)
    )


def _are_span_labels(cells: Sequence[str]) -> bool:
    """Return whether all cells are `O` or labels such as `B-PER`, and some are not `O`."""
    inside = [cell for cell in cells if cell != OUTSIDE]
    return bool(inside) and all(map(PREFIXED.fullmatch, inside))


def _find_lost_empty_lines(words: Sequence[str]) -> str | None:
    """Describe why the words of a file without an empty line are not one sentence; else None."""
    if len(words) >= MIN_TABLE_ROWS and len(set(words)) >= 0.95 * len(words):
        return (
            f"no empty line ends a sentence in {len(words):,} rows, and hardly any word is "
            f"repeated, so this looks like a table. {FOR_TEXTS} {FOR_WORDS}"
        )
    if len(words) > MAX_LONE_SENTENCE_WORDS:
        return (
            f"no empty line ends a sentence in {len(words):,} rows, so the file would be one "
            f"sentence. {FOR_WORDS} If the file is one long text, a single empty line anywhere is "
            "enough."
        )
    return None


def _is_short_table(words: Sequence[str], labels: Sequence[str]) -> bool:
    """Return whether rows without an empty line look like short texts, each with its label.

    They are words if a label is `O` or marks a span (`B-PER`), if all labels are letters of schemes
    alone (`B`, `I`), as in word segmentation, or if punctuation marks have rows of their own.
    """
    num_different = len(set(words))
    size = len(words)
    num_marks = sum(not any(map(str.isalnum, word)) for word in words)
    marks_spans = any(label == OUTSIDE or PREFIXED.fullmatch(label) for label in labels)
    if marks_spans or set(labels) <= set(ROLES) or num_marks > 0.02 * size:
        return False
    if size >= MIN_UNMARKED_TABLE_ROWS and num_different >= 0.95 * size:
        return True
    num_spaced = sum(" " in word.strip() for word in words)
    return (
        size >= MIN_CELLS_CHANCE
        and len(set(labels)) <= MAX_TABLE_LABELS
        and (num_different == size or num_spaced > 0.2 * size)
    )


def _show(sentences: Sequence[TaggedSentence]) -> str:
    """Write the first words with their labels, for a message."""
    shown: list[str] = []
    for sentence in sentences:
        for index, word in enumerate(sentence.words):
            if len(shown) == SHOWN_ROWS:
                return ", ".join(shown)
            label = f" ({shorten_cell(sentence.labels[index])})" if sentence.labels else ""
            shown.append(f"'{shorten_cell(word)}'{label}")
    return ", ".join(shown)


def shorten_cell(cell: str) -> str:
    """Return a cell on one line, of at most `SHOWN_WORD_CHARACTERS` characters, for messages."""
    text = " ".join(cell.split())
    return text if len(text) <= SHOWN_WORD_CHARACTERS else text[: SHOWN_WORD_CHARACTERS - 1] + "…"
