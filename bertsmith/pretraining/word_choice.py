"""Choice of whole words, spans (SpanBERT) or n-grams (ALBERT) for masked LM.

Words are chosen in runs of neighbours. Each stretch of text is tiled with runs of random length,
which are chosen in random order until the sequence's budget is spent. Tiles cannot overlap, so no
draw is rejected and a word's probability does not depend on its position. No run crosses a special
token, and so none reaches into another segment, document or sequence.
"""

import numpy as np


def _distribution(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()


RUN_LENGTHS = {
    "word": np.ones(1),
    "span": _distribution(0.2 * 0.8 ** np.arange(10)),
    "ngram": _distribution(1 / np.arange(1, 4)),
}
"""Probabilities of runs of one word, two words, …: SpanBERT's geometric lengths (Joshi et al. 2020,
section 3.1: p = 0.2, at most 10; the paper's average of 3.8 shows that draws above 10 are dropped,
not counted as 10) and ALBERT's n-grams (Lan et al. 2020, section 4.1: n at most 3, p(n)
proportional to 1/n)."""


def choose_words(
    words: np.ndarray,
    lengths: np.ndarray,
    budgets: np.ndarray,
    run_lengths: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose runs of whole words, at most `budgets` tokens per sequence.

    A word is never cut. A run that exceeds the remaining budget keeps the words at its beginning
    that fit; then later runs are tried. So a sequence gets fewer tokens than its budget only if no
    further run's first word fits. If no word at all fits, the shortest is chosen, so that every
    sequence with a whole word has something to predict.

    Args:
        words: the word that each token of a packed row belongs to, int64 `[tokens]`; -1 at
            tokens that must not be chosen. A word's tokens are contiguous, and a word that does not
            follow the previous one directly begins a new stretch.
        lengths: tokens of each sequence, int64 `[sequences]`.
        budgets: tokens to choose of each sequence at most, int64 `[sequences]`, 1 or more.
        run_lengths: probabilities of runs of 1, 2, … words.

    Returns:
        The chosen positions in rising order, and the run that each was chosen with, both int64
        `[chosen]`; runs are numbered by their order in the row.
    """
    word_indices = np.flatnonzero(words >= 0)
    is_first = _changes(words[word_indices])
    first = word_indices[is_first]
    sizes = np.diff(np.append(np.flatnonzero(is_first), len(word_indices)))
    sequences = np.repeat(np.arange(len(lengths)), lengths)[first]
    # A stretch ends where a word does not begin right after the last token of the previous one.
    runs = _tile(_changes(first - np.cumsum(sizes) + sizes), run_lengths, rng)
    # Sorting by sequence + draw shuffles all sequences in one sort.
    draws = rng.random(len(first))[runs]
    order = np.argsort(sequences + draws, kind="stable")
    is_chosen = np.zeros(len(first), dtype=bool)
    is_chosen[order] = _spend(budgets, sizes[order], runs[order], sequences[order])
    of_token = np.repeat(is_chosen, sizes)
    return word_indices[of_token], np.repeat(runs, sizes)[of_token]


def _tile(
    begins_stretch: np.ndarray, run_lengths: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Cut every stretch of words into runs, and return the number of each word's run."""
    num_words = len(begins_stretch)
    if len(run_lengths) == 1:
        return np.arange(num_words)
    drawn = rng.choice(np.arange(1, len(run_lengths) + 1), num_words, p=run_lengths)
    stretch = np.cumsum(begins_stretch) - 1
    begin = np.flatnonzero(begins_stretch)
    size = np.diff(np.append(begin, num_words))
    before = np.cumsum(drawn) - drawn
    # A stretch uses the draws at its own words, as many as it needs.
    offset = before - before[begin][stretch]
    is_inside = offset < size[stretch]
    begins_run = np.zeros(num_words, dtype=bool)
    begins_run[(begin[stretch] + offset)[is_inside]] = True
    return np.cumsum(begins_run) - 1


def _spend(
    budgets: np.ndarray, sizes: np.ndarray, runs: np.ndarray, sequences: np.ndarray
) -> np.ndarray:
    """Mark the words that fit the budgets, in order, bool `[words]`.

    The words of a run are contiguous. The result equals that of a loop over the words of each
    sequence, but takes a few rounds over all sequences: each round takes the words before the first
    one that does not fit, and drops the rest of that word's run.
    """
    candidates = np.arange(len(sizes))
    budgets_left = budgets.copy()
    is_chosen = np.zeros(len(sizes), dtype=bool)
    run_numbers = np.cumsum(_changes(runs)) - 1
    # The tokens of the first word of each word's run.
    first_sizes = sizes[_changes(runs)][run_numbers]
    while True:
        can_begin = first_sizes[candidates] <= budgets_left[sequences[candidates]]
        candidates = candidates[can_begin]
        if not len(candidates):
            break
        own_sequences = sequences[candidates]
        fits = _running_sums(sizes[candidates], own_sequences) <= budgets_left[own_sequences]
        chosen = candidates[fits]
        rest = candidates[~fits]
        is_chosen[chosen] = True
        spent = np.bincount(sequences[chosen], sizes[chosen], minlength=len(budgets))
        budgets_left = budgets_left - spent.astype(np.int64)
        first_misfits = rest[_changes(sequences[rest])]
        is_dropped = np.zeros(len(sizes), dtype=bool)
        is_dropped[run_numbers[first_misfits]] = True
        candidates = rest[~is_dropped[run_numbers[rest]]]
    has_some = np.bincount(sequences[is_chosen], minlength=len(budgets)) > 0
    is_chosen[_shortest(sizes, sequences, has_some)] = True
    return is_chosen


def _shortest(sizes: np.ndarray, sequences: np.ndarray, has_some: np.ndarray) -> np.ndarray:
    """Return the first of the shortest words in each sequence without a chosen word."""
    words = np.flatnonzero(~has_some[sequences])
    by_size: np.ndarray = words[np.lexsort((sizes[words], sequences[words]))]
    return by_size[_changes(sequences[by_size])]


def _running_sums(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sum `values` cumulatively within each group of neighbours."""
    begins = _changes(groups)
    total = np.cumsum(values)
    before = (total - values)[begins]
    return total - before[np.cumsum(begins) - 1]


def _changes(values: np.ndarray) -> np.ndarray:
    """Mark values that differ from the previous value; the first value is marked."""
    differs = np.ones(len(values), dtype=bool)
    differs[1:] = values[1:] != values[:-1]
    return differs
