"""Labelled words for people and for other programs: a line with entities marked, CoNLL columns."""

import re
from collections.abc import Sequence

from rich.text import Text

from bertsmith.data.label_schemes import OUTSIDE, Scheme, find_spans
from bertsmith.data.tagged import TaggedSentence

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")
LINE_BREAKING = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


def marked_text(
    sentence: TaggedSentence, labels: Sequence[str], scheme: Scheme, types: Sequence[str]
) -> Text:
    """A sentence in one line: `[EU ORG] rejects`, or with plain labels `the/DET dog/NOUN`.

    `types` are all that the model knows: each has its colour. Where there is but one without a
    name, as in word segmentation, the words stand apart instead.
    """
    colours = {type_: COLOURS[place % len(COLOURS)] for place, type_ in enumerate(types)}
    # Character by character, so that places stay what they are.
    text = LINE_BREAKING.sub(" ", sentence.text)
    marked, reached = Text(), 0
    for label, first, last in find_spans(labels, scheme):
        start, end = sentence.places[first][0], sentence.places[last - 1][1]
        colour = colours.get(label, "")
        if scheme == "plain":
            marked.append(_apart(marked, text[reached:end])).append(f"/{label}", style=colour)
        elif label:
            marked.append(text[reached:start])
            marked.append(f"[{text[start:end]} {label}]", style=f"bold {colour}")
        else:
            marked.append(text[reached:start]).append(" " if marked else "")
            marked.append(text[start:end])
        reached = end
    rest = text[reached:]
    return marked.append(_apart(marked, rest) if scheme == "plain" else rest)


def _apart(marked: Text, text: str) -> str:
    """Text that is to stand behind a label, which a word may touch in the text as it was given."""
    return f" {text}" if marked and text and not text[0].isspace() else text


def conll_block(words: Sequence[str], labels: Sequence[str]) -> str:
    """Words and labels a line, between tabs, and the empty line that ends a sentence.

    A line break or a tab in a word, which a file of columns cannot hold, becomes a space. A word of
    nothing else becomes U+FFFD, the replacement character, as an empty cell is no word.
    """
    rows = zip(words, labels, strict=True)
    return "".join(f"{_as_cell(word)}\t{label}\n" for word, label in rows) + "\n"


def _as_cell(word: str) -> str:
    cell = LINE_BREAKING.sub(" ", word)
    return cell if cell.strip(" ") else "\ufffd"


def span_types(labels: Sequence[str], scheme: Scheme) -> list[str]:
    """The types that labels name, sorted; plain labels are types themselves."""
    spans = (span for label in labels for span in find_spans([label], scheme))
    return sorted({span.label for span in spans} - {OUTSIDE})
