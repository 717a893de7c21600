"""Pieces and words → the pieces that pay: those that encoding uses least make room.

Merging builds long pieces from short ones, and many of the short ones are never used again:
encoding takes the longest match, which finds 'river' and passes over the 'rive' on its way.
Learning some more pieces than asked for and dropping the least used leaves as many that work.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from bertsmith.text.wordpiece import WordPiece

# What a dropped piece covered falls to others, so use is counted anew after each part.
ROUNDS = 4


CountUse = Callable[[Sequence[str]], Mapping[int, int]]
"""Pieces in, how often each of them, by index, occurs when texts are encoded with them, out."""


def drop_least_used(
    pieces: Sequence[str], num_fixed: int, size: int, count_use: CountUse
) -> list[str]:
    """Drop pieces until `size` are left; of equally used ones, those learnt last.

    Args:
        pieces: in order of learning; the first `num_fixed` are never dropped.
        count_use: gives 0, or nothing, for pieces that are not used.
    """
    kept = list(pieces)
    for rounds_left in range(ROUNDS, 0, -1):
        num_dropped = -(-max(len(kept) - size, 0) // rounds_left)
        if num_dropped:
            use = count_use(kept)
            order = sorted(
                range(num_fixed, len(kept)), key=lambda index: (use.get(index, 0), -index)
            )
            dropped = set(order[:num_dropped])
            kept = [piece for index, piece in enumerate(kept) if index not in dropped]
    return kept


def use_in_words(words: Mapping[str, int]) -> CountUse:
    """Counts the use of WordPiece's pieces in words with their counts."""

    def count(pieces: Sequence[str]) -> Counter[int]:
        wordpiece = WordPiece(pieces, unk_id=-1, max_chars=max(map(len, words), default=0))
        return count_ids(wordpiece.ids, words)

    return count


def count_ids(cut: Callable[[str], Iterable[int]], words: Mapping[str, int]) -> Counter[int]:
    """How often each id occurs in words, which `cut` divides, with their counts."""
    use: Counter[int] = Counter()
    for word, count in words.items():
        for index in cut(word):
            use[index] += count
    return use
