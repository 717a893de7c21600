"""The row of tokens that a page shows: a text, read as for the model's task and cut to a length.

A definition is the task of a loaded model, such as `Tag`, which labels words: it knows how texts
become examples and rows of tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts, check_string
from bertsmith.data.examples import Example
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.question_windows import ContextWindow
from bertsmith.data.squad import Question
from bertsmith.data.tagged import TaggedSentence
from bertsmith.data.word_rows import cut_words
from bertsmith.errors import InputError, option
from bertsmith.system.counts import count_noun
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.mask_prediction import normalize_masks
from bertsmith.tasks.multiple_choice import Choose
from bertsmith.tasks.predictor import LoadedDefinition
from bertsmith.tasks.question_answering import Answer
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.texts import TextTask
from bertsmith.tasks.token_classification import Tag
from bertsmith.tokenization.calling import Encoding
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class ShownPiece:
    """A token of the row.

    Attributes:
        token: its text on the page.
        part: the text that it comes from, 0 or 1; None for a special token around the texts.
        start: its first character in that text.
        end: one past its last character.
        word: the number of its word in the row; a special token is a word of its own.
    """

    token: str
    part: int | None
    start: int
    end: int
    word: int


@dataclass(frozen=True, eq=False)
class ShownText:
    """A text, a pair of texts, or a prompt with one of its choices, as a row of tokens.

    `example` is what the task makes of the texts, and `encoded` has all its rows; a prompt has one
    for each choice. The page shows the row with the index `row`: `ids` and `type_ids`, int32
    [tokens], and `pieces` are of this row, and `num_all` is its number of tokens before it was cut.
    """

    texts: tuple[str, ...]
    pieces: tuple[ShownPiece, ...]
    num_all: int
    example: Any
    encoded: EncodedExamples
    row: int = 0

    @property
    def ids(self) -> NDArray[np.int32]:
        return self.encoded.rows.ids[self.row]

    @property
    def type_ids(self) -> NDArray[np.int32]:
        return self.encoded.rows.type_ids[self.row]

    def mask_words(self, mask_id: int) -> NDArray[np.int32]:
        """Return the ids with [MASK] in place of every token except special ones around texts."""
        is_text = [piece.part is not None for piece in self.pieces]
        return np.where(is_text, mask_id, self.ids).astype(np.int32)

    def tokens_of(self, part: int, start: int, end: int) -> tuple[int, ...]:
        """Find the positions of the tokens that share characters `start` to `end` of a text."""
        return tuple(
            position
            for position, piece in enumerate(self.pieces)
            if piece.part == part and piece.start < end and piece.end > start
        )


def read_text(
    loaded: LoadedDefinition[Any], text: str, pair: Sequence[str], max_length: int
) -> list[ShownText]:
    """Read a text as for the task of a loaded model; all rows are cut to `max_length` tokens.

    Args:
        pair: the second text, the passage of a question, or the choices of a prompt; may be empty.

    Returns:
        One shown text, or one for each choice.

    Raises:
        InputError: a text is empty, or the task reads fewer or more of them.
    """
    check_given_texts(text, pair)
    definition, tokenizer = loaded.definition, loaded.tokenizer
    if isinstance(definition, Choose):
        shown = _read_choices(tokenizer, text, pair, max_length)
    elif isinstance(definition, Tag):
        _check_count(pair, 0, "a model that labels words reads one text")
        shown = [_read_words(definition, tokenizer, text, max_length)]
    elif isinstance(definition, Answer):
        _check_count(pair, 1, "a model that answers questions reads a question and its passage")
        question = Question(id="1", question=text, context=pair[0])
        shown = [_read_row(tokenizer, (text, pair[0]), max_length, question, _align_context)]
    else:
        shown = [_read_example(definition, tokenizer, text, pair, max_length)]
    if all(piece.part is None for piece in shown[0].pieces):
        raise InputError("text: the tokenizer finds no token in it. Give a text with a word in it.")
    return shown


def check_given_texts(text: str, pair: Sequence[str]) -> None:
    """Check that all texts are strings that contain more than white space.

    Raises:
        InputError: a text is not a string, or only white space.
    """
    named_texts = [("text", text), *((option("pair"), second) for second in pair)]
    for name, value in named_texts:
        check_string(name, value)
        if not value.strip():
            raise InputError(f"{name}: it is empty. Give a text with a word in it.")


def _check_count(pair: Sequence[str], count: int, reason: str) -> None:
    """Check that there are `count` second texts; `reason` says why, for the message.

    Raises:
        InputError: there are fewer or more.
    """
    if len(pair) == count:
        return
    if not pair:
        raise InputError(f"Give the second text by {option('pair')}: {reason}.")
    advice = "Give one of them." if count else "Leave it out."
    raise InputError(
        f"{option('pair')}: found {count_noun(len(pair), 'text')}, but {reason}. {advice}"
    )


def _read_example(
    definition: Any, tokenizer: Tokenizer, text: str, pair: Sequence[str], max_length: int
) -> ShownText:
    """Read a text, or a pair of texts, as a classifier, a masked LM or an encoder reads it."""
    if len(pair) > 1:
        _check_count(pair, 1, "this model reads at most one second text")
    if isinstance(definition, Embed):
        _check_count(pair, 0, "a sentence encoder reads one text")
    if isinstance(definition, FillMask):
        text = normalize_masks(text, tokenizer.mask_token)
    if isinstance(definition, TextTask) and definition.pairs is not None:  # None: not known
        reason = "pairs of texts" if definition.pairs else "single texts"
        _check_count(pair, int(definition.pairs), f"this model was trained on {reason}")
    return _read_row(tokenizer, (text, *pair), max_length, Example(text, pair[0] if pair else None))


def _read_choices(
    tokenizer: Tokenizer, text: str, pair: Sequence[str], max_length: int
) -> list[ShownText]:
    """Read a prompt with each of its choices, one row for each."""
    if len(pair) < 2:
        raise InputError(
            f"{option('pair')}: found {count_noun(len(pair), 'choice')}, but this model chooses "
            "among two or more. Give them all after it, each in quotes."
        )
    example = ChoiceExample(text, tuple(pair))
    rows = [_read_row(tokenizer, (text, choice), max_length, example) for choice in pair]
    joined = EncodedTexts.concat([row.encoded.rows for row in rows])
    count = len(pair)
    # One example, which has all the rows. Here its parts are the choices, not the texts of a row.
    starts = np.array([0, count])
    encoded = EncodedExamples(joined, starts=starts, num_parts=np.array([count]))
    return [replace(row, encoded=encoded, row=number) for number, row in enumerate(rows)]


Align = Callable[[Encoding], Sequence[Any]]
"""Builds the `alignment` of an encoded row, which some tasks need to decode their outputs."""


def _align_context(encoding: Encoding) -> list[ContextWindow]:
    """Return the positions of the passage's tokens, which decoding an answer needs."""
    positions = [position for position, part in enumerate(encoding.sequence_ids) if part == 1]
    offsets = np.array([encoding.offsets[position] for position in positions], dtype=np.int32)
    first = positions[0] if positions else len(encoding.ids)
    return [
        ContextWindow(
            first_in_row=first,
            first_in_context=0,
            size=len(positions),
            context_offsets=offsets.reshape(-1, 2),
        )
    ]


