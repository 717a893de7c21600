"""Tokenizer statistics over word counts: fertility, unknown rate, vocabulary use."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from bertsmith.tokenization.wordpiece import WordPiece
from bertsmith.vocabulary.wordpiece import MAX_WORD_LEN, SPECIAL_TOKENS


@dataclass(frozen=True, slots=True)
class Fit:
    """Statistics of a tokenizer on a text, over all occurrences of words.

    num_words, num_pieces, num_unknown: occurrences of words, of their tokens ([UNK] is one), and of
    words that become [UNK]. num_used of the vocab_size tokens occur; special tokens belong to
    neither.
    """

    num_words: int
    num_pieces: int
    num_unknown: int
    num_used: int
    vocab_size: int

    @property
    def fertility(self) -> float:
        """Tokens per word; 1 is the least there can be."""
        return self.num_pieces / max(self.num_words, 1)

    @property
    def unknown_rate(self) -> float:
        """Share of the words that become [UNK]."""
        return self.num_unknown / max(self.num_words, 1)

    @property
    def vocabulary_use(self) -> float:
        """Share of the vocabulary that occurs in the text."""
        return self.num_used / max(self.vocab_size, 1)


def measure_fit(
    vocab: Sequence[str],
    counts: Mapping[str, int],
) -> Fit:
    """Compute the statistics of a WordPiece vocabulary over word counts.

    Args:
        vocab: a vocabulary with the special tokens.
        counts: words as the tokenizer splits them.
    """
    special_ids = {vocab.index(token) for token in SPECIAL_TOKENS}
    unk_id = vocab.index("[UNK]")
    cut = WordPiece(vocab, unk_id, MAX_WORD_LEN).ids
    return measure_cuts(cut, counts, len(vocab), unk_id, special_ids)


def measure_cuts(
    cut: Callable[[str], Sequence[int]],
    counts: Mapping[str, int],
    vocab_size: int,
    unk_id: int,
    special_ids: Collection[int],
) -> Fit:
    """Compute the statistics of any tokenizer over word counts.

    Args:
        cut: encodes a word; called once for each distinct word.
        counts: words as the tokenizer splits them.
    """
    num_pieces = num_unknown = 0
    used: set[int] = set()
    for word, count in counts.items():
        ids = cut(word)
        num_pieces += count * len(ids)
        num_unknown += count * (unk_id in ids)
        used.update(ids)
    return Fit(
        num_words=sum(counts.values()),
        num_pieces=num_pieces,
        num_unknown=num_unknown,
        num_used=len(used.difference(special_ids)),
        vocab_size=vocab_size - len(special_ids),
    )
