"""Recognize tables of texts, headers and lost empty lines where labelled words are expected.

Each rule is a guess from several signs, so that real sentences pass: words may hold blanks
(`New York`, Vietnamese, non-breaking ones), a file may be one sentence, and labels may be rare.
"""

import re
from collections.abc import Callable, Sequence
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
"""Usual names of columns; all of a header's cells are among these."""

FEW = 3
"""Fewest cells that are judged."""
SEVERAL = 5
"""Words of which nearly all may hold blanks: a table of short texts."""
ENOUGH = 20
"""Words from which a majority with blanks, or labels that never recur, are no accident."""
MANY = 50
"""Words from which labels that hardly recur are no accident."""
TEXT_PIECES = 4
"""Pieces between blanks that make a text; most words of Vietnamese that hold blanks have two."""
TEXT_CHARACTERS = 25
"""Characters of a word without blanks that make a text, as in Chinese."""
CHINESE = "\u3040-\u30ff\u3400-\u9fff"
"""Letters of Chinese and Japanese."""
SOUTHEAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Letters and marks of Thai, Lao, Burmese and Khmer."""
UNSPACED = re.compile(f"[{CHINESE}{SOUTHEAST}]").search
"""Finds a letter of a script without blanks."""
LONG_UNSPACED = re.compile(f"(?:[{CHINESE}][^{CHINESE}]*){{8}}|[{SOUTHEAST}]{{20}}").search
"""Finds more letters than most words of such a script have; names of ministries have as many."""
PUNCTUATED = re.compile(f"[{CHINESE}][，。！？；：、…]|[，。！？；：、…][{CHINESE}]").search
"""Finds a sign of Chinese sentences beside a letter; among words it stands alone."""
LEXICON = 100
"""Words of one sentence, hardly any of which recurs: of 100 running words a fifth or more do."""
SHORT_LEXICON = 50
"""Words of one sentence whose labels are of no scheme for spans, hardly any of which recurs. In
CoNLL-2003, EWT and MSRA, 3 of 939 sentences of 50 to 69 words have so few that recur, none of them
with such labels.
"""
FEW_LABELS = 3
"""Largest number of labels of a short table of texts; a sentence of 20 different words has more
parts of speech. """
LONGEST_LONE_SENTENCE = 1000
"""Largest number of words of a file that is one sentence; the longest sentences of news have some
hundreds."""
SHOWN_ROWS = 3
SHOWN_WORD_CHARACTERS = 40

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
        source_name: how messages call the file.
        rows: numbers and lines.
        columns: the cells of those that have the columns of most.
        word_index: which of the columns has the words.

    Raises:
        InputError: they do; says by what, and what to do.
    """
    lines = [(row, line) for row, line in rows if not line.startswith("#")]
    if not lines:
        return
    _check_header(source_name, lines)
    if any(
        _are_texts(cells) if number == word_index else _are_different_texts(cells)
        for number, cells in enumerate(columns)
    ):
        shown = ", ".join(f"'{shorten_cell(line)}'" for _, line in lines[:SHOWN_ROWS])
        raise InputError(f"{source_name}:{lines[0][0]}: {LIKE_TEXTS} It begins: {shown}.")


def _check_header(source_name: str, lines: Sequence[tuple[int, str]]) -> None:
    """Raise InputError if the first line names the columns.

    A line whose last cell comes again below is a word with its label, whatever it says.
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


def split_header(line: str, *, lower: bool = True) -> list[str]:
    """Split a line at the separator that it has: tabs, commas, semicolons, bars or spaces."""
    border = next((char for char in "\t,;|" if char in line), None)
    cells = [cell.strip().strip('"') for cell in line.strip().split(border)]
    return [cell.lower() for cell in cells] if lower else cells


def names_columns(cells: Sequence[str]) -> bool:
    """Return whether cells in lower case are the usual names of columns, of words and labels."""
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
        sentences: those read ahead; without labels, only their words are judged.
        is_alone: whether the first is the only one, as no empty line stands between rows.
        is_ended: whether an empty line stands behind it.

    Raises:
        InputError: they do; says by what, and what to do.
    """
    words = [word for sentence in sentences for word in sentence.words]
    labels = [label for sentence in sentences for label in sentence.labels]
    fault = _find_fault(words, labels)
    if fault is None and labels and is_alone:
        fault = _find_lost_ends(words)
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
    if _are_texts(words) or _are_different_texts(labels):
        return LIKE_TEXTS
    if labels and _are_span_labels(words) and not _are_span_labels(labels):
        return (
            f"the words look like labels. Choose the columns with {option('word_column')} and "
            f"{option('label_column')}."
        )
    num_different = len(set(labels))
    if (len(labels) >= ENOUGH and num_different == len(labels)) or (
        len(labels) >= MANY and num_different >= 0.9 * len(labels)
    ):
        return (
            f"there are {num_different:,} different labels for {len(labels):,} words, so none can "
            f"be learned. Choose the column with {option('label_column')}. {FOR_TEXTS}"
        )
    return None


