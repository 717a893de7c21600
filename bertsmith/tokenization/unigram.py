"""Unigram tokenizer of SentencePiece, ALBERT's.

Each token has a log probability; of all ways to cut a word the one of the highest sum is taken
(Kudo 2018, section 3.2; found by Viterbi's algorithm). A space is written `▁` and belongs to the
word after it. Ids, tokens and offsets equal those of the `tokenizers` library (Unigram,
WhitespaceSplit, Metaspace, and ALBERT's normalizers), except for a text that begins with characters
that the charsmap removes: the library's offsets are too small by the number of these characters.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertsmith.errors import ConfigError
from bertsmith.tokenization import unigram_files
from bertsmith.tokenization.byte_bpe import count_surrogates, without_surrogates
from bertsmith.tokenization.normalize import (
    character_class,
    code_ranges,
    decompose_compatibly,
    decompose_sorted,
    lowercase_letters,
)
from bertsmith.tokenization.tokenizer import PieceAt, TextTokens, Tokenizer

MAX_CLUSTER_BYTES = 5
"""Bytes of the longest grapheme cluster that is looked up whole. Clusters that are not a character
with marks (syllables, flags, families) are longer, so `cluster_pattern` needs no rules for them."""


@cache
def cluster_pattern() -> re.Pattern[str]:
    """Compile a pattern that splits text into grapheme clusters, without gaps."""
    joining, apart = character_class("JOINING"), character_class("APART")
    prepended = character_class("PREPENDED")
    return re.compile(
        rf"\r\n|[{prepended}]*[^{apart}{joining}{prepended}][{joining}]*"
        rf"|[{prepended}]+[{joining}]*|[{joining}]+|[\s\S]"
    )


class CharacterMap:
    """Lookup table of a model's charsmap.

    The table is a size in bytes, a double-array trie (Aoe 1989, in darts-clone's layout), and the
    normalized strings that its leaves point to, each ended by a zero byte. As in the `tokenizers`
    library (Precompiled) it is applied to whole grapheme clusters of up to five bytes, else
    character by character. The shortest key that a cluster begins with decides.

    Raises:
        ConfigError: the table is cut short.
    """

    def __init__(self, table: bytes) -> None:
        size = int.from_bytes(table[:4], "little")
        if not size or size % 4 or len(table) < 4 + size:
            raise ConfigError(
                f"the normalization table has {len(table):,} bytes, and its trie alone should have "
                f"{size:,}. Get the file again."
            )
        self._units = np.frombuffer(table, "<u4", size // 4, 4).tolist()
        self._strings = table[4 + size :]
        self._images: dict[str, str | None] = {}

    def image(self, text: str) -> str | None:
        """Look up the shortest key that `text` begins with; None without one."""
        if text not in self._images:
            if len(self._images) > 1 << 16:
                self._images.clear()
            self._images[text] = self._look_up(text.encode())
        return self._images[text]

    def _look_up(self, key: bytes) -> str | None:
        units = self._units
        index = self._child(0, 0)
        for byte in key:
            index ^= byte
            if byte == 0 or index >= len(units) or units[index] & 0x800000FF != byte:
                return None
            has_leaf = units[index] & 1 << 8
            index = self._child(index, index)
            if has_leaf:
                return self._string(units[index] & 0x7FFFFFFF if index < len(units) else -1)
        return None

    def _child(self, index: int, base: int) -> int:
        unit: int = self._units[index]
        return base ^ (unit >> 10) << ((unit & 1 << 9) >> 6)

    def _string(self, start: int) -> str:
        end = self._strings.find(b"\0", max(start, 0))
        if start < 0 or end < 0:
            raise ConfigError("the normalization table is damaged. Get the file again.")
        return self._strings[start:end].decode("utf-8", "replace")

    def align(self, text: str) -> tuple[str, list[int]]:
        """Normalize text; also return the index in `text` of each character's origin."""
        images: list[str] = []
        origins: list[int] = []
        start = 0
        for cluster in cluster_pattern().findall(text):
            parts = [cluster]
            if len(cluster) > 1 and (
                len(cluster.encode()) > MAX_CLUSTER_BYTES or self.image(cluster) is None
            ):
                parts = list(cluster)
            for part in parts:
                image = self.image(part)
                if image is None:
                    image = part
                images.append(image)
                # Characters are aligned one to one; further ones have the last character as origin.
                origins += [start + min(i, len(part) - 1) for i in range(len(image))]
                start += len(part)
        return "".join(images), origins


SPACE = "▁"
UNKNOWN_PENALTY = 10.0
"""Log-probability gap between the least likely token and an unknown character."""

Step = Literal["quotes", "decompose", "strip_accents", "lowercase", "charsmap"]
ALBERT_STEPS: tuple[Step, ...] = ("quotes", "decompose", "strip_accents", "lowercase", "charsmap")

Aligned = tuple[str, list[int]]
"""Text made from another text, and the index in that text of each character's origin."""

WORDS = re.compile(f"{SPACE}[^{SPACE}]*")


def replace_quotes(text: str) -> Aligned:
    """Replace `` and '' by a double quote."""
    parts = []
    origins = []
    end = 0
    # The library replaces one kind, then the other; in one pass the result is the same.
    for match in re.finditer("``|''", text):
        parts += [text[end : match.start()], '"']
        origins += [*range(end, match.start()), match.end() - 1]
        end = match.end()
    return "".join([*parts, text[end:]]), [*origins, *range(end, len(text))]


def decompose_text(text: str) -> Aligned:
    """Apply the compatibility decomposition (NFKD), with marks in canonical order."""
    if text.isascii():
        return text, list(range(len(text)))
    images = []
    origins = []
    reached = -1
    for part, is_first in decompose_sorted(text, decompose_compatibly):
        reached += is_first
        images.append(part)
        origins.append(max(reached, 0))
    return "".join(images), origins


def strip_accents(text: str) -> Aligned:
    """Remove marks of every kind."""
    if text.isascii():
        return text, list(range(len(text)))
    marks = code_ranges("MARK")
    origins = [index for index, char in enumerate(text) if char not in marks]
    return "".join(map(text.__getitem__, origins)), origins


def lowercase(text: str) -> Aligned:
    letters = lowercase_letters()
    images = [letters.get(char, char) for char in text]
    return "".join(images), [index for index, image in enumerate(images) for _ in image]


class UnigramNormalizer:
    """Normalization of a text before it is cut into words.

    Args:
        steps: names of the steps, in order.
        charsmap: table of the step "charsmap"; if it is empty, the step does nothing.
    """

    def __init__(self, steps: Sequence[Step], charsmap: bytes) -> None:
        functions: dict[str, Callable[[str], Aligned]] = {
            "quotes": replace_quotes,
            "decompose": decompose_text,
            "strip_accents": strip_accents,
            "lowercase": lowercase,
        }
        if charsmap:
            functions["charsmap"] = CharacterMap(charsmap).align
        self._steps = [functions[step] for step in steps if step in functions]
        self._lowers = "lowercase" in steps
        self._is_plain = self._plain_pattern().fullmatch

    def _plain_pattern(self) -> re.Pattern[str]:
        """Compile a pattern that matches text which no step but lowercasing changes."""
        plain = [
            char
            for char in map(chr, range(0x21, 0x7F))
            if char not in "`'" and self._apply(char) == (char.lower() if self._lowers else char)
        ]
        return re.compile(f"[{re.escape(''.join(plain))}]+" if plain else "(?!)")

    def normalize(self, text: str) -> str:
        if self._is_plain(text):
            return text.lower() if self._lowers else text
        return self._apply(text)

    def _apply(self, text: str) -> str:
        for step in self._steps:
            text = step(text)[0]
        return text

    def align(self, text: str) -> Aligned:
        """Normalize text; also return the index in `text` of each character's origin."""
        origins = list(range(len(text)))
        for step in self._steps:
            text, step_origins = step(text)
            origins = [origins[index] for index in step_origins]
        return text, origins

    def words(self, text: str) -> list[str]:
        """Split text into normalized words, each with `▁` before it."""
        normalized = self.normalize(without_surrogates(text))
        return [word for run in spaces().findall(normalized) for word in split_marks(run)]


def split_marks(word: str) -> list[str]:
    """Split a word before each `▁`, adding one in front if missing.

    >>> split_marks("a▁b")
    ['▁a', '▁b']
    """
    return WORDS.findall(word if word.startswith(SPACE) else SPACE + word)


@cache
def spaces() -> re.Pattern[str]:
    """Compile a pattern that matches runs of text without white space."""
    return re.compile(f"[^{character_class('WHITESPACE')}]+")


@cache
def unsafe_cut() -> re.Pattern[str]:
    """Compile a pattern that matches a space which normalization may join with a neighbour."""
    joining, prepended = character_class("JOINING", "REORDERED"), character_class("PREPENDED")
    return re.compile(f" (?:[{joining}]|(?<=[{prepended}] ))")


class Unigram:
    """Unigram model, which cuts words into their likeliest tokens (Kudo 2018, section 3.2).

    Args:
        pieces: the tokens, by id.
        scores: the log probability of each, in nats.
        unk_id: the id given to a run of characters without a token.
    """

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], unk_id: int) -> None:
        self._known = {
            piece: (id_, score)
            for id_, (piece, score) in enumerate(zip(pieces, scores, strict=True))
        }
        self._prefixes = {piece[:end] for piece in pieces for end in range(1, len(piece) + 1)}
        self._unk_id = unk_id
        self._unknown_score = min(scores, default=0.0) - UNKNOWN_PENALTY

    def cut(self, word: str) -> list[PieceAt]:
        """Cut a word into tokens; neighbouring unknown characters become one token."""
        best = self._best_ends(word)
        pieces: list[PieceAt] = []
        end = len(word)
        while end:
            _, start, id_ = best[end]
            if id_ == self._unk_id and pieces and pieces[-1].id == id_:
                pieces[-1] = PieceAt(id_, word[start : pieces[-1].end], start, pieces[-1].end)
            else:
                pieces.append(PieceAt(id_, word[start:end], start, end))
            end = start
        return pieces[::-1]

    def _best_ends(self, word: str) -> list[tuple[float, int, int]]:
        """Return for each end in the word the highest sum, and the last token's start and id."""
        size = len(word)
        pieces = self._known
        prefixes = self._prefixes
        best = [(-np.inf, 0, 0)] * (size + 1)
        best[0] = (0.0, 0, 0)
        for start in range(size):
            before = best[start][0]
            for end in range(start + 1, size + 1):
                piece = word[start:end]
                if piece not in prefixes:
                    break
                if entry := pieces.get(piece):
                    score = entry[1] + before
                    if score > best[end][0]:
                        best[end] = (score, start, entry[0])
            if word[start] not in pieces:
                score = self._unknown_score + before
                if score > best[start + 1][0]:
                    best[start + 1] = (score, start, self._unk_id)
        return best


