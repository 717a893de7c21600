"""Steps are timed as a run does them; a step's parts add up."""

import numpy as np
import pytest
import torch
from tiny_models import tiny_config

from bertsmith.data.batches import pack
from bertsmith.data.shards import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.model.families import build_heads
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.step_timer import MIN_STEPS, StepTimer, longest_share


@pytest.fixture
def objective(corpus_dir):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    settings = PretrainingSettings(max_length=16, start_steps=5, start_length=8)
    return Pretraining(
        train, held_out, settings, batch_size=6, micro_batch_size=3, seed=1, eval_rows=5
    )


def model_for(objective):
    config = tiny_config(vocab_size=objective.train.corpus.vocab_size)
    return BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))


def test_the_longest_share_of_a_step():
    batches = [pack([np.arange(length)]) for length in (5, 7, 11, 2, 3)]
    assert [longest_share(batches, members) for members in (1, 2, 3, 7)] == [28, 19, 11, 11]


def test_real_steps_of_the_phase_that_is_asked_for(objective):
    model = model_for(objective)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    with StepTimer(objective, model, "fp32", 1) as timer:
        found = timer.time(6, warm_up=1)
        assert timer.time_evaluation() > 0
    assert found.num_steps == MIN_STEPS
    assert found.compute > 0 and found.update > 0
    steps = range(7, 7 + MIN_STEPS)
    tokens = [sum(b.num_tokens for b in objective.micro_batches(step)) for step in steps]
    assert found.tokens == sum(tokens) / MIN_STEPS
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name], rtol=0, atol=1e-4)


def test_another_size_for_a_trial_leaves_the_objective_as_it_was(objective):
    smaller = objective.resized(3, 2)
    assert [batch.num_sequences for batch in smaller.micro_batches(9)] == [3]
    assert [batch.num_sequences for batch in objective.micro_batches(9)] == [3, 3]
    model = model_for(objective).eval()
    with torch.inference_mode():
        whole = objective.evaluate(model)
        assert smaller.evaluate(model) != whole
        assert objective.evaluate(model) == whole
