"""Removal of tokens from a tokenizer of any kind.

A text all of whose tokens are kept is tokenized as before. WordPiece takes the longest match at
each place, so any of its tokens can be removed alone. Byte-level BPE merges a token from two
others, so these stay with it. A unigram model's least likely token sets the score of unknown
characters, so that token stays, too.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import ConfigError
from bertsmith.tokenization.byte_bpe import BYTE_CHARACTERS, ByteBpeTokenizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

Flags = NDArray[np.bool_]


def trim_tokenizer(tokenizer: Tokenizer, ids: Collection[int]) -> Tokenizer:
    """Return the tokenizer with only the tokens `ids`, renumbered in their order.

    Raises:
        ConfigError: a special or added token or a byte is not among `ids`, or an id is repeated or
            beyond the vocabulary.
    """
    kept_ids = sorted(ids)
    if not kept_ids:
        raise ConfigError("ids: found none. Keep at least the special tokens.")
    is_distinct = len(set(kept_ids)) == len(kept_ids)
    if not is_distinct or not 0 <= kept_ids[0] <= kept_ids[-1] < tokenizer.vocab_size:
        raise ConfigError(
            f"ids: found {len(kept_ids):,} from {kept_ids[0]} to {kept_ids[-1]:,}; allowed are "
            f"ids 0 to {tokenizer.vocab_size - 1:,}, each once."
        )
    kept_pieces = [id_ for id_ in kept_ids if id_ < tokenizer.num_pieces]
    pieces = [tokenizer.vocab[id_] for id_ in kept_pieces]
    smaller: Tokenizer
    match tokenizer:
        case ByteBpeTokenizer():
            vocabulary = set(pieces)
            merges = [pair for pair in tokenizer.merges if {*pair, "".join(pair)} <= vocabulary]
            smaller = ByteBpeTokenizer(pieces, merges, **tokenizer.settings())
        case UnigramTokenizer():
            scores = [tokenizer.scores[id_] for id_ in kept_pieces]
            smaller = UnigramTokenizer(pieces, scores, **tokenizer.settings())
        case _:
            smaller = WordPieceTokenizer(pieces, **tokenizer.settings())
    kept_tokens = [tokenizer.vocab[id_] for id_ in kept_ids]
    if smaller.vocab != kept_tokens:
        lost = sorted({token.content for token in tokenizer.added_tokens} - set(kept_tokens))
        raise ConfigError(f"ids: lack the added token {lost[0]!r}. Keep all added tokens.")
    return smaller


def with_required(tokenizer: Tokenizer, is_kept: Flags) -> Flags:
    """Add special and added tokens, and tokens that kept ones are made of; bool `[vocab_size]`.

    Args:
        is_kept: tokens to keep, bool `[vocab_size]`; not modified.
    """
    added = {token.content for token in tokenizer.added_tokens}
    needed = added | {tokenizer.vocab[id_] for id_ in tokenizer.special_ids}
    match tokenizer:
        case ByteBpeTokenizer():
            ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
            pieces = {tokenizer.vocab[id_] for id_ in np.flatnonzero(is_kept)} - added
            needed.update(BYTE_CHARACTERS, *(iter_merges(piece, ranks) for piece in pieces))
        case UnigramTokenizer():
            needed.add(tokenizer.vocab[int(np.argmin(tokenizer.scores))])
    return is_kept | np.array([token in needed for token in tokenizer.vocab])


def iter_merges(piece: str, ranks: dict[tuple[str, str], int]) -> Iterator[str]:
    """Yield the tokens that byte-level BPE merges on its way to `piece`.

    The last of them is `piece` itself. `ranks` has the rank of each merge, by its pair of tokens.

    >>> ranks = {("a", "b"): 0, ("ab", "c"): 1}
    >>> list(iter_merges("abc", ranks))
    ['ab', 'abc']
    """
    symbols = list(piece)
    while mergeable := [pair for pair in pairwise(symbols) if pair in ranks]:
        best = min(mergeable, key=ranks.__getitem__)
        index = list(pairwise(symbols)).index(best)
        symbols[index : index + 2] = ["".join(best)]
        yield symbols[index]


def single_characters(tokenizer: Tokenizer) -> Flags:
    """Find the tokens of one character, bool `[vocab_size]`.

    If these are kept, words of known characters can always be cut. (Byte-level BPE keeps its bytes
    in any case.)
    """
    prefix = tokenizer.continuing_subword_prefix
    pieces = tokenizer.vocab[: tokenizer.num_pieces]
    flags = np.zeros(tokenizer.vocab_size, dtype=bool)
    flags[: len(pieces)] = [len(piece.removeprefix(prefix)) == 1 for piece in pieces]
    return flags
