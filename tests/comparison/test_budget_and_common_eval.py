"""Equal terms: the same rows for all, and a budget that becomes as many steps."""

import pytest
import torch
from tiny_models import tiny_model
from torch.utils.flop_counter import FlopCounterMode

from bertsmith.comparison.budget import count_flops
from bertsmith.comparison.common_eval import CommonEvaluation
from bertsmith.data.shards import Corpus
from bertsmith.pretraining.build import build_model, build_objective
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve_unmeasured
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import TrainingSettings


def rows(common_eval):
    common_eval(tiny_model("masked_lm", vocab_size=common_eval.held_out.vocab_size))
    return [batch.input_ids.tolist() for batch in common_eval._batches]


def test_rows_are_a_function_of_the_corpus(corpus_dir):
    held_out = Corpus.open(corpus_dir, "held_out")
    first, again = CommonEvaluation(held_out, 16, 23), CommonEvaluation(held_out, 16, 23)
    assert rows(first) == rows(again)
    assert sum(batch.num_sequences for batch in first._batches) == 23
    assert not any(batch.token_type_ids.any() for batch in first._batches)
    pairs = CommonEvaluation(held_out, 16, 23, paired=True)
    rows(pairs)
    assert all(batch.token_type_ids.any() for batch in pairs._batches)
    assert first(tiny_model("next_sentence")) == {}  # it guesses no words


def test_operations_are_those_that_torch_counts(corpus_dir):
    job = PretrainJob(
        corpus_dir,
        ModelSettings("tiny", max_position_embeddings=32, attention_probs_dropout_prob=0.0),
        PretrainingSettings(max_length=29),
        TrainingSettings(batch_size=7, device="cpu"),
    )
    config = resolve_unmeasured(job)
    objective = build_objective(config)
    model = build_model(config, objective)
    (batch,) = objective.micro_batches(1)
    with FlopCounterMode(display=False) as counter:
        terms = objective.losses(model, batch)
        torch.stack([term.sum for term in terms.values()]).sum().backward()
    # Attention's blocks are padded to their longest row, and products filled up.
    assert count_flops(model, [batch]) == pytest.approx(counter.get_total_flops(), rel=0.05)
