"""How well a vocabulary fits a text: counts of words enter, a few figures leave."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from bertsmith.text.vocabulary import MAX_WORD_LEN, SPECIAL_TOKENS
from bertsmith.text.wordpiece import WordPiece


@dataclass(frozen=True, slots=True)
class Fit:
    """How the words of a text fall into pieces.

    num_words, num_pieces, num_unknown: occurrences of words, of their pieces ([UNK] is one),
    and of words that become [UNK]. num_used of the vocab_size pieces occur; special tokens
    belong to neither.
    """

    num_words: int
    num_pieces: int
    num_unknown: int
    num_used: int
    vocab_size: int

    @property
    def fertility(self) -> float:
        """Pieces per word; 1 is the least there can be."""
        return self.num_pieces / max(self.num_words, 1)

    @property
    def unknown_rate(self) -> float:
        """Share of the words that become [UNK]."""
        return self.num_unknown / max(self.num_words, 1)

    @property
    def vocabulary_use(self) -> float:
        """Share of the pieces that occur in the text."""
        return self.num_used / max(self.vocab_size, 1)


def measure_fit(
    vocab: Sequence[str],
    counts: Mapping[str, int],
) -> Fit:
    """Cut each distinct word once, by longest match as in encoding, and weigh it with its count.

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
    """The same for whatever cuts words into the ids of their pieces."""
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
