"""Unigram tokenizer of SentencePiece, ALBERT's.

Each token has a log probability; of all ways to cut a word the one of the highest sum is taken
(Kudo 2018, section 3.2; found by Viterbi's algorithm). A space is written `▁` and belongs to the
word behind it. Ids, tokens and offsets equal those of the `tokenizers` library (Unigram,
WhitespaceSplit, Metaspace, and ALBERT's normalizers), except for a text that begins with characters
that the charsmap removes: there the library's offsets are off by what was removed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import ConfigError
from bertsmith.tokenization import unigram_files
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.byte_bpe import SURROGATES, without_surrogates
from bertsmith.tokenization.charsmap import CharacterMap, character_class
from bertsmith.tokenization.normalize import (
    code_ranges,
    combining_class,
    decompose_compatibly,
    lowercase_letters,
    sort_marks,
)
from bertsmith.tokenization.tokenizer import (
    Memory,
    TextTokens,
    Tokenizer,
    is_word_start,
    own_added_tokens,
)
from bertsmith.tokenization.tokenizer_files import Source

SPACE = "▁"
UNKNOWN_PENALTY = 10.0
"""Log-probability gap between the least likely token and an unknown character."""

Step = Literal["quotes", "decompose", "strip_accents", "lowercase", "charsmap"]
ALBERT_STEPS: tuple[Step, ...] = ("quotes", "decompose", "strip_accents", "lowercase", "charsmap")

Aligned = tuple[str, list[int]]
"""Text made from another, and the place there of each character's origin."""

WORDS = re.compile(f"{SPACE}[^{SPACE}]*")


class PieceAt(NamedTuple):
    """Token of a text: id, spelling, first character, one past the last."""

    id: int
    token: str
    start: int
    end: int


def replace_quotes(text: str) -> Aligned:
    """Replace `` and '' by a double quote."""
    parts, places, end = [], [], 0
    # The library replaces one kind, then the other; neither makes anything of the other.
    for match in re.finditer("``|''", text):
        parts += [text[end : match.start()], '"']
        places += [*range(end, match.start()), match.end() - 1]
        end = match.end()
    return "".join([*parts, text[end:]]), [*places, *range(end, len(text))]


def decompose(text: str) -> Aligned:
    """Apply the compatibility decomposition (NFKD), with marks in canonical order."""
    if text.isascii():
        return text, list(range(len(text)))
    parts = [
        (combining_class(part), part, number == 0)
        for char in text
        for number, part in enumerate(decompose_compatibly(char))
    ]
    images, places, reached = [], [], -1
    for _, part, is_first in sort_marks(parts):
        reached += is_first
        images.append(part)
        places.append(max(reached, 0))
    return "".join(images), places


def strip_accents(text: str) -> Aligned:
    """Remove marks of every kind."""
    if text.isascii():
        return text, list(range(len(text)))
    marks = code_ranges("MARK")
    kept = [place for place, char in enumerate(text) if char not in marks]
    return "".join(map(text.__getitem__, kept)), kept


def lowercase(text: str) -> Aligned:
    letters = lowercase_letters()
    images = [letters.get(char, char) for char in text]
    return "".join(images), [place for place, image in enumerate(images) for _ in image]


class UnigramNormalizer:
    """Normalization of a text before it is cut into words.

    Args:
        steps: names of the steps, in order.
        charsmap: table of the step of that name, which does nothing if it is empty.
    """

    def __init__(self, steps: Sequence[Step], charsmap: bytes) -> None:
        known: dict[str, Callable[[str], Aligned]] = {
            "quotes": replace_quotes,
            "decompose": decompose,
            "strip_accents": strip_accents,
            "lowercase": lowercase,
        }
        if charsmap:
            known["charsmap"] = CharacterMap(charsmap).align
        self._steps = [known[step] for step in steps if step in known]
        self._lowers = "lowercase" in steps
        self._is_plain = self._plain_pattern().fullmatch

    def _plain_pattern(self) -> re.Pattern[str]:
        """Compile a pattern of text that no step but lowercasing changes."""
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
        """Normalize text; also return the place in `text` of each character's origin."""
        origins = list(range(len(text)))
        for step in self._steps:
            text, places = step(text)
            origins = [origins[place] for place in places]
        return text, origins

    def words(self, text: str) -> list[str]:
        """Split text into normalized words, each with `▁` before it."""
        normalized = self.normalize(without_surrogates(text))
        return [word for found in spaces().findall(normalized) for word in split_marks(found)]