def _align_nothing(encoding: Encoding) -> tuple[()]:
    return ()


def _read_row(
    tokenizer: Tokenizer,
    texts: tuple[str, ...],
    max_length: int,
    example: Any,
    align: Align = _align_nothing,
) -> ShownText:
    """Read one text, or two, as a row of tokens, and locate each token in its text."""
    encoding = tokenizer.encode(texts[0], texts[1] if len(texts) > 1 else None, max_length)
    pieces: list[ShownPiece] = []
    for id_, part, (start, end) in zip(
        encoding.ids, encoding.sequence_ids, encoding.offsets, strict=True
    ):
        continues_word = (
            part is not None
            and bool(pieces)
            and pieces[-1].part == part
            and bool(tokenizer.continues_word[id_])
        )
        word = pieces[-1].word if pieces else -1
        if not continues_word:
            word += 1
        label = format_token(tokenizer, id_, "" if part is None else texts[part][start:end])
        pieces.append(ShownPiece(label, part, start, end, word))
    row = (
        np.array(encoding.ids, np.int32),
        np.array(encoding.type_ids, np.int32),
        encoding.num_truncated,
    )
    encoded = replace(EncodedExamples.of_texts(EncodedTexts.of([row])), alignment=align(encoding))
    num_all = len(encoding.ids) + encoding.num_truncated
    return ShownText(texts, tuple(pieces), num_all, example, encoded)


