"""Pruning of a learned vocabulary: drops the least used tokens.

Merging builds long tokens from short ones, and many of the short ones are never used again.
'river', for example, was merged from 'rive' and '##r'. Encoding takes the longest match, so that
'rive' is hardly used.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from bertsmith.tokenization.wordpiece import WordPiece

ROUNDS = 4
"""Number of rounds in which tokens are dropped. The text of a dropped token is then cut into other
tokens, so each round counts anew how often each token is used."""
SURPLUS = 0.2
"""Share of extra tokens: with 0.2, 1,200 tokens are learned where 1,000 are asked for, and the 200
that the words use least are dropped."""

CountUse = Callable[[Sequence[str]], Mapping[int, int]]
"""A function that gets tokens, and returns how often each occurs in texts that are encoded with
them, by the token's index."""


def drop_least_used(
    pieces: Sequence[str], num_fixed: int, size: int, count_use: CountUse
) -> list[str]:
    """Drop the least used tokens until `size` are left.

    Of equally used tokens those learned last are dropped.

    Args:
        pieces: the tokens in order of learning; the first `num_fixed` of them are never dropped.
        count_use: gives 0, or nothing, for tokens that are not used.
    """
    remaining = list(pieces)
    for rounds_left in range(ROUNDS, 0, -1):
        # An equal share of the surplus for each round that is left, rounded up.
        num_dropped = math.ceil(max(len(remaining) - size, 0) / rounds_left)
        if num_dropped:
            use = count_use(remaining)
            order = sorted(
                range(num_fixed, len(remaining)), key=lambda index: (use.get(index, 0), -index)
            )
            dropped = set(order[:num_dropped])
            remaining = [piece for index, piece in enumerate(remaining) if index not in dropped]
    return remaining


def use_in_words(words: Mapping[str, int]) -> CountUse:
    """Build the `CountUse` of WordPiece's tokens in words, which are given with their counts."""

    def count(pieces: Sequence[str]) -> Counter[int]:
        # -1 is no token's index: words that cannot be cut count for none.
        wordpiece = WordPiece(pieces, unk_id=-1, max_chars=max(map(len, words), default=0))
        return count_ids(wordpiece.ids, words)

    return count


def count_ids(cut: Callable[[str], Iterable[int]], words: Mapping[str, int]) -> Counter[int]:
    """Count each id in words; `cut` encodes a word, and `words` has the counts of the words."""
    use: Counter[int] = Counter()
    for word, count in words.items():
        for index in cut(word):
            use[index] += count
    return use
