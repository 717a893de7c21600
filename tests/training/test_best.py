"""Which weights are kept, and when waiting for better ones ends."""

import torch
from torch import nn

from bertsmith.training.best_weights import PREFIX, BestSettings, BestWeights


def see(best, *scores):
    for step, (accuracy, loss) in enumerate(scores, start=1):
        best.see({"step": step, "held_out_accuracy": accuracy, "held_out_loss": loss})


def test_the_highest_figure_wins_then_the_lowest_loss():
    best = BestWeights(BestSettings("held_out_accuracy"))
    best.see({"step": 0, "held_out_accuracy": 1.0, "held_out_loss": 0.0})
    assert best.step == 0
    see(best, (0.5, 1.0), (0.7, 2.0), (0.7, 1.5), (0.7, 1.6), (0.6, 0.1))
    assert best.step == 3
    assert not best.is_exhausted
    best = BestWeights(BestSettings("held_out_accuracy", from_start=True))
    best.see({"step": 0, "held_out_accuracy": 0.6, "held_out_loss": 1.0})
    see(best, (0.5, 0.9))
    assert best.step == 0


def test_patience_counts_evaluations_since_the_best():
    best = BestWeights(BestSettings("held_out_accuracy", patience=2))
    see(best, (0.5, 1.0), (0.4, 1.0))
    assert not best.is_exhausted
    see(best, (0.4, 1.0), (0.5, 1.0))
    assert best.is_exhausted


def test_the_copy_survives_training_and_checkpoints():
    model = nn.Linear(2, 3)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    best = BestWeights(BestSettings("held_out_accuracy"))
    best.restore(model)  # nothing kept yet: nothing happens
    best.keep(model)
    with torch.no_grad():
        model.weight.zero_()
    tensors = best.state_tensors()
    assert set(tensors) == {PREFIX + "weight", PREFIX + "bias"}
    other = BestWeights(BestSettings("held_out_accuracy"))
    other.load_state_tensors({**tensors, "exp_avg/weight": torch.ones(1)}, torch.device("cpu"))
    other.restore(model)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in kept.items())