def split_marks(word: str) -> list[str]:
    """Split a word before each `▁`, adding one in front if missing.

    >>> split_marks("a▁b")
    ['▁a', '▁b']
    """
    return WORDS.findall(word if word.startswith(SPACE) else SPACE + word)


@cache
def spaces() -> re.Pattern[str]:
    """Compile a pattern of text between white space."""
    return re.compile(f"[^{character_class('WHITESPACE')}]+")


@cache
def unsafe_cut() -> re.Pattern[str]:
    """Compile a pattern of spaces that normalization may join with a neighbour."""
    joining, prepended = character_class("JOINING", "REORDERED"), character_class("PREPENDED")
    return re.compile(f" (?:[{joining}]|(?<=[{prepended}] ))")


class Unigram:
    """Unigram model, which cuts words into their likeliest tokens.

    Args:
        pieces: the tokens, by id.
        scores: the log probability of each.
        unk_id: id of a run of characters without a token.
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
        """Cut a word into tokens; neighbouring unknown characters are one."""
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
        """Return, per end, the highest sum and the last token's start and id."""
        size, known, prefixes = len(word), self._known, self._prefixes
        best = [(-np.inf, 0, 0)] * (size + 1)
        best[0] = (0.0, 0, 0)
        for start in range(size):
            before = best[start][0]
            for end in range(start + 1, size + 1):
                piece = word[start:end]
                if piece not in prefixes:
                    break
                if found := known.get(piece):
                    score = found[1] + before
                    if score > best[end][0]:
                        best[end] = (score, start, found[0])
            if word[start] not in known:
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
        added_tokens: tokens to find in the raw text; those that `vocab` lacks get the next ids.
            None means the five special tokens, [MASK] taking the space before it.

    Raises:
        ConfigError: a duplicate entry, no unknown token, or a damaged table.
    """

    def __init__(
        self,
        vocab: Sequence[str],
        scores: Sequence[float],
        *,
        steps: Sequence[Step] = ALBERT_STEPS,
        charsmap: bytes = b"",
        model_max_length: int = 512,
        cls_token: str = "[CLS]",
        sep_token: str = "[SEP]",
        pad_token: str = "<pad>",
        unk_token: str = "<unk>",
        mask_token: str = "[MASK]",
        added_tokens: Sequence[AddedToken] | None = None,
    ) -> None:
        if added_tokens is None:
            names = (cls_token, sep_token, unk_token, pad_token)
            added_tokens = own_added_tokens(*names, mask=mask_token)
        super().__init__(
            vocab,
            special_tokens={
                "cls_token": cls_token,
                "sep_token": sep_token,
                "unk_token": unk_token,
                "pad_token": pad_token,
                "mask_token": mask_token,
            },
            added_tokens=added_tokens,
            model_max_length=model_max_length,
        )
        if self.unk_id >= self.num_pieces:
            raise ConfigError(
                f"the vocabulary lacks {unk_token}, the unknown token. Name another one in "
                "tokenizer_config.json, or get the file again."
            )
        self.scores = tuple(scores)
        # Without a table the step does nothing, and no file can say that it is there.
        self.steps = tuple(step for step in steps if charsmap or step != "charsmap")
        self.charsmap = charsmap
        self._normalizer = UnigramNormalizer(self.steps, charsmap)
        self._unigram = Unigram(self.vocab[: self.num_pieces], self.scores, self.unk_id)
        self._find_added_tokens(self._normalizer.normalize)
        self._cuts_at_spaces = self._normalizer.normalize(" ") == " "
        self._unit_ids = Memory(self._compute_ids)
        self._unit_pieces = Memory(self._locate_pieces)

    @classmethod
    def read(cls, source: Source) -> "UnigramTokenizer":
        """Read a tokenizer.json or a spiece.model."""
        vocab, scores, settings = unigram_files.read(source)
        return cls(vocab, scores, **settings)

    def save(self, directory: str | Path) -> None:
        """Write tokenizer.json and tokenizer_config.json."""
        pieces = list(zip(self.vocab, self.scores, strict=False))
        unigram_files.write(Path(directory), pieces, self._ids, self.settings())

    def settings(self) -> dict[str, Any]:
        return {"steps": self.steps, "charsmap": self.charsmap, **self._shared_settings()}

    def _vocabulary(self) -> tuple[Any, ...]:
        return self.vocab[: self.num_pieces], self.scores

    def _identity(self) -> list[Any]:
        *first, settings = super()._identity()
        return [*first, settings | {"charsmap": self.charsmap.hex()}]

    @cached_property
    def continues_word(self) -> NDArray[np.bool_]:
        """Mask of tokens that continue the word before them, bool `[vocab_size]`.

        They begin with neither `▁` nor punctuation nor a Chinese character.
        """
        added = {token.content for token in self.added_tokens}
        return np.array(
            [
                not (token in added or token.startswith(SPACE) or is_word_start(token))
                for token in self.vocab
            ]
        )

    def encode_ids(self, text: str) -> list[int]:
        if self._normalized_tokens:
            return self._encode_text(text).ids
        text = without_surrogates(text)
        ids: list[int] = []
        for piece in self._raw_tokens.pieces(text):
            if piece.id is None:
                units = self._units(text[piece.start : piece.stop])
                ids += chain.from_iterable(map(self._unit_ids.__getitem__, units))
            else:
                ids.append(piece.id)
        return ids

    def other_cuts(self, old: Tokenizer) -> str | None:
        """Describe a changed score, or one below all of `old`, or None."""
        assert isinstance(old, UnigramTokenizer)
        for id_, (before, after) in enumerate(zip(old.scores, self.scores, strict=False)):
            if before != after:
                return f"the score of id {id_:,} is {after}, and {before} there"
        if min(self.scores) < min(old.scores):
            return f"its least score is {min(self.scores)}, and {min(old.scores)} there"
        return None

    def words(self, text: str) -> list[str]:
        """Split text into normalized words, each with `▁` before it."""
        return self._normalizer.words(text)

    def word_ids(self, word: str) -> list[int]:
        """Encode a word, as `words` gives it, or a part of one."""
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

    def _locate_pieces(self, unit: str) -> tuple[PieceAt, ...]:
        return tuple(self._locate_normalized(*self._normalizer.align(unit)))

    def _locate_normalized(self, normalized: str, origins: Sequence[int]) -> Iterator[PieceAt]:
        """Yield the tokens of normalized text, placed in its original."""
        for match in spaces().finditer(normalized):
            place = match.start()
            # An added ▁ shares the first character's place.
            place -= not match.group().startswith(SPACE)
            for word in split_marks(match.group()):
                for id_, token, start, end in self._unigram.cut(word):
                    first = origins[max(place + start, match.start())]
                    last = origins[max(place + end - 1, match.start())]
                    yield PieceAt(id_, token, first, last + 1)
                place += len(word)

    def _encode_text(self, text: str) -> TextTokens:
        # Lone surrogates have no tokens, but offsets count them.
        clean = without_surrogates(text)
        result = super()._encode_text(clean)
        if len(clean) < len(text):
            origins = [place for place, char in enumerate(text) if not SURROGATES.match(char)]
            result.offsets = [
                (origins[start], origins[end - 1] + 1) for start, end in result.offsets
            ]
        return result

    def _encode_ordinary(self, text: str, position: int, result: TextTokens) -> None:
        for unit in self._units(text):
            for id_, token, start, end in self._unit_pieces[unit]:
                result.append(id_, token, (position + start, position + end))
            position += len(unit) + 1

    def _encode_normalized(self, text: str, position: int, result: TextTokens) -> None:
        normalized, origins = self._normalizer.align(text)
        for piece in self._normalized_tokens.pieces(normalized):
            part = slice(piece.start, piece.stop)
            if piece.id is not None:
                start, end = origins[piece.start], origins[piece.stop - 1] + 1
                result.append(piece.id, normalized[part], (position + start, position + end))
                continue
            for id_, token, start, end in self._locate_normalized(normalized[part], origins[part]):
                result.append(id_, token, (position + start, position + end))
