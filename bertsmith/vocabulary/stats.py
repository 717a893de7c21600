"""Statistics of a tokenizer over word counts: fertility, unknown rate, vocabulary use."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertsmith.system.progress import tracked
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TokenizerStats:
    """Statistics of a tokenizer on a text, over all occurrences of words.

    Attributes:
        num_words: number of words.
        num_pieces: number of their tokens, where [UNK] counts as one.
        num_unknown: number of words with an unknown token.
        num_used: number of tokens of the vocabulary that occur, without special tokens.
        vocab_size: number of tokens of the vocabulary, without special tokens.
    """

    num_words: int
    num_pieces: int
    num_unknown: int
    num_used: int
    vocab_size: int

    @property
    def fertility(self) -> float:
        """Tokens per word, at least 1."""
        return self.num_pieces / max(self.num_words, 1)

    @property
    def unknown_rate(self) -> float:
        """Share of the words that have an unknown token."""
        return self.num_unknown / max(self.num_words, 1)

    @property
    def vocabulary_use(self) -> float:
        """Share of the vocabulary that occurs in the text."""
        return self.num_used / max(self.vocab_size, 1)


def tokenizer_stats(tokenizer: Tokenizer, counts: Mapping[str, int]) -> TokenizerStats:
    """Compute fertility, unknown rate and vocabulary use over counts of `tokenizer.words`."""
    num_pieces = num_unknown = 0
    used: set[int] = set()
    for word, count in tracked(counts.items(), "measuring the vocabulary"):
        ids = tokenizer.word_ids(word)
        num_pieces += count * len(ids)
        num_unknown += count * (tokenizer.unk_id in ids)
        used.update(ids)
    return TokenizerStats(
        num_words=sum(counts.values()),
        num_pieces=num_pieces,
        num_unknown=num_unknown,
        num_used=len(used - tokenizer.special_ids),
        vocab_size=tokenizer.vocab_size - len(tokenizer.special_ids),
    )
