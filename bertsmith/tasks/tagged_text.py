"""Labelled words as text: a line with entities marked, and CoNLL columns.

Labels follow a scheme, such as IOB2, in which B-PER begins a span of words of the type PER. In the
scheme "plain", a label describes one word, such as its part of speech.
"""

import re
from collections.abc import Sequence
from typing import Any

from bertsmith.data.conll import DOCUMENT_START
from bertsmith.data.label_schemes import OUTSIDE, Scheme, find_spans
from bertsmith.data.tagged import TaggedSentence

TERMINAL_COLORS = ("cyan", "green", "yellow", "magenta", "blue", "red")
"""Colors of the types of labels, by their names in the library rich."""
LINE_BREAKING = re.compile("[\0\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
"""Characters that would break a line or a column: tabs, NUL, and all that str.splitlines breaks at.
"""


def marked_text(
    sentence: TaggedSentence, labels: Sequence[str], scheme: Scheme, names: Sequence[str]
) -> Any:
    """Format a sentence as `[EU ORG] rejects`, or with plain labels as `the/DET dog/NOUN`.

    `names` are all labels that the model knows. Each type of these labels, such as ORG, has a
    color. A span whose type has no name (labels `B` and `I`) is written as `[EU] rejects`. If there
    is no label O either, as in word segmentation, every word belongs to a span; spans are then
    separated by spaces, without brackets.
    """
    from rich.text import Text  # imported only where a line is shown

    types = span_types(names, scheme)
    colors = {
        type_: TERMINAL_COLORS[index % len(TERMINAL_COLORS)] for index, type_ in enumerate(types)
    }
    # A line break is replaced by one space, so that the words' offsets stay valid.
    text = LINE_BREAKING.sub(" ", sentence.text)
    marked = Text()
    shown_to = 0  # the offset up to which the text has been added to `marked`
    for label, first, stop in find_spans(labels, scheme):
        start, end = sentence.offsets[first][0], sentence.offsets[stop - 1][1]
        color = colors.get(label, "")
        if scheme == "plain":  # the/DET
            marked.append(_with_space(marked, text[shown_to:end])).append(f"/{label}", style=color)
        elif label or OUTSIDE in names:  # [EU ORG], or [EU] without a type
            marked.append(text[shown_to:start])
            type_shown = f" {label}" if label else ""
            marked.append(f"[{text[start:end]}{type_shown}]", style=f"bold {color}")
        else:  # word segmentation
            marked.append(text[shown_to:start]).append(" " if marked else "")
            marked.append(text[start:end])
        shown_to = end
    rest = text[shown_to:]
    return marked.append(_with_space(marked, rest) if scheme == "plain" else rest)


def _with_space(marked: Any, text: str) -> str:
    """Put a space before a text that would touch the one before it."""
    return f" {text}" if marked and text and not text[0].isspace() else text


def conll_block(words: Sequence[str], labels: Sequence[str], before: Sequence[str] = ()) -> str:
    """Format a sentence as `word<TAB>label` lines and an empty line.

    The lines `before` the sentence are written too: comments, in which tabs become spaces, and
    -DOCSTART- lines, with the label O. So line n of this file belongs to line n of the file of gold
    labels, and both files can be pasted side by side for the scorer conlleval.

    A line break or tab in a word becomes a space, because a file of columns would be split there. A
    word that consists of such characters and spaces becomes U+FFFD, the replacement character,
    because an empty cell would not be read as a word.
    """
    rows = [f"{_as_cell(word)}\t{label}\n" for word, label in zip(words, labels, strict=True)]
    return "".join([*map(_as_line, before), *rows, "\n"])


def conllu_block(sentence: TaggedSentence, labels: Sequence[str]) -> str:
    """Format a sentence as CoNLL-U, with these labels.

    A sentence that was read from CoNLL-U keeps its lines: each NUL of its `template` is replaced by
    a label. For other sentences only FORM and UPOS are written.
    """
    cells = enumerate(map(_as_cell, sentence.words), start=1)
    # The columns are ID, FORM, LEMMA, UPOS and six more; the NUL is the place of the label.
    rows = "".join(f"{i}\t{cell}\t_\t\0\t_\t_\t_\t_\t_\t_\n" for i, cell in cells)
    labels_in_order = iter(labels)
    return re.sub("\0", lambda match: next(labels_in_order), sentence.template or rows) + "\n"


def _as_line(line: str) -> str:
    """Format a line that stands before a sentence: a comment, or the mark of a document."""
    if line.startswith(DOCUMENT_START):
        return f"{DOCUMENT_START}\t{OUTSIDE}\n"
    return LINE_BREAKING.sub(" ", line) + "\n"


def _as_cell(word: str) -> str:
    """Format a word as a cell of a column, which is neither empty nor broken into two."""
    cell = LINE_BREAKING.sub(" ", word)
    return cell if cell.strip(" ") else "\ufffd"


def span_types(labels: Sequence[str], scheme: Scheme) -> list[str]:
    """List the types that labels name, sorted; a plain label is itself a type."""
    spans = (span for label in labels for span in find_spans([label], scheme))
    return sorted({span.label for span in spans} - {OUTSIDE})
