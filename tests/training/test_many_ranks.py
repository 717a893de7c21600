"""More ranks than any test can start: what each would compute, and rows of a huge corpus."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from small_workers import OPTIM, small_model, small_objective

from bertsmith.pretraining.row_source import GROUP_ROWS
from bertsmith.pretraining.segments import Anchors, draw_lengths, draw_pairs
from bertsmith.training.flat_parameters import CHUNK, Layout
from bertsmith.training.interleave import interleave
from bertsmith.training.workers.share import Plan

HUGE = 10**10
"""Tokens, more than twice 2**32."""


def plans(num_ranks, num_shares):
    return [Plan(None, OPTIM, 3, num_shares, rank, num_ranks) for rank in range(num_ranks)]


@pytest.mark.parametrize("num_ranks", [1, 3, 64, 1024])
@pytest.mark.parametrize("num_shares", [1, 2])
def test_ranks_share_a_step_and_the_weights_without_a_gap(num_ranks, num_shares):
    number = 5 * num_ranks + 3  # micro-batches, which the shares cannot divide evenly
    dealt = []
    parts = []
    for plan in plans(num_ranks, num_shares):
        indices = range(num_shares)
        shares = [
            list(range(plan.first_micro_batch(index), number, plan.all_shares)) for index in indices
        ]
        dealt.append(interleave(shares))
        parts += [plan.weight_range(index) for index in indices]
    assert interleave(dealt) == list(range(number))
    assert parts == list(range(num_ranks * num_shares))
    layout = Layout.of(small_model().parameter_specs(), num_ranks)
    bounds = layout.divide(num_ranks)
    (length,) = {end - first for first, end in bounds}  # equal, as collectives need it
    assert length % CHUNK == 0 and length * num_ranks == layout.size >= layout.slots[-1].end


@pytest.mark.parametrize("num_ranks", [64, 1024])
def test_the_rows_of_many_ranks_are_those_of_one(corpus_dir, num_ranks):
    """Each rank draws its own groups of rows, and the numbers of tokens are balanced."""
    num_rows = 2 * num_ranks
    task = small_objective(corpus_dir, batch_size=num_rows, micro_batch_size=2)
    whole = small_objective(corpus_dir, batch_size=num_rows, micro_batch_size=num_rows)
    (expected,) = whole.micro_batches(3)
    rows, tokens = Counter(), []
    for plan in plans(num_ranks, 1):
        alone = task.resized(num_rows, task.eval_rows)
        mine = range(plan.first_micro_batch(0), task.num_micro_batches(3), plan.all_shares)
        batches = [alone.micro_batch(3, index) for index in mine]
        tokens.append(sum(batch.num_tokens for batch in batches))
        for batch in batches:
            rows.update(row_texts(batch))
        assert len(alone._rows_of(3).groups) == 1 < num_rows // GROUP_ROWS
    assert rows == Counter(row_texts(expected))
    assert max(tokens) < 1.3 * np.mean(tokens)


def row_texts(batch):
    return [tuple(row.tolist()) for row in batch.input_ids.split(list(batch.lengths))]


@dataclass(frozen=True)
class Bounds:
    """Where sentences and documents of a text begin."""

    sentence_starts: np.ndarray
    document_starts: np.ndarray


def test_rows_of_a_huge_corpus_lie_inside_it():
    """No position overflows, beyond 2**31 and 2**32 too."""
    anchors = Anchors(HUGE, 10**5, seed=3)
    far = 5 * anchors.num_anchors - 500  # over the end of an epoch
    positions = anchors.positions(far, 1000)
    assert positions.dtype == np.int64
    assert positions.min() >= 0 and 2**32 < positions.max() < HUGE
    sentences = np.arange(0, HUGE + 1, 10**5)  # 100,000 sentences in 1,000 documents
    bounds = Bounds(sentences, np.arange(0, 10**5 + 1, 100))
    rng = np.random.default_rng(0)
    pairs = draw_pairs(bounds, positions, draw_lengths(1000, 125, 0.1, rng), rng)
    for starts, ends in ((pairs.a_starts, pairs.a_ends), (pairs.b_starts, pairs.b_ends)):
        assert (starts < ends).all() and (ends - starts < 126).all()
        assert starts.min() >= 0 and 2**32 < ends.max() <= HUGE
