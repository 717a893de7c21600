"""A budget becomes a length: tokens are counted, operations are those that torch counts."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertsmith.comparison.budget import ComparisonBudget, count_flops, steps_for
from bertsmith.pretraining.build import build_model, build_objective
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve_unmeasured
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import TrainingSettings


@pytest.fixture
def job(corpus_dir):
    return PretrainJob(
        corpus_dir,
        ModelSettings("tiny", max_position_embeddings=32, attention_probs_dropout_prob=0.0),
        PretrainingSettings(max_length=29),
        TrainingSettings(batch_size=7, device="cpu"),
    )


def test_operations_are_those_that_torch_counts(job):
    config = resolve_unmeasured(job)
    objective = build_objective(config)
    model = build_model(config, objective)
    (batch,) = objective.micro_batches(1)
    with FlopCounterMode(display=False) as counter:
        terms = objective.losses(model, batch)
        torch.stack([term.sum for term in terms.values()]).sum().backward()
    # Attention's blocks are padded to their longest row, and products filled up.
    assert count_flops(model, [batch]) == pytest.approx(counter.get_total_flops(), rel=0.05)


def test_steps_cost_the_amount(job):
    assert steps_for(1000, lambda step: 10) == 100
    assert steps_for(3, lambda step: 10) == 1
    assert steps_for(1e6, lambda step: 50 if step < 1000 else 100) == pytest.approx(10500, rel=0.1)
    assert ComparisonBudget(7, "steps").of(job) == {"minutes": None, "steps": 7}
    assert ComparisonBudget(1.5, "minutes").of(job) == {"minutes": 1.5, "steps": None}
