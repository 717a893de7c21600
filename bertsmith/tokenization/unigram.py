"""Unigram tokenizer of SentencePiece, ALBERT's.

Each token has a log probability; of all ways to cut a word the one of the highest sum is taken
(Kudo 2018, section 3.2; found by Viterbi's algorithm). A space is written `▁` and belongs to the
word after it. Ids, tokens and offsets equal those of the `tokenizers` library (Unigram,
WhitespaceSplit, Metaspace, and ALBERT's normalizers). The exception is a text that begins with
characters which the charsmap, SentencePiece's normalization table, removes. There the library's
offsets are too small by the number of these characters.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bertsmith.errors import ConfigError
from bertsmith.tokenization import unigram_files
from bertsmith.tokenization.surrogates import restore_offsets, without_surrogates
from bertsmith.tokenization.tokenizer import PieceAt, TextTokens, Tokenizer
from bertsmith.tokenization.unigram_model import Unigram
from bertsmith.tokenization.unigram_normalizer import (
    ALBERT_STEPS,
    SPACE,
    Aligned,
    Step,
    UnigramNormalizer,
    not_white_space,
    split_marks,
    unsafe_cut,
)


class UnigramTokenizer(Tokenizer):
    """ALBERT's tokenizer: [CLS] A [SEP] B [SEP] over SentencePiece's unigram tokens.

    Args:
        vocab: the tokens, by id.
        scores: the log probability of each.
        steps: names of the normalization steps, in order (`UnigramNormalizer`).
        charsmap: SentencePiece's table for the step of that name.
        shared: the arguments of every `Tokenizer`.

    Raises:
        ConfigError: a duplicate entry, no unknown token, or a damaged table.
    """

    default_tokens = unigram_files.DEFAULT_NAMES
    adds_special_tokens = True  # those that `vocab` lacks get the next ids
    unit_gap = 1  # the space that `_units` splits at
    own_settings = ("steps", "charsmap")

    def __init__(
        self,
        vocab: Sequence[str],
        scores: Sequence[float],
        *,
        steps: Sequence[Step] = ALBERT_STEPS,
        charsmap: bytes = b"",
        **shared: Any,
    ) -> None:
        super().__init__(vocab, **shared)
        if self.unk_id >= self.num_pieces:
            raise ConfigError(
                f"the vocabulary lacks {self.unk_token}, the unknown token. Name another one in "
                "tokenizer_config.json, or get the file again."
            )
        self.scores = tuple(scores)
        # Without a table the step does nothing, and files could not name it.
        self.steps = tuple(step for step in steps if charsmap or step != "charsmap")
        self.charsmap = charsmap
        self._normalizer = UnigramNormalizer(self.steps, charsmap)
        # The pieces come first in the vocabulary, and tokens that were added to it follow.
        self._unigram = Unigram(self.vocab[: self.num_pieces], self.scores, self.unk_id)
        self._prepare_encoding(self._normalizer.normalize)
        # A charsmap may replace the space, by which `_units` would otherwise cut.
        self._cuts_at_spaces = self._normalizer.normalize(" ") == " "

    @property
    def lowers_case(self) -> bool:
        return "lowercase" in self.steps

    def save(self, directory: str | Path) -> None:
        """Write tokenizer.json and tokenizer_config.json."""
        pieces = list(zip(self.vocab, self.scores, strict=False))
        unigram_files.write_unigram(Path(directory), pieces, self._ids, self.settings())

    def _vocabulary(self) -> tuple[Any, ...]:
        return self.vocab[: self.num_pieces], self.scores

    def _identity(self) -> list[Any]:
        *first, settings = super()._identity()
        return [*first, settings | {"charsmap": self.charsmap.hex()}]

    def _as_text(self, token: str) -> str:
        return token.replace(SPACE, " ")

    def encode_ids(self, text: str) -> list[int]:
        return super().encode_ids(without_surrogates(text))

    def other_cuts(self, old: Tokenizer) -> str | None:
        """Describe a changed score, or a new score below all of `old`; None if there is neither."""
        assert isinstance(old, UnigramTokenizer)
        for id_, (before, after) in enumerate(zip(old.scores, self.scores, strict=False)):
            if before != after:
                return f"the score of id {id_:,} is {after} instead of {before}"
        if min(self.scores) < min(old.scores):
            return f"the least score is {min(self.scores)} instead of {min(old.scores)}"
        return None

    def words(self, text: str) -> list[str]:
        """Split text into normalized words, each with `▁` before it."""
        return self._normalizer.words(text)

    def word_ids(self, word: str) -> list[int]:
        return [piece.id for piece in self._unigram.cut(word)]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decode ids: tokens joined, with `▁` a space except in the first.

        Raises:
            InputError: an id outside the vocabulary.
        """
        tokens = list(self._kept_tokens(ids, skip_special_tokens))
        first = [token.replace(SPACE, "") for token in tokens[:1]]
        return "".join([*first, *(token.replace(SPACE, " ") for token in tokens[1:])])

    def _units(self, text: str) -> list[str]:
        """Split text at spaces into parts that normalization treats independently."""
        if not self._cuts_at_spaces or (not text.isascii() and unsafe_cut().search(text)):
            return [text]
        return text.split(" ")

    def _compute_ids(self, unit: str) -> tuple[int, ...]:
        words = self._normalizer.words(unit)
        return tuple(piece.id for word in words for piece in self._unigram.cut(word))

    def _align(self, text: str) -> Aligned:
        return self._normalizer.align(text)

    def _locate_normalized(self, text: str, origins: Sequence[int]) -> Iterator[PieceAt]:
        """Yield the tokens of normalized text, with offsets in the text before normalization.

        `origins` has the index there of each character of `text`.
        """
        for match in not_white_space().finditer(text):
            # `split_marks` adds a ▁ if there is none; it has the origin of the first character.
            has_mark = match.group().startswith(SPACE)
            word_start = match.start() if has_mark else match.start() - 1
            for word in split_marks(match.group()):
                for id_, token, start, end in self._unigram.cut(word):
                    first = origins[max(word_start + start, match.start())]
                    last = origins[max(word_start + end - 1, match.start())]
                    yield PieceAt(id_, token, first, last + 1)
                word_start += len(word)

    def _encode_text(self, text: str) -> TextTokens:
        # Lone surrogates have no tokens, but offsets count them.
        clean = without_surrogates(text)
        return restore_offsets(super()._encode_text(clean), text, clean)
