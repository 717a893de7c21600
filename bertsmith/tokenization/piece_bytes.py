"""Spelling of the pieces (tokens) of a vocabulary as bytes, in UTF-8."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bertsmith.tokenization.byte_bpe import CHARACTER_BYTES, ByteBpeTokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.unigram_normalizer import SPACE


def bytes_of_pieces(tokenizer: Tokenizer) -> Iterator[bytes]:
    """Yield the bytes of each piece, in the order of ids.

    A piece of WordPiece is spelled as in the vocabulary, with `##`. A piece of byte-level BPE or
    unigram is spelled as in the text, with its space; one of byte-level BPE may hold a part of a
    character.
    """
    added = {token.content for token in tokenizer.added_tokens}
    for piece in tokenizer.vocab:
        is_spelled_in_bytes = (
            isinstance(tokenizer, ByteBpeTokenizer)
            and piece not in added
            # A vocabulary may have entries with other characters, which no text is cut into.
            and all(character in CHARACTER_BYTES for character in piece)
        )
        if is_spelled_in_bytes:
            yield bytes(CHARACTER_BYTES[character] for character in piece)
        elif isinstance(tokenizer, UnigramTokenizer) and piece not in added:
            # `SPACE` is the ▁ that stands for a space in a piece.
            yield piece.replace(SPACE, " ").encode("utf-8", "surrogatepass")
        else:
            yield piece.encode("utf-8", "surrogatepass")


def continuation_bytes(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Count in each piece the bytes that are not the first of a character, int64 `[vocab_size]`.

    In UTF-8 these are the bytes whose two highest bits are 10.
    """
    counts = [
        sum(byte & 0b1100_0000 == 0b1000_0000 for byte in spelled)
        for spelled in bytes_of_pieces(tokenizer)
    ]
    return np.array(counts, dtype=np.int64)
