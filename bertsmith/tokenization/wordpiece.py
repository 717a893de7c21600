"""WordPiece tokenizer, BERT's.

Ids, type ids, tokens and offsets equal those of the `tokenizers` library (BertNormalizer,
BertPreTokenizer, WordPiece, TemplateProcessing). For speed, text is cut into units that cannot
influence each other (`normalize.unit_pattern`), whose ids are computed once and cached. Many texts
at once are cut and looked up by numpy (`bulk_encoding`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import ConfigError
from bertsmith.tokenization import wordpiece_files
from bertsmith.tokenization.bulk_encoding import BulkEncoder
from bertsmith.tokenization.chunk_table import MAX_CHUNK_BYTES, MAX_KEYS
from bertsmith.tokenization.normalize import Normalizer, locate_words, unit_pattern
from bertsmith.tokenization.piece_cutting import PieceCutter
from bertsmith.tokenization.tokenizer import PieceAt, Tokenizer, joined_rows

CONTINUING_PREFIX = "##"
# In text for the bulk encoder, an added token is written as this byte, which UTF-8 never has, and
# its id in digits.
TOKEN_MARK = b"\xff"
# For texts of at least this many characters numpy is faster than cached units one by one.
LONG_TEXT = 1000


class WordPiece:
    """Vocabulary that cuts words into longest matches, from left to right.

    BERT's released code does the same (`WordpieceTokenizer`). A word that cannot be cut, or has
    more than `max_chars` characters, is unknown as a whole.
    """

    def __init__(self, vocab: Sequence[str], unk_id: int, max_chars: int) -> None:
        self._unknown = (unk_id,)
        self._max_chars = max_chars
        self._starts = {piece: id_ for id_, piece in enumerate(vocab)}
        self._continuations = {
            piece.removeprefix(CONTINUING_PREFIX): id_
            for piece, id_ in self._starts.items()
            if piece.startswith(CONTINUING_PREFIX)
        }
        self._longest_start = max(map(len, self._starts)) or 1
        self._longest_continuation = max(map(len, self._continuations), default=0) or 1

    def cutter(self) -> PieceCutter | None:
        """Build a cutter of many words at once, if it is exact.

        The result is None if `max_chars` is below `MAX_CHUNK_BYTES`, or there are more than
        `MAX_KEYS` tokens.
        """
        if self._max_chars < MAX_CHUNK_BYTES or len(self._starts) > MAX_KEYS:
            return None
        return PieceCutter(self._starts, self._continuations)

    def ids(self, word: str) -> tuple[int, ...]:
        """Encode a word to its token ids, at least one."""
        size = len(word)
        if size > self._max_chars:
            return self._unknown
        find = self._starts.get
        longest = self._longest_start
        start = 0
        ids = []
        while start < size:
            # The longest match, among prefixes of the rest no longer than the longest token
            end = start + longest if longest < size - start else size
            while (id_ := find(word[start:end])) is None:
                end -= 1
                if end == start:
                    return self._unknown
            ids.append(id_)
            find = self._continuations.get
            longest = self._longest_continuation
            start = end
        return tuple(ids)


class WordPieceTokenizer(Tokenizer):
    """BERT's tokenizer: [CLS] A [SEP] B [SEP] over WordPiece tokens.

    Args:
        vocab: the tokens, by id; those that continue a word begin with ##.
        lowercase: lower the case of the text, as uncased models do.
        strip_accents: drop accents; None means the value of `lowercase`.
        tokenize_chinese_chars: make every Chinese character a word of its own.
        decoder_cleanup: `decode` removes the space before English punctuation.
        max_input_chars_per_word: a longer word becomes [UNK].
        shared: the arguments of every `Tokenizer`.

    Raises:
        ConfigError: an empty vocabulary, a duplicate entry, or a missing special token.
    """

    default_tokens: ClassVar[Mapping[str, str]] = {
        f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")
    }
    continuing_subword_prefix = CONTINUING_PREFIX
    own_settings = (
        "lowercase",
        "strip_accents",
        "tokenize_chinese_chars",
        "decoder_cleanup",
        "max_input_chars_per_word",
    )

    def __init__(
        self,
        vocab: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        decoder_cleanup: bool = True,
        max_input_chars_per_word: int = 100,
        **shared: Any,
    ) -> None:
        super().__init__(vocab, **shared)
        if self.unk_id >= self.num_pieces:
            raise ConfigError(
                f"the vocabulary lacks {self.unk_token}; as an added token alone it cannot stand "
                "for unknown words. Add it to the vocabulary itself."
            )
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.decoder_cleanup = decoder_cleanup
        self.max_input_chars_per_word = max_input_chars_per_word
        self._normalizer = Normalizer(lowercase, strip_accents, tokenize_chinese_chars)
        self._wordpiece = WordPiece(vocab, self.unk_id, max_input_chars_per_word)
        self._prepare_encoding(self._normalizer.normalize)
        self._find_units = unit_pattern(tokenize_chinese_chars).findall

    @property
    def lowers_case(self) -> bool:
        return self.lowercase

    def save(self, directory: str | Path) -> None:
        """Write vocab.txt, tokenizer.json and tokenizer_config.json."""
        wordpiece_files.write_wordpiece(
            Path(directory), self.vocab[: self.num_pieces], self._ids, self.settings()
        )

    def _identity(self) -> list[Any]:
        """Return everything that decides ids, for the fingerprint.

        The result has another form than in the base class, without the name of the class. It stays
        so, since the fingerprints of older corpora have to stay valid.
        """
        settings = super()._identity()[-1]
        settings["strip_accents"] = self._normalizer.strips_accents
        del settings["decoder_cleanup"]  # decides no ids
        return [self.vocab, self.num_pieces, settings]

    @cached_property
    def continues_word(self) -> NDArray[np.bool_]:
        """Mask of tokens that begin with ##, bool `[vocab_size]` by id; special tokens never do."""
        flags = np.zeros(self.vocab_size, dtype=np.bool_)
        flags[: self.num_pieces] = [
            len(piece) > len(CONTINUING_PREFIX) and piece.startswith(CONTINUING_PREFIX)
            for piece in self.vocab[: self.num_pieces]
        ]
        flags[list(self.special_ids)] = False
        return flags

    def words(self, text: str) -> Iterable[str]:
        return self._normalizer.words(text)

    def word_ids(self, word: str) -> Sequence[int]:
        return self._wordpiece.ids(word)

    def encode_ids(self, text: str) -> list[int]:
        if len(text) >= LONG_TEXT:
            return list(self.encode_batch_ids([text])[0].tolist())
        return super().encode_ids(text)

    def encode_batch_ids(self, texts: Iterable[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        if not self._normalized_tokens:
            return self._bulk_encoder.encode(map(self._to_bytes, texts))
        return joined_rows(self._encode_text(text).ids for text in texts)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decode ids: tokens joined to words, words by spaces.

        Raises:
            InputError: an id outside the vocabulary.
        """
        tokens = list(self._kept_tokens(ids, skip_special_tokens))
        parts = tokens[:1] + [
            token.removeprefix(CONTINUING_PREFIX)
            if token.startswith(CONTINUING_PREFIX)
            else f" {token}"
            for token in tokens[1:]
        ]
        return "".join(map(clean_up, parts) if self.decoder_cleanup else parts)

    @cached_property
    def _bulk_encoder(self) -> BulkEncoder:
        return BulkEncoder(
            self._compute_chunk_ids, lowercase=self.lowercase, cutter=self._wordpiece.cutter()
        )

    def _to_bytes(self, text: str) -> bytes:
        """Encode text as UTF-8 for the bulk encoder.

        An added token becomes `TOKEN_MARK` and its id, with spaces around them.
        """
        if self._raw_tokens.may_be_in(text):
            return b" ".join(
                self._spaced_bytes(text[part.start : part.stop])
                if part.id is None
                else b"%b%d" % (TOKEN_MARK, part.id)
                for part in self._raw_tokens.split(text)
            )
        return self._spaced_bytes(text)

    def _spaced_bytes(self, text: str) -> bytes:
        """Encode ordinary text as UTF-8, without lone surrogates, as cleaning would do.

        Text of over 1.5 bytes per character may have few spaces, as in Chinese: units get spaces
        between them.
        """
        encoded = text.encode("utf-8", "ignore")
        if 2 * len(encoded) > 3 * len(text):
            return " ".join(self._find_units(text)).encode("utf-8", "ignore")
        return encoded

    def _compute_chunk_ids(self, chunk: bytes) -> Sequence[int]:
        """Compute the ids of a chunk of the bulk encoder: bytes of text between two cuts."""
        if chunk.isalnum():  # ASCII alone, and lowercased already: a word
            return self._wordpiece.ids(chunk.decode())
        if chunk.startswith(TOKEN_MARK):
            return (int(chunk.removeprefix(TOKEN_MARK)),)
        return self._compute_ids(chunk.decode())

    def _compute_ids(self, text: str) -> tuple[int, ...]:
        """Compute the ids of a unit or of a bulk encoder's chunk, which may have several words."""
        if text.isascii() and text.isalnum():  # a third of the time of the general way
            return self._wordpiece.ids(text.lower() if self.lowercase else text)
        return tuple(chain.from_iterable(map(self._wordpiece.ids, self._normalizer.words(text))))

    def _units(self, text: str) -> list[str]:
        return self._find_units(text)

    def _align(self, text: str) -> tuple[str, list[int]]:
        return self._normalizer.align(text)

    def _locate_normalized(self, text: str, origins: Sequence[int]) -> Iterator[PieceAt]:
        """Yield the tokens of normalized text, with offsets in the text before normalization.

        `origins` has the index there of each character of `text`.
        """
        for word, word_start in locate_words(text):
            ids = self._wordpiece.ids(word)
            start = 0  # of the piece in the word
            for id_ in ids:
                token = self.vocab[id_]
                length = len(token) - (len(CONTINUING_PREFIX) if start > 0 else 0)
                # A single piece covers the whole word, even if it is [UNK].
                end = len(word) if len(ids) == 1 else start + length
                first, last = origins[word_start + start], origins[word_start + end - 1]
                yield PieceAt(id_, token, first, last + 1)
                start = end


def clean_up(part: str) -> str:
    """Remove spaces around punctuation from a decoded token, as the `tokenizers` library does."""
    for spaced, cleaned in (
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ):
        part = part.replace(spaced, cleaned)
    return part
