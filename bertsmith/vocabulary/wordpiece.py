"""Learning of a WordPiece vocabulary from counts of words.

Starting from single characters, the pair of neighbouring tokens with the highest score is merged
until the vocabulary is full (Schuster & Nakajima 2012, section 3). The score is that paper's gain
in likelihood, or the pair's frequency as in byte-pair encoding (Sennrich et al. 2016). Both scores
are computed from integers, and ties go to the pair that sorts first as text, so the result depends
on the counts alone. A surplus of tokens is learned and the least used are dropped (`pruning`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bertsmith.system.progress import progress_bar
from bertsmith.vocabulary.alphabet import check_size, choose_alphabet, single_character_pieces
from bertsmith.vocabulary.pruning import drop_least_used, use_in_words
from bertsmith.vocabulary.segmentation import (
    CONTINUATION,
    LEFT,
    RIGHT,
    Cut,
    Indices,
    Ints,
    PairTable,
    Segmentation,
    characters,
    grow_array,
)
from bertsmith.vocabulary.settings import RuleName

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_WORD_LEN = 100
"""Longest word to learn from, in characters; encoding turns longer ones into [UNK]."""

Floats = npt.NDArray[np.float64]


Rule = Callable[[Ints, Ints, Ints, int], Floats]
"""Score of pairs, higher is better. The arguments are the occurrences of the pairs, of their left
and of their right tokens, and the number of all tokens. A score must not fall when the left or
right token gets rarer or the number of all tokens grows: the search relies on this."""


def frequency_score(pair: Ints, left: Ints, right: Ints, total: int) -> Floats:
    """Return how often the pairs occur, the rule of byte-pair encoding."""
    return pair.astype(np.float64)


def likelihood_gain(pair: Ints, left: Ints, right: Ints, total: int) -> Floats:
    """Compute the gain in unigram log likelihood of merging pairs, in nats.

    A text of N tokens has the log likelihood Σ f·log(f/N) over tokens of frequency f. Merging n
    pairs makes a token of frequency n, and takes n from the frequencies f_a and f_b of both parts
    and from N. The gain is then

        n·log(n·N / (f_a·f_b)) + (f_a - n)·log((f_a - n) / f_a) + (f_b - n)·log((f_b - n) / f_b)
        - (N - n)·log((N - n) / N),

    computed by log1p, so that large frequencies do not cancel. It is not the bare ratio
    n / (f_a·f_b) that is often quoted, and which prefers pairs seen twice.

    Each merge of two equal tokens (##a ##a) takes two from one frequency. For such a pair the
    computed gain is too low, by up to 2n·log 2 nats, if its occurrences do not overlap.

    Args:
        pair: n, the occurrences of each pair; at least 1.
        left, right: f_a and f_b, the occurrences of its two tokens, the pair included.
        total: N, the number of tokens in the text.
    """
    association = pair * np.log(pair * (total / (left.astype(np.float64) * right)))
    return (
        association
        + (_shrinkage(pair, left) + _shrinkage(pair, right))
        - (total - pair) * np.log1p(-pair / total)
    )


def _shrinkage(removed: Ints, frequency: Ints) -> Floats:
    """Compute (f - n)·log((f - n) / f), which is 0 where f = n."""
    rest = frequency - removed
    share = np.where(rest > 0, removed / frequency, 0.0)
    return np.asarray(rest * np.log1p(-share))


RULES: Mapping[RuleName, Rule] = {
    "likelihood": likelihood_gain,
    "frequency": frequency_score,
}


@dataclass(frozen=True, slots=True)
class LearnedVocabulary:
    """A learned vocabulary, with the characters and words that were left out."""

    tokens: list[str]
    """Special tokens, then single characters, then merged tokens in order of learning. In a unigram
    model all tokens after the special ones are in the library's order."""
    alphabet: list[str]
    """Characters that the vocabulary covers, sorted."""
    dropped_characters: dict[str, int]
    """Characters too rare for the alphabet, with their occurrences, most frequent first."""
    skipped_words: int
    """Occurrences of words that were not learned from: too long, or with a dropped character."""
    merges: list[tuple[str, str]] = field(default_factory=list)
    """Pairs that byte-level byte-pair encoding merged, in order; empty for other kinds, a WordPiece
    vocabulary by `frequency` included."""
    scores: list[float] = field(default_factory=list)
    """Log probability of each token of a unigram model; empty for other kinds."""


def learn_wordpiece(
    counts: Mapping[str, int],
    vocab_size: int,
    *,
    rule: RuleName = "likelihood",
    min_frequency: int = 2,
    character_coverage: float = 0.9999,
    surplus: float = 0.2,
) -> LearnedVocabulary:
    """Learn up to `vocab_size` tokens from words and their counts.

    Pairs are merged by `rule` (Schuster & Nakajima 2012, section 3, or Sennrich et al. 2016,
    section 3.2). The vocabulary is smaller than `vocab_size` where no pair is left that occurs at
    least `min_frequency` times and has a score above zero.

    Args:
        counts: words as the tokenizer splits them (normalized, punctuation apart).
        character_coverage: share of all characters that the alphabet must cover; the rarest ones
            beyond it are dropped, and a word with one of them encodes to [UNK].
        surplus: number of additional merges to learn, as a share of the merges that fill the
            vocabulary. As many tokens are dropped afterwards: those that encoding uses least.

    Raises:
        ConfigError: `vocab_size` cannot hold the special tokens and the alphabet.
    """
    alphabet, dropped = choose_alphabet(counts, character_coverage)
    covered = set(alphabet)
    words = {
        word: count
        for word, count in counts.items()
        if len(word) <= MAX_WORD_LEN and covered.issuperset(word)
    }
    single = single_character_pieces(alphabet, words)
    minimum = check_size(vocab_size, len(SPECIAL_TOKENS), len(single), character_coverage)
    learner = PieceLearner(words, single, RULES[rule], min_frequency)
    size = vocab_size - len(SPECIAL_TOKENS)
    learner.grow(size + round(surplus * (vocab_size - minimum)))
    pieces = drop_least_used(learner.texts, len(single), size, use_in_words(words))
    return LearnedVocabulary(
        tokens=[*SPECIAL_TOKENS, *pieces],
        alphabet=alphabet,
        dropped_characters=dropped,
        skipped_words=sum(counts.values()) - sum(words.values()),
    )


class PieceLearner:
    """Learner that merges pairs of tokens, best first.

    `texts` are the tokens so far, by id, beginning with `pieces`. `cut` divides each word into
    tokens of `pieces`.

    Counts of pairs are in a `PairTable`. Each pair has a slot there, an index of the arrays `count`
    and `ends`: `ends[LEFT]` and `ends[RIGHT]` are its two tokens. A token's `side` is the one of
    these two at which it stands.

    The best pair is found exactly, although not all scores are computed for each merge. Each token
    has a ceiling, which no score of a pair that begins with the token exceeds. It is raised
    whenever such a score may have risen, and lowered only when the pairs are scored again.
    """

    continuation: ClassVar[str] = CONTINUATION
    """Prefix of a token that continues a word."""

    def __init__(
        self,
        words: Mapping[str, int],
        pieces: Iterable[str],
        rule: Rule,
        min_frequency: int,
        cut: Cut = characters,
    ) -> None:
        self.texts = list(pieces)
        self._ids = {text: index for index, text in enumerate(self.texts)}
        self._rule = rule
        self._min_frequency = min_frequency
        self._segmentation = Segmentation(words, self._ids, cut)
        self._pairs = PairTable()
        self._ceiling = np.full(len(self.texts), -np.inf)
        self._count_pairs()

    def grow(self, num_pieces: int) -> None:
        """Merge pairs until there are `num_pieces` tokens or no pair has a score above zero."""
        with progress_bar("learning tokens", num_pieces - len(self.texts)) as advance:
            while len(self.texts) < num_pieces and (best := self.best_pair()) is not None:
                self.merge(*best)
                advance()

    def best_pair(self) -> tuple[int, int] | None:
        """Return the pair of the highest score above zero, ties by `_precedence`."""
        # A ceiling may be too high. Score the pairs of the first token with the highest one; if
        # none reaches it, the ceiling is now lower, and the search goes on.
        while True:
            top = self._ceiling[: len(self.texts)].max(initial=0.0)
            if top <= 0:
                return None
            tied = np.flatnonzero(self._ceiling[: len(self.texts)] == top)
            left = min(tied.tolist(), key=self._precedence)
            slots, scores = self._score(left, LEFT)
            self._ceiling[left] = scores.max(initial=-np.inf)
            if self._ceiling[left] == top:
                rights = self._pairs.ends[RIGHT][slots[scores == top]]
                return left, min(rights.tolist(), key=self._precedence)

    def merge(self, left: int, right: int) -> None:
        """Merge the pair wherever it occurs, and update all counts."""
        merged = self._id_of(self.texts[left] + self.texts[right][len(self.continuation) :])
        change = self._segmentation.merge(left, right, merged)
        pairs = self._pairs
        # The pair itself is gone where it occurred, and so are (before, left) and (right, after).
        pairs.change(left, LEFT, np.array([right]), -change.pair_weights.sum(keepdims=True))
        pairs.change(left, RIGHT, change.before, -change.before_weights)
        pairs.change(right, LEFT, change.after_old, -change.after_weights)
        # In their place there are now (before, merged) and (merged, after).
        pairs.change(merged, RIGHT, change.before, change.before_weights)
        pairs.change(merged, LEFT, change.after_new, change.after_weights)
        # All other pairs have the counts that they had, and there are fewer tokens in all, so no
        # score of theirs has risen (see `Rule`).
        for piece in {left, right, merged}:
            self._raise_ceilings(piece)

    def frequencies(self) -> list[int]:
        """Return the occurrences of each token in the words, as the merges so far cut them."""
        return self._segmentation.frequency[: len(self.texts)].tolist()

    def _precedence(self, piece: int) -> Any:
        """Return a sort key: of pairs with equal scores, the pair with the lowest keys is merged.

        The keys of the left tokens are compared first.
        """
        return self.texts[piece]

    def _id_of(self, text: str) -> int:
        """Return the id of a token, which is new unless there is one with this text."""
        if text not in self._ids:
            self._ids[text] = len(self.texts)
            self.texts.append(text)
            self._segmentation.add_piece()
            self._ceiling = grow_array(self._ceiling, len(self.texts), -np.inf)
        return self._ids[text]

    def _count_pairs(self) -> None:
        """Count the pairs of neighbours in all words, and set the first ceilings."""
        lefts, rights, weights = self._segmentation.neighbours()
        order = np.argsort(lefts, kind="stable")
        distinct_lefts, starts = np.unique(lefts[order], return_index=True)
        # Without pairs np.split still gives one part, which is empty: hence not strict.
        groups = np.split(order, starts[1:])
        for left, indices in zip(distinct_lefts.tolist(), groups, strict=False):
            self._pairs.change(left, LEFT, rights[indices], weights[indices])
        for left in distinct_lefts.tolist():
            self._raise_ceilings(left)

    def _score(self, piece: int, side: int) -> tuple[Indices, Floats]:
        """Return slots and scores of the frequent enough pairs of `piece`."""
        slots = self._pairs.slots(piece, side)
        count = self._pairs.count[slots]
        enough = count >= self._min_frequency
        slots, count = slots[enough], count[enough]
        frequency = self._segmentation.frequency
        left, right = (frequency[self._pairs.ends[end][slots]] for end in (LEFT, RIGHT))
        return slots, self._rule(count, left, right, self._segmentation.num_pieces)

    def _raise_ceilings(self, piece: int) -> None:
        """Raise ceilings to the scores of all pairs that hold `piece`, at either side."""
        for side in (LEFT, RIGHT):
            slots, scores = self._score(piece, side)
            np.maximum.at(self._ceiling, self._pairs.ends[LEFT][slots], scores)


class UnprefixedLearner(PieceLearner):
    """Learner of tokens without a prefix; merges the most frequent pair, of equals the oldest."""

    continuation = ""

    def __init__(
        self, words: Mapping[str, int], pieces: Iterable[str], min_frequency: int, cut: Cut
    ) -> None:
        super().__init__(words, pieces, frequency_score, min_frequency, cut)

    def _precedence(self, piece: int) -> int:
        return piece
