"""Findings: what a journal tells for certain, and nothing of a run that goes well."""

import pytest

from bertsmith.training.findings import diagnose, find_plateau

RUN = {
    "settings": {"optim": {"max_grad_norm": 1.0}},
    "data": {"held_out_unigram_entropy": 6.0},
    "summary": {"data_wait_fraction": 0.01},
}


def journal(num_steps=200, norm=lambda step: 0.5, loss=lambda step: 5 / step, **held_out):
    """A run with an eval at every 50th step, whose figures may be functions of the step."""
    held_out = {"mlm_loss": 3.0, "nsp_accuracy": 0.8} | held_out
    for step in range(1, num_steps + 1):
        yield {"step": step, "mlm_loss": loss(step), "gradient_norm": norm(step),
               "learning_rate": 1e-4}  # fmt: skip
        if step % 50 == 0:
            yield {"step": step} | {
                f"held_out_{name}": value(step) if callable(value) else value
                for name, value in held_out.items()
            }


def codes(entries, run=RUN):
    return [(finding.code, finding.step) for finding in diagnose(entries, run)]


def test_a_good_run_and_one_that_has_not_begun():
    assert codes(journal()) == codes([]) == []
    rises = journal(loss=lambda step: step, mlm_loss=lambda step: 2 + step / 100)
    assert codes(rises) == []  # on both sides: no overfitting
    start = {"step": 0, "held_out_mlm_loss": 1.0, "held_out_nsp_accuracy": 0.9}
    assert codes([start, *journal()]) == []  # a continued run that only gets worse
    waiting = RUN | {"summary": {"data_wait_fraction": 0.3}}
    assert codes(journal(), waiting) == [("data_wait", None)]


@pytest.mark.parametrize("changes, expected", [
    ({"mlm_loss": 5.9}, ("plateau", 200)), ({"num_steps": 30}, ("plateau", 30)),
    ({"nsp_accuracy": 0.52}, ("nsp_at_chance", 200)),
    ({"norm": lambda step: 0.0001 * step**2}, ("gradient_rises", None)),
    ({"norm": lambda step: 1.5}, ("gradient_clipped", None)),
    ({"mlm_loss": lambda step: 2 + abs(step - 100) / 100}, ("overfitting", 100)),
])  # fmt: skip
def test_what_is_found(changes, expected):
    assert expected in codes(journal(**changes))


def test_few_steps_without_evals_are_a_plateau_of_new_models_alone():
    steps = [entry for entry in journal(num_steps=30) if "learning_rate" in entry]
    assert codes(steps, {}) == [("plateau", 30)]
    assert codes(steps, {"source": {"folder": "m"}}) == []
    assert find_plateau({"steps": 30, "made_of": "layers 0, 3 of the 4 of m"}) is None


def test_a_journal_without_the_steps_after_its_best_eval_shows_no_overfitting():
    rising = journal(mlm_loss=lambda step: 2 + abs(step - 100) / 100)
    kept = [entry for entry in rising if entry["step"] <= 100 or "learning_rate" not in entry]
    assert "overfitting" not in [code for code, _ in codes(kept)]
