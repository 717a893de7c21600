"""Encode questions with windows of their passages as rows of tokens, as in SQuAD.

A row is [CLS] question [SEP] window [SEP] (Devlin et al. 2019, section 4.2). The passage is also
called the context; a window is as much of it as fits into a row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.squad import GoldAnswer, Question
from bertsmith.data.windowing import Windowing
from bertsmith.data.windows import Windows, join_windows, make_windows
from bertsmith.tokenization.tokenizer import Tokenizer

CLS_POSITION = 0
"""Position of [CLS] in a row: as an answer it means "no answer in this window" (Devlin et al.,
2019, 4.3)."""

Span = tuple[int, int]
"""First and last token of an answer in a context."""


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """Part of a context that a row holds: `size` tokens from `first_in_context` on.

    Token `first_in_row + i` of the row is token `first_in_context + i` of the context. Token `k` of
    the context is its characters `context_offsets[k, 0]` to `context_offsets[k, 1]`, int32.
    """

    first_in_row: int
    first_in_context: int
    size: int
    context_offsets: NDArray[np.int32]

    def holds(self, span: Span) -> bool:
        """Return whether all tokens of a span of the context are in the window."""
        return self.first_in_context <= span[0] and span[1] < self.first_in_context + self.size

    def touches(self, span: Span) -> bool:
        """Return whether any token of a span of the context is in the window."""
        return span[0] < self.first_in_context + self.size and self.first_in_context <= span[1]


@dataclass(frozen=True)
class WindowLabels:
    """Start and end positions of the answer in each row, int64 `[rows]`.

    In a row without an answer, both are `CLS_POSITION`. `num_cut` counts the windows that hold some
    of an answer but not all of it. `num_unreachable` counts the questions whose answer is whole in
    none of their windows.
    """

    start_positions: NDArray[np.int64]
    end_positions: NDArray[np.int64]
    num_cut: int
    num_unreachable: int


def encode_questions(
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    max_length: int,
    windowing: Windowing,
) -> EncodedExamples:
    """Encode each question as windows, rows of at most `max_length` tokens.

    `alignment` has the `ContextWindow` of each row. A context that neighbouring questions share is
    tokenized once. `rows.num_cut`, at the first row of a question, counts the tokens that are in no
    row. They are the end of a context that is cut, and the end of a long question: a question gets
    at most half of a row, or all that a short context leaves free.

    Raises:
        ConfigError: windows would share more than half of a row.
    """
    stride = windowing.overlap(max_length)
    windows: list[Windows] = []
    alignment: list[ContextWindow] = []
    context = None
    for question in questions:
        if question.context is not context:  # neighbours of one paragraph share one string
            context = question.context
            ids, offsets = locate_tokens(tokenizer, context)
        parts = [tokenizer.encode_ids(question.question), ids]
        # windowed=1: the second part, the context, is divided into windows.
        all_windows = make_windows(tokenizer, parts, max_length, stride, windowed=1)
        rows = all_windows.rows if windowing.long_texts == "window" else all_windows.rows[:1]
        num_unread = all_windows.rows[-1].end - rows[-1].end
        windows.append(Windows(rows, all_windows.num_cut + num_unread))
        alignment += [
            ContextWindow(
                first_in_row=row.first,
                first_in_context=row.start,
                size=row.end - row.start,
                context_offsets=offsets,
            )
            for row in rows
        ]
    return join_windows(windows, alignment)


def offsets_of(encoded: EncodedExamples, question: int) -> NDArray[np.int32]:
    """Return the character offsets of a question's context tokens, int32 `[tokens, 2]`."""
    window: ContextWindow = encoded.alignment[int(encoded.starts[question])]
    return window.context_offsets


def locate_tokens(tokenizer: Tokenizer, text: str) -> tuple[list[int], NDArray[np.int32]]:
    """Encode a text into token ids and their character offsets, int32 `[tokens, 2]`.

    Special tokens are left out.
    """
    encoding = tokenizer.encode(text)  # with a special token at each end
    offsets = np.array(encoding.offsets[1:-1], dtype=np.int32).reshape(-1, 2)
    return encoding.ids[1:-1], offsets