def _are_texts(cells: Sequence[str]) -> bool:
    """Return whether the cells of the column of words are texts."""
    return (
        _hold_blanks(cells)
        or _are_most(cells, lambda cell: len(cell) >= TEXT_CHARACTERS, FEW)
        or _are_most(cells, PUNCTUATED, FEW)
        or _are_most(cells, LONG_UNSPACED, SEVERAL)
    )


def _are_most(cells: Sequence[str], is_such: Callable[[str], object], least: int) -> bool:
    """Return whether more than half of at least `least` cells are such."""
    return len(cells) >= least and sum(map(bool, map(is_such, cells))) > 0.5 * len(cells)


def _are_different_texts(cells: Sequence[str]) -> bool:
    """Return whether the cells of another column are texts.

    Labels may hold blanks (`proper noun`), but come again; morphological features are long.
    """
    return len(set(cells)) > 0.5 * len(cells) and (
        _hold_blanks(cells)
        or _are_most(cells, lambda cell: len(cell) >= TEXT_CHARACTERS and UNSPACED(cell), FEW)
        or _are_most(cells, PUNCTUATED, FEW)
    )


def _hold_blanks(cells: Sequence[str]) -> bool:
    """Return whether cells are texts with plain blanks between their words."""
    pieces = [len(cell.strip().split(" ")) for cell in cells]
    num_two, num_three, num_texts = (
        sum(count >= least for count in pieces) for least in (2, 3, TEXT_PIECES)
    )
    size = len(cells)
    return (
        (size >= FEW and num_two > 0.5 * size and num_texts >= 0.25 * size)
        or (size >= SEVERAL and num_two > 0.9 * size)
        or (size >= ENOUGH and num_two > 0.5 * size and num_three > 0.2 * size)
    )


def _are_span_labels(cells: Sequence[str]) -> bool:
    """Return whether all cells are labels of a scheme, and some mark a span."""
    named = [cell for cell in cells if cell != OUTSIDE]
    return bool(named) and all(map(PREFIXED.fullmatch, named))


def _find_lost_ends(words: Sequence[str]) -> str | None:
    """Describe a file without an empty line that is no sentence."""
    if len(words) >= LEXICON and len(set(words)) >= 0.95 * len(words):
        return (
            f"no empty line ends a sentence in {len(words):,} rows, and hardly a word comes twice, "
            f"so this looks like a table. {FOR_TEXTS} {FOR_WORDS}"
        )
    if len(words) > LONGEST_LONE_SENTENCE:
        return (
            f"no empty line ends a sentence in {len(words):,} rows, so the file would be one "
            f"sentence. {FOR_WORDS} One such line anywhere is enough if it is one long "
            "text."
        )
    return None


def _is_short_table(words: Sequence[str], labels: Sequence[str]) -> bool:
    """Return whether rows without an empty line look like short texts, each with its label.

    Labels of spans, and O, stand beside words alone; and so do signs that are rows of their own.
    """
    num_different = len(set(words))
    size = len(words)
    num_signs = sum(not any(map(str.isalnum, word)) for word in words)
    marks_spans = any(label == OUTSIDE or PREFIXED.fullmatch(label) for label in labels)
    if marks_spans or set(labels) <= set(ROLES) or num_signs > 0.02 * size:
        return False
    if size >= SHORT_LEXICON and num_different >= 0.95 * size:
        return True
    num_spaced = sum(" " in word.strip() for word in words)
    return (
        size >= ENOUGH
        and len(set(labels)) <= FEW_LABELS
        and (num_different == size or num_spaced > 0.2 * size)
    )


def _show(sentences: Sequence[TaggedSentence]) -> str:
    """Show the first words with their labels."""
    rows = (
        f"'{shorten_cell(word)}'" + "".join(f" ({shorten_cell(label)})" for label in labels)
        for sentence in sentences
        for word, *labels in zip(*filter(None, (sentence.words, sentence.labels)), strict=True)
    )
    return ", ".join(islice(rows, SHOWN_ROWS))


def shorten_cell(cell: str) -> str:
    text = " ".join(cell.split())
    return text if len(text) <= SHOWN_WORD_CHARACTERS else text[: SHOWN_WORD_CHARACTERS - 1] + "…"
