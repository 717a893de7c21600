"""The rows by which models are compared are the same for all, whoever asks."""

import pickle

import pytest
from tiny_models import tiny_model

from bertsmith.comparison.common_eval import CommonEvaluation
from bertsmith.data.shards import Corpus


@pytest.fixture
def held_out(corpus_dir):
    return Corpus.open(corpus_dir, "held_out")


def rows(common_eval):
    common_eval(tiny_model("masked_lm", vocab_size=common_eval.held_out.vocab_size))
    return [batch.input_ids.tolist() for batch in common_eval._batches]


def test_rows_are_a_function_of_the_corpus(held_out):
    first, again = CommonEvaluation(held_out, 16, 23), CommonEvaluation(held_out, 16, 23)
    size = len(pickle.dumps(first))
    assert rows(first) == rows(again) == rows(pickle.loads(pickle.dumps(first)))
    assert len(pickle.dumps(first)) == size
    assert sum(batch.num_sequences for batch in first._batches) == 23
    assert all(max(batch.lengths) <= 16 for batch in first._batches)
    assert not any(batch.token_type_ids.any() for batch in first._batches)
    pairs = CommonEvaluation(held_out, 16, 23, paired=True)
    rows(pairs)
    assert all(batch.token_type_ids.any() for batch in pairs._batches)
    assert first(tiny_model("next_sentence")) == {}  # it guesses no words
