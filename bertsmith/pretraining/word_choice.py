"""Choose whole words, spans (SpanBERT) or n-grams (ALBERT) for masked LM.

Words are chosen in *runs* of neighbours. Each *stretch* of text, without a special token in it, is
cut into runs of random length. The runs of a sequence are chosen in random order until its
*budget*, the number of tokens to choose, is spent. Runs cannot overlap, so no draw is rejected and
a word's probability does not depend on its position. No run crosses a special token, and so none
reaches into another segment, document or sequence.
"""

import numpy as np


def _normalize(weights: np.ndarray) -> np.ndarray:
    """Scale weights to probabilities, whose sum is 1."""
    return weights / weights.sum()


RUN_LENGTHS = {
    "word": np.ones(1),
    "span": _normalize(0.2 * 0.8 ** np.arange(10)),
    "ngram": _normalize(1 / np.arange(1, 4)),
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

    A word is never cut. If a run exceeds the remaining budget, the words at its beginning that fit
    are chosen, and later runs are tried. So a sequence gets fewer tokens than its budget only if
    the first word of no further run fits. If no word at all fits, the shortest is chosen, so that
    every sequence with a whole word has something to predict.

    Args:
        words: the word that each token of a packed row belongs to, int64 `[tokens]`; -1 at
            tokens that must not be chosen. A word's tokens are contiguous, and a word that does not
            follow the previous one directly begins a new stretch.
        lengths: tokens of each sequence, int64 `[sequences]`.
        budgets: tokens to choose of each sequence at most, int64 `[sequences]`, 1 or more.
        run_lengths: probabilities of runs of 1, 2, … words.

    Returns:
        The positions of the chosen tokens in rising order, and the number of the run of each, both
        int64 `[chosen]`. Runs are numbered by their order in the row.
    """
    word_indices = np.flatnonzero(words >= 0)  # positions of all tokens that belong to a word
    is_first = _changes(words[word_indices])
    first = word_indices[is_first]  # position of each word's first token
    sizes = np.diff(np.append(np.flatnonzero(is_first), len(word_indices)))
    sequences = np.repeat(np.arange(len(lengths)), lengths)[first]
    # A stretch begins where a word does not follow the previous word directly. There, and only
    # there, the number of skipped tokens changes: the position of a word, less the tokens of all
    # words before it.
    num_skipped = first - (np.cumsum(sizes) - sizes)
    runs = _cut_into_runs(_changes(num_skipped), run_lengths, rng)
    # A draw is in [0, 1), so sorting by sequence + draw shuffles the runs of all sequences in one
    # sort. The words of a run have one draw, so they stay together.
    draws = rng.random(len(first))[runs]
    order = np.argsort(sequences + draws, kind="stable")
    is_chosen = np.zeros(len(first), dtype=bool)
    is_chosen[order] = _spend(budgets, sizes[order], runs[order], sequences[order])
    is_token_chosen = np.repeat(is_chosen, sizes)
    return word_indices[is_token_chosen], np.repeat(runs, sizes)[is_token_chosen]


def _cut_into_runs(
    begins_stretch: np.ndarray, run_lengths: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Cut every stretch of words into runs; return the number of each word's run, int64 `[words]`.

    Args:
        begins_stretch: whether each word begins a stretch, bool `[words]`.
        run_lengths: probabilities of runs of 1, 2, … words.
    """
    num_words = len(begins_stretch)
    if len(run_lengths) == 1:
        return np.arange(num_words)
    # A length is drawn for every word. A stretch has one run for each of its words in turn, with
    # the length of that word's draw, until the runs reach its end; its other draws are not used.
    lengths = rng.choice(np.arange(1, len(run_lengths) + 1), num_words, p=run_lengths)
    stretch_of_word = np.cumsum(begins_stretch) - 1
    stretch_starts = np.flatnonzero(begins_stretch)
    stretch_sizes = np.diff(np.append(stretch_starts, num_words))
    words_before = np.cumsum(lengths) - lengths
    # Words of the stretch before the run that belongs to each word's draw
    offsets = words_before - words_before[stretch_starts][stretch_of_word]
    is_used = offsets < stretch_sizes[stretch_of_word]
    begins_run = np.zeros(num_words, dtype=bool)
    begins_run[(stretch_starts[stretch_of_word] + offsets)[is_used]] = True
    return np.cumsum(begins_run) - 1


def _spend(
    budgets: np.ndarray, sizes: np.ndarray, runs: np.ndarray, sequences: np.ndarray
) -> np.ndarray:
    """Mark the words that fit the budgets, in order, bool `[words]`.

    The result equals that of a loop over the words of each sequence, but takes a few rounds over
    all sequences. A round chooses each sequence's words before the first one that does not fit, and
    drops the rest of that word's run.

    Args:
        budgets: tokens to choose of each sequence at most, int64 `[sequences]`.
        sizes: tokens of each word, int64 `[words]`; words are in the order in which they are tried.
        runs: the number of each word's run; the words of a run are neighbours.
        sequences: the number of each word's sequence; the words of a sequence are neighbours.
    """
    candidates = np.arange(len(sizes))
    budgets_left = budgets.copy()
    is_chosen = np.zeros(len(sizes), dtype=bool)
    run_numbers = np.cumsum(_changes(runs)) - 1
    # For each word, the tokens of the first word of its run: if the first word does not fit, no
    # word of the run is chosen.
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
    has_chosen = np.bincount(sequences[is_chosen], minlength=len(budgets)) > 0
    is_chosen[_shortest(sizes, sequences, has_chosen)] = True
    return is_chosen


def _shortest(sizes: np.ndarray, sequences: np.ndarray, has_chosen: np.ndarray) -> np.ndarray:
    """Return the index of the shortest word in each sequence without a chosen word.

    If several are equally short, the first is taken.
    """
    words = np.flatnonzero(~has_chosen[sequences])
    by_size: np.ndarray = words[np.lexsort((sizes[words], sequences[words]))]
    return by_size[_changes(sequences[by_size])]


def _running_sums(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sum `values` cumulatively within each group; members of a group are neighbours."""
    begins = _changes(groups)
    sums = np.cumsum(values)
    sums_before_groups = (sums - values)[begins]
    return sums - sums_before_groups[np.cumsum(begins) - 1]


def _changes(values: np.ndarray) -> np.ndarray:
    """Mark values that differ from the previous value; the first value is marked."""
    differs = np.ones(len(values), dtype=bool)
    differs[1:] = values[1:] != values[:-1]
    return differs
