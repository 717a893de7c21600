"""Operations are those of the paper's matrix products, whichever kernels compute them."""

import pytest
from small_workers import small_objective

from bertsmith.model import dense_attention
from bertsmith.model.config import BertConfig
from bertsmith.pretraining.flops import COUNTED_ROWS, flops_per_token

WORDS, WIDTH, LAYERS, INNER = 200, 48, 3, 80
CONFIG = BertConfig(WORDS, WIDTH, LAYERS, 4, INNER, max_position_embeddings=32)


@pytest.fixture
def objective(corpus_dir):
    return small_objective(corpus_dir, max_length=32, batch_size=64, micro_batch_size=None)


def count(objective, config=CONFIG):
    return flops_per_token(objective, objective.new_model(config), step=1)


def test_operations_are_those_of_the_products(objective):
    batch = objective.resized(COUNTED_ROWS, 1).micro_batch(1, 0)
    tokens, predicted = batch.num_tokens, objective.counts(batch)["mlm"]
    per_token = LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER)
    pairs = LAYERS * 2 * WIDTH * sum(length**2 for length in batch.lengths)
    vocabulary = predicted * (WIDTH**2 + WORDS * WIDTH)
    pooled = batch.num_sequences * (WIDTH**2 + 2 * WIDTH)
    # Forward two operations for each multiplication, backward twice as many.
    expected = 6 * (per_token * tokens + pairs + vocabulary + pooled) / tokens
    assert count(objective) == pytest.approx(expected, rel=0.1)
    assert count(objective) > expected  # padding


@pytest.mark.parametrize("is_fused", [True, False])
def test_no_kernel_is_left_out(objective, is_fused, monkeypatch):
    usual = count(objective)
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: is_fused)
    assert count(objective) == usual