def _read_words(definition: Tag, tokenizer: Tokenizer, text: str, max_length: int) -> ShownText:
    """Read a text as words, as many as fit into the row with all of their tokens."""
    sentence: TaggedSentence = definition.example({"text": text})
    # The token ids of the words, and the index of each word's first token.
    ((ids, word_starts),) = cut_words(tokenizer, [sentence.words])
    word_ends = np.append(word_starts[1:], len(ids))
    num_special = tokenizer.num_special_tokens(1)
    num_words = int((word_ends <= max_length - num_special).sum())
    if sentence.words and not num_words:
        raise InputError(
            f"text: its first word has {word_ends[0]} tokens, but the page shows {max_length}. "
            f"Raise {option('max_length')}, or give another text."
        )
    offsets = sentence.offsets[:num_words]
    shown = replace(
        sentence, words=sentence.words[:num_words], text_and_offsets=(sentence.text, offsets)
    )
    encoded = definition.encode(tokenizer, [shown], max_length, labelled=False)
    row = encoded.rows.ids[0].tolist()
    # At first all tokens are special ones; below, the tokens of words take their places.
    pieces = [special_piece(tokenizer, id_, word=number) for number, id_ in enumerate(row)]
    borders: list[int] = []  # the first token of each word in the row, and the end of the last word
    if num_words:
        borders = encoded.alignment[0].tokens.tolist()  # the first token of each word
        borders.append(borders[0] + int(word_ends[num_words - 1]))
    for number, (first, end) in enumerate(pairwise(borders)):
        word = shown.words[number]
        spans = tokenizer.encode(word).offsets[1:-1]  # without the special tokens at both ends
        if len(spans) != end - first:  # such as a word that becomes [UNK]
            spans = [(0, len(word))] * (end - first)
        word_start = offsets[number][0]
        for position, (span_start, span_end) in zip(range(first, end), spans, strict=True):
            pieces[position] = ShownPiece(
                format_token(tokenizer, row[position], word[span_start:span_end]),
                part=0,
                start=word_start + span_start,
                end=word_start + span_end,
                word=number,
            )
    return ShownText((sentence.text,), number_words(pieces), len(ids) + num_special, shown, encoded)


def number_words(pieces: Sequence[ShownPiece]) -> tuple[ShownPiece, ...]:
    """Number the words along the row from 0; each special token counts as a word.

    Args:
        pieces: neighbours are of one word if they have the same `part` and the same `word`.
    """
    numbered: list[ShownPiece] = []
    number = -1
    previous: ShownPiece | None = None
    for piece in pieces:
        is_same_word = (
            previous is not None
            and piece.part is not None
            and (piece.part, piece.word) == (previous.part, previous.word)
        )
        if not is_same_word:
            number += 1
        numbered.append(replace(piece, word=number))
        previous = piece
    return tuple(numbered)


def special_piece(tokenizer: Tokenizer, id_: int, word: int = 0) -> ShownPiece:
    """Return a special token of the row, which is at no place in a text."""
    return ShownPiece(format_token(tokenizer, id_, ""), part=None, start=0, end=0, word=word)


def format_token(tokenizer: Tokenizer, id_: int, characters: str) -> str:
    """Return a token's text for people.

    A model may have more tokens than its tokenizer, such as the sentinels of a T5. Such a token is
    shown by its id.

    Args:
        characters: the characters of the text that the token stands for. They are returned if the
            token itself holds only some of a character's bytes.
    """
    if id_ >= tokenizer.vocab_size:
        return f"<{id_}>"
    decoded = tokenizer.decode([id_], skip_special_tokens=False).strip()
    if decoded and "\N{REPLACEMENT CHARACTER}" not in decoded:
        return decoded
    return characters.strip() or tokenizer.id_to_token(id_)
