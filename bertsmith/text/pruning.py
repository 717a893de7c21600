"""Pieces and words → the pieces that pay: those that encoding uses least make room.

Merging builds long pieces from short ones, and many of the short ones are never used again:
encoding takes the longest match, which finds 'river' and passes over the 'rive' on its way.
Learning some more pieces than asked for and dropping the least used leaves as many that work.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from bertsmith.text.wordpiece import WordPiece

# What a dropped piece covered falls to others, so use is counted anew after each part.
ROUNDS = 4


def drop_least_used(
    pieces: Sequence[str], num_fixed: int, words: Mapping[str, int], size: int
) -> list[str]:
    """Drop pieces until `size` are left; of equally used ones, those learnt last.

    Args:
        pieces: in order of learning; the first `num_fixed` are never dropped.
        words: the words to encode, with their counts.
    """
    kept = list(pieces)
    for rounds_left in range(ROUNDS, 0, -1):
        num_dropped = -(-max(len(kept) - size, 0) // rounds_left)
        if num_dropped:
            use = _count_use(kept, words)
            order = sorted(range(num_fixed, len(kept)), key=lambda index: (use[index], -index))
            dropped = set(order[:num_dropped])
            kept = [piece for index, piece in enumerate(kept) if index not in dropped]
    return kept


def _count_use(pieces: Sequence[str], words: Mapping[str, int]) -> Counter[int]:
    """How often each piece, by index, occurs when the words are encoded."""
    wordpiece = WordPiece(pieces, unk_id=-1, max_chars=max(map(len, words), default=0))
    use: Counter[int] = Counter()
    for word, count in words.items():
        for index in wordpiece.ids(word):
            use[index] += count
    return use
