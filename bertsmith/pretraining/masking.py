"""Choose and mask tokens for masked LM (Devlin et al. 2019, section 3.1), many sequences at once.

A packed row has the tokens of several sequences one after another, without padding.

A share of the tokens, `masking_rate` of `PretrainingSettings`, is chosen. A chosen token becomes
`[MASK]` or a random token, or stays; the shares are `masking_shares` in
`model/pretraining_catalog.py`. Special tokens, `[UNK]` included, are never chosen and never
inserted. Tokens are chosen one by one, or as words or *runs* of neighbouring words
(`word_choice.py`). All tokens of a word or run are treated alike, as in SpanBERT. BERT's and
ALBERT's released code draw for each token alone, so of the chosen words of two tokens 36 % (1 -
0.8²) are not masked as a whole.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from bertsmith.pretraining.settings import MaskingRule
from bertsmith.pretraining.word_choice import RUN_LENGTHS, choose_words


class MaskingVocabulary:
    """The mask token and the ordinary ids of a vocabulary.

    `is_special` is bool `[vocabulary]`, `ordinary_ids` are int64 and ascending.
    """

    def __init__(self, vocab_size: int, mask_id: int, special_ids: Collection[int]) -> None:
        self.mask_id = mask_id
        self.is_special = np.zeros(vocab_size, dtype=bool)
        self.is_special[list(special_ids)] = True
        self.ordinary_ids = np.flatnonzero(~self.is_special)


@dataclass(frozen=True)
class MaskedTokens:
    """Altered `input_ids` `[tokens]`, the chosen `positions` in rising order, their true `labels`.

    All are int64; `positions` and `labels` are `[chosen]`.
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
    """Choose and alter `max(1, round(length * rate))` tokens of every sequence.

    This is the masking of masked LM (Devlin et al. 2019, section 3.1, task 1). If a sequence has
    fewer ordinary tokens than that, all of them are chosen. With `words`, whole words or runs are
    chosen, and the number is an upper limit.

    Args:
        ids: a packed row, integers `[tokens]`; it is not changed.
        lengths: tokens of each sequence, int64 `[sequences]`; they include special tokens, as in
            BERT's released code.
        rule: the rate, and the shares of chosen tokens that become [MASK] or a random token.
        words: the number of each token's word as `choose_words` takes it, int64 `[tokens]`, -1 at
            special tokens, which are never chosen; None to choose single tokens.
    """
    if words is None:
        positions = _choose(vocabulary.is_special[ids], lengths, rule.rate, rng)
        draws = rng.random(len(positions))
    else:
        budgets = np.maximum(1, np.rint(lengths * rule.rate)).astype(np.int64)
        positions, runs = choose_words(words, lengths, budgets, RUN_LENGTHS[rule.masking], rng)
        draws = rng.random(len(ids))[runs]  # one number for all tokens of a run
    labels = ids[positions].astype(np.int64)
    input_ids = ids.astype(np.int64)
    input_ids[positions] = _replace(labels, draws, rule, vocabulary, rng)
    return MaskedTokens(input_ids, positions, labels)


def _choose(
    is_special: np.ndarray, lengths: np.ndarray, rate: float, rng: np.random.Generator
) -> np.ndarray:
    """Choose ordinary tokens of each sequence at random; return their positions in rising order.

    Each ordinary token draws a number, and those with the lowest numbers are chosen.
    """
    ordinary = np.flatnonzero(~is_special)
    sequences = np.repeat(np.arange(len(lengths)), lengths)[ordinary]  # of each ordinary token
    available = np.bincount(sequences, minlength=len(lengths))
    num_chosen = np.minimum(np.maximum(1, np.rint(lengths * rate)), available)
    # A draw is in [0, 1), so sorting by sequence + draw shuffles all sequences in one sort.
    shuffled = ordinary[np.argsort(sequences + rng.random(len(ordinary)))]
    # Number of each shuffled token within its sequence, from 0
    number = np.arange(len(ordinary)) - np.repeat(np.cumsum(available) - available, available)
    return np.sort(shuffled[number < np.repeat(num_chosen, available)])


def _replace(
    labels: np.ndarray,
    draws: np.ndarray,
    rule: MaskingRule,
    vocabulary: MaskingVocabulary,
    rng: np.random.Generator,
) -> np.ndarray:
    """Replace chosen tokens by the mask, a random token, or themselves.

    `labels` are the ids of the chosen tokens, and `draws` has a number in [0, 1) for each of them.
    """
    random_ids = vocabulary.ordinary_ids[rng.integers(0, len(vocabulary.ordinary_ids), len(labels))]
    replaced = np.where(draws < rule.mask_share + rule.random_share, random_ids, labels)
    return np.where(draws < rule.mask_share, vocabulary.mask_id, replaced)
