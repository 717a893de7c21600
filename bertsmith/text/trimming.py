"""Fewer pieces: a tokenizer of any kind and the ids to keep in, one without the others out.

A text all of whose tokens are kept is cut as before. WordPiece takes the longest piece at each
place, and its pieces stand by themselves. Byte-level BPE makes a piece of two others, so with a
piece stay all on the way to it. Of a unigram model's pieces the least likely one says how unlikely
unknown characters are, so it stays.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import ConfigError
from bertsmith.text.byte_bpe import BYTE_CHARACTERS, ByteBpeTokenizer
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.text.unigram import UnigramTokenizer
from bertsmith.text.wordpiece import WordPieceTokenizer

Flags = NDArray[np.bool_]


def trim_tokenizer(tokenizer: Tokenizer, ids: Collection[int]) -> Tokenizer:
    """The same tokenizer with the tokens `ids` alone, numbered anew in their order.

    Raises:
        ConfigError: a special or added token or a byte is not among `ids`, or an id is not the
            tokenizer's.
    """
    kept = sorted(ids)
    if len(set(kept)) != len(kept) or not 0 <= kept[0] <= kept[-1] < tokenizer.vocab_size:
        raise ConfigError(
            f"ids: found {len(kept):,} from {kept[0]} to {kept[-1]:,}; allowed are ids 0 to "
            f"{tokenizer.vocab_size - 1:,}, each once."
        )
    kept_pieces = [id_ for id_ in kept if id_ < tokenizer.num_pieces]
    pieces = [tokenizer.vocab[id_] for id_ in kept_pieces]
    smaller: Tokenizer
    match tokenizer:
        case ByteBpeTokenizer():
            known = set(pieces)
            merges = [pair for pair in tokenizer.merges if {*pair, "".join(pair)} <= known]
            smaller = ByteBpeTokenizer(pieces, merges, **tokenizer.settings())
        case UnigramTokenizer():
            scores = [tokenizer.scores[id_] for id_ in kept_pieces]
            smaller = UnigramTokenizer(pieces, scores, **tokenizer.settings())
        case _:
            smaller = WordPieceTokenizer(pieces, **tokenizer.settings())
    if smaller.vocab != [tokenizer.vocab[id_] for id_ in kept]:
        lost = sorted({token.content for token in tokenizer.added_tokens} - set(pieces))
        raise ConfigError(f"ids: lack the added token {lost[0]!r}. Keep all added tokens.")
    return smaller


def with_what_they_need(tokenizer: Tokenizer, kept: Flags) -> Flags:
    """The tokens to keep (bool `[vocabulary]`) and those without which they would not be found."""
    added = {token.content for token in tokenizer.added_tokens}
    needed = added | {tokenizer.vocab[id_] for id_ in tokenizer.special_ids}
    match tokenizer:
        case ByteBpeTokenizer():
            ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
            pieces = {tokenizer.vocab[id_] for id_ in np.flatnonzero(kept)} - added
            needed.update(BYTE_CHARACTERS, *(on_the_way(piece, ranks) for piece in pieces))
        case UnigramTokenizer():
            needed.add(tokenizer.vocab[int(np.argmin(tokenizer.scores))])
        case _:
            pass
    flags: Flags = kept | np.array([token in needed for token in tokenizer.vocab])
    return flags


def on_the_way(piece: str, ranks: dict[tuple[str, str], int]) -> Iterator[str]:
    """All pieces that byte-level BPE makes of the bytes of a piece, itself among them.

    >>> ranks = {("a", "b"): 0, ("ab", "c"): 1}
    >>> list(on_the_way("abc", ranks))
    ['ab', 'abc']
    """
    symbols = list(piece)
    while found := [pair for pair in pairwise(symbols) if pair in ranks]:
        best = min(found, key=ranks.__getitem__)
        place = list(pairwise(symbols)).index(best)
        symbols[place : place + 2] = ["".join(best)]
        yield symbols[place]


def single_characters(tokenizer: Tokenizer) -> Flags:
    """The pieces of one character, bool `[vocabulary]`: with them words of known characters can
    always be cut. (Byte-level BPE always has its bytes.)"""
    prefix = tokenizer.continuing_prefix
    pieces = tokenizer.vocab[: tokenizer.num_pieces]
    flags = np.zeros(tokenizer.vocab_size, dtype=bool)
    flags[: len(pieces)] = [len(piece.removeprefix(prefix)) == 1 for piece in pieces]
    return flags