class UnigramTokenizer(Tokenizer):
    """ALBERT's tokenizer: [CLS] A [SEP] B [SEP] over SentencePiece's unigram tokens.

    Args:
        vocab: the tokens, by id.
        scores: the log probability of each.
        steps: normalization steps.
        charsmap: SentencePiece's table for the step of that name.
        shared: the arguments of every `Tokenizer`.

    Raises:
        ConfigError: a duplicate entry, no unknown token, or a damaged table.
    """

    default_tokens = unigram_files.DEFAULT_NAMES
    adds_special_tokens = True
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
        self._unigram = Unigram(self.vocab[: self.num_pieces], self.scores, self.unk_id)
        self._find_added_tokens(self._normalizer.normalize)
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
        for match in spaces().finditer(text):
            word_start = match.start()
            # An added ▁ has the first character's index.
            word_start -= not match.group().startswith(SPACE)
            for word in split_marks(match.group()):
                for id_, token, start, end in self._unigram.cut(word):
                    first = origins[max(word_start + start, match.start())]
                    last = origins[max(word_start + end - 1, match.start())]
                    yield PieceAt(id_, token, first, last + 1)
                word_start += len(word)

    def _encode_text(self, text: str) -> TextTokens:
        # Lone surrogates have no tokens, but offsets count them.
        clean = without_surrogates(text)
        return count_surrogates(super()._encode_text(clean), text, clean)
