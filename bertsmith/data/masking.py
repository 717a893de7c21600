"""Which tokens a masked LM must predict: rows of token ids go in, altered ids and targets come out.

The whole packed row is masked at once, without a loop over sequences. As in the paper
(Devlin et al. 2019, section 3.1), a share of each sequence's tokens is chosen, and a chosen token
is hidden behind `[MASK]`, replaced by a random one, or left as it is. Special tokens, `[UNK]`
among them, are never chosen and never inserted at random.

Tokens are chosen one by one, or with the words or runs of words that they belong to
(`word_choice`). What is chosen together has one fate, as SpanBERT has it for spans. BERT's and
ALBERT's released code draw a fate for every piece of a word or n-gram, which leaves or replaces
at least one piece of 36 % of the words of two pieces: those are not hidden whole.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from bertsmith.data.word_choice import RUN_LENGTHS, Masking, choose_words


@dataclass(frozen=True)
class MaskingRule:
    """How much is chosen, in what units, and what becomes of it; the rest is left as it is."""

    rate: float
    mask_share: float
    random_share: float
    masking: Masking = "piece"


class MaskingVocabulary:
    """What masking needs to know of a vocabulary: the mask and which ids are ordinary."""

    def __init__(self, vocab_size: int, mask_id: int, special_ids: Collection[int]) -> None:
        self.mask_id = mask_id
        self.is_special = np.zeros(vocab_size, dtype=bool)
        self.is_special[list(special_ids)] = True
        self.ordinary_ids = np.flatnonzero(~self.is_special)


@dataclass(frozen=True)
class MaskedTokens:
    """Altered `input_ids` `[tokens]`, the chosen `positions` in rising order, their true `labels`.

    All int64; `positions` and `labels` are `[chosen]`.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray


def mask_tokens(
    ids: np.ndarray,
    lengths: np.ndarray,
    rule: MaskingRule,
    vocabulary: MaskingVocabulary,
    rng: np.random.Generator,
    words: np.ndarray | None = None,
) -> MaskedTokens:
    """Choose and alter `max(1, round(length * rate))` tokens of every sequence of a packed row.

    `ids` is `[tokens]`, the sequences one after another; `lengths` is `[sequences]` and counts
    special tokens too, as the released builder does. A sequence with fewer ordinary tokens than
    its count gives all of them. Where words or runs of them are hidden, `words` numbers them as
    `choose_words` wants it, and the count is the most that is chosen, as it says.
    """
    if words is None:
        positions = _choose(vocabulary.is_special[ids], lengths, rule.rate, rng)
        fates = rng.random(len(positions))
    else:
        budgets = np.maximum(1, np.rint(lengths * rule.rate)).astype(np.int64)
        positions, runs = choose_words(words, lengths, budgets, RUN_LENGTHS[rule.masking], rng)
        fates = rng.random(len(ids))[runs]
    labels = ids[positions].astype(np.int64)
    input_ids = ids.astype(np.int64)
    input_ids[positions] = _replace(labels, fates, rule, vocabulary, rng)
    return MaskedTokens(input_ids, positions, labels)


def _choose(
    is_special: np.ndarray, lengths: np.ndarray, rate: float, rng: np.random.Generator
) -> np.ndarray:
    """The chosen places in rising order: each sequence's ordinary tokens with the lowest draws."""
    ordinary = np.flatnonzero(~is_special)
    sequence = np.repeat(np.arange(len(lengths)), lengths)[ordinary]
    available = np.bincount(sequence, minlength=len(lengths))
    wanted = np.minimum(np.maximum(1, np.rint(lengths * rate)), available)
    # Sorting by sequence + draw shuffles every sequence in its own place, all in one sort.
    shuffled = ordinary[np.argsort(sequence + rng.random(len(ordinary)))]
    rank = np.arange(len(ordinary)) - np.repeat(np.cumsum(available) - available, available)
    return np.sort(shuffled[rank < np.repeat(wanted, available)])


def _replace(
    labels: np.ndarray,
    fates: np.ndarray,
    rule: MaskingRule,
    vocabulary: MaskingVocabulary,
    rng: np.random.Generator,
) -> np.ndarray:
    """What stands in the chosen places: the mask, a random ordinary token, or the token itself.

    `fates` has a draw from 0 to 1 for each of them.
    """
    strangers = vocabulary.ordinary_ids[rng.integers(0, len(vocabulary.ordinary_ids), len(labels))]
    replaced = np.where(fates < rule.mask_share + rule.random_share, strangers, labels)
    return np.where(fates < rule.mask_share, vocabulary.mask_id, replaced)