def label_windows(questions: Sequence[Question], encoded: EncodedExamples) -> WindowLabels:
    """Compute the positions of each question's answer in its windows.

    Of several answers the first that is in the context is the label; questions of SQuAD's training
    set have at most one. The tokens of an answer are all that share a character with it.
    """
    positions = np.full((len(encoded.alignment), 2), CLS_POSITION, dtype=np.int64)
    num_cut = num_unreachable = 0
    for question, (first, stop) in zip(questions, pairwise(encoded.starts.tolist()), strict=True):
        if not question.answers:
            continue
        windows: Sequence[ContextWindow] = encoded.alignment[first:stop]
        span = answer_span(question, windows[0].context_offsets)
        if span is None:
            num_unreachable += 1
            continue
        holding = [index for index, window in enumerate(windows) if window.holds(span)]
        for index in holding:
            shift = windows[index].first_in_row - windows[index].first_in_context
            positions[first + index] = np.array(span) + shift
        num_cut += sum(window.touches(span) for window in windows) - len(holding)
        num_unreachable += not holding
    return WindowLabels(positions[:, 0], positions[:, 1], num_cut, num_unreachable)


def answer_lengths(
    tokenizer: Tokenizer, questions: Sequence[Question], exact_from: int
) -> Iterator[int]:
    """Yield the number of tokens of each question's answer, of those that have one.

    An answer that begins or ends within a word has a few tokens more or fewer when it is tokenized
    alone. So if an answer has half of `exact_from` tokens or more, its passage is tokenized, and
    the number is exact.
    """
    for question in questions:
        texts = (answer.text for answer in question.answers if answer.start is not None)
        text = next(texts, None)
        if text is None:
            continue
        length = len(tokenizer.encode_ids(text))
        if 2 * length >= exact_from:
            _, offsets = locate_tokens(tokenizer, question.context)
            span = answer_span(question, offsets)
            length = length if span is None else span[1] - span[0] + 1
        yield length


def shortest_answer(question: Question, offsets: NDArray[np.int32]) -> int:
    """Count the tokens of the shortest right answer; 0 where no answer is in the context.

    `offsets` are those of the context's tokens in characters, int32 `[tokens, 2]`.
    """
    spans = (answer_tokens(answer, offsets) for answer in question.answers)
    return min((span[1] - span[0] + 1 for span in spans if span is not None), default=0)


def begins_or_ends_inside_token(question: Question, offsets: NDArray[np.int32]) -> bool:
    """Return whether none of the right answers in the context consists of whole tokens.

    A token may reach over white space and punctuation beside an answer, which scores leave out.
    `offsets` are those of the context's tokens in characters, int32 `[tokens, 2]`.
    """
    is_whole = [  # for each answer, whether its tokens hold no letter or digit beside it
        not _has_word_characters(
            question.context[offsets[span[0], 0] : answer.start]
            + question.context[answer.stop : offsets[span[1], 1]]
        )
        for answer in question.answers
        if (span := answer_tokens(answer, offsets)) is not None
    ]
    return bool(is_whole) and not any(is_whole)


def _has_word_characters(text: str) -> bool:
    return any(category(character)[0] in "LMN" for character in text)  # letters, marks, numbers


def answer_span(question: Question, offsets: NDArray[np.int32]) -> Span | None:
    """Find the first and last token of the first answer that is in the context, or None."""
    spans = (answer_tokens(answer, offsets) for answer in question.answers)
    return next((span for span in spans if span is not None), None)


def answer_tokens(answer: GoldAnswer, offsets: NDArray[np.int32]) -> Span | None:
    """Find the first and last token of an answer; None outside the context."""
    if answer.start is None or answer.stop is None:
        return None
    tokens = np.flatnonzero((offsets[:, 1] > answer.start) & (offsets[:, 0] < answer.stop))
    return (int(tokens[0]), int(tokens[-1])) if len(tokens) else None
