"""Which weights are kept."""

from bertsmith.training.best_weights import BestSettings, BestWeights


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
