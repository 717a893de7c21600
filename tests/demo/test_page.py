"""The plain methods, the plan of five minutes, and what the page says of both."""

import sys

import pytest

from bertsmith.data.examples import Example
from bertsmith.demo.baselines import majority_class, score_labels, tfidf_with_logistic_regression
from bertsmith.demo.pace import FEWEST_STEPS, MIN_SECONDS, DemoScale, finetuning_seconds, plan_pace
from bertsmith.demo.page import shortened, verdict

TRAIN = [
    Example("red apples and pears", label="fruit"),
    Example("green apples", label="fruit"),
    Example("a fast car", label="car"),
]
TEST = [Example("apples", label="fruit"), Example("the car", label="car")]
FULL = DemoScale()
STEP_TOKENS = 4000
NUM_TEST = 1100
COUNTING = 10.0


def test_plain_methods(monkeypatch):
    assert majority_class(TRAIN, TEST).accuracy == 0.5
    assert tfidf_with_logistic_regression(TRAIN, TEST) == (1.0, 1.0)
    assert score_labels(["car", "car"], TEST) == pytest.approx((0.5, 1 / 3))  # no fruit predicted
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert tfidf_with_logistic_regression(TRAIN, TEST) is None


@pytest.mark.parametrize("speed", [500, 2_000, 30_000])
def test_a_slow_computer_does_what_fits_in_and_a_fast_one_all(speed):
    full = plan_pace(FULL, 60_000, STEP_TOKENS, NUM_TEST, 260, COUNTING)
    assert full.is_full and full.scale.pretrain_seconds == full.full_seconds == 120
    pace = plan_pace(FULL, speed, STEP_TOKENS, NUM_TEST, 250, COUNTING)
    scale = pace.scale
    seconds = scale.pretrain_seconds + finetuning_seconds(scale, speed, NUM_TEST)
    assert COUNTING + seconds <= 250 + 1e-6 or (scale.num_draws, scale.finetune_steps) == (
        1,
        FEWEST_STEPS,
    )
    assert scale.pretrain_seconds >= MIN_SECONDS
    assert scale.pretrain_steps < FULL.pretrain_steps
    assert pace.minutes * 60 >= FULL.pretrain_steps * STEP_TOKENS / speed
    assert f"--minutes {pace.minutes}" in str(pace)


def test_verdict_follows_the_figures():
    for means, words in (
        ((0.6, 0.4, 0.5), ["was worth 20.0 points", "gets 50.0\u00a0%."]),
        ((0.4, 0.5, 0.6), ["cost 10.0 points", "is still ahead with 60.0\u00a0%"]),
        ((0.5, 0.5, 0.5), ["made no difference", "does as well, 50.0\u00a0%"]),
    ):
        names = zip(("pretrained", "untrained", "tfidf"), means, strict=True)
        rows = [{"name": name, "accuracy": {"mean": mean}} for name, mean in names]
        assert all(word in " ".join(verdict(rows)) for word in words)


def test_a_verdict_without_scikit_learn_names_no_method_of_it():
    rows = [{"name": name, "accuracy": {"mean": 0.5}} for name in ("pretrained", "untrained")]
    assert "TF-IDF" not in " ".join(verdict(rows))


def test_what_was_left_out_is_told():
    plan = {"is_full": False, "full_steps": 1800, "full_draws": 3, "full_seconds": 640.0,
            "full_minutes": 11, "full_finetune_steps": 200,
            "scale": {"finetune_steps": 50}}  # fmt: skip
    told = shortened({"pretraining": {"steps": 450}, "question": {"num_draws": 1}, "plan": plan})
    for words in ("450 of the 1,800 steps", "with 1 choice of", "took 50 steps instead of 200",
                  "about 10.7 minutes", "bertsmith demo --minutes 11"):  # fmt: skip
        assert words in told
    plan["scale"] = {"finetune_steps": 200}
    whole = {"pretraining": {"steps": 1790}, "question": {"num_draws": 3}, "plan": plan}
    assert shortened(whole) == shortened({**whole, "plan": None}) == ""
