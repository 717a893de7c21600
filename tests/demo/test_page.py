"""What the page says follows from the figures."""

import pytest

from bertsmith.demo.page import FINETUNE_STEPS, describe_shortening, describe_verdict


def test_verdict_follows_the_figures():
    for means, words in (
        ((0.6, 0.4, 0.5), ["was worth 20.0 points", "gets 50.0\u00a0%."]),
        ((0.4, 0.5, 0.6), ["cost 10.0 points", "is still ahead with 60.0\u00a0%"]),
        ((0.5, 0.5, 0.5), ["made no difference", "does as well, 50.0\u00a0%"]),
    ):
        names = zip(("pretrained", "untrained", "tfidf"), means, strict=True)
        rows = [{"name": name, "accuracy": {"mean": mean}} for name, mean in names]
        assert all(word in describe_verdict(rows) for word in words)


def test_a_verdict_without_scikit_learn_names_no_method_of_it():
    rows = [{"name": name, "accuracy": {"mean": 0.5}} for name in ("pretrained", "untrained")]
    assert "TF-IDF" not in describe_verdict(rows)


@pytest.mark.parametrize(("steps", "draws", "finetune_steps", "parts"), [
    (450, 3, FINETUNE_STEPS, []),
    (99, 3, FINETUNE_STEPS, ["fewer than 100 steps", "demo --minutes 5"]),
    (450, 1, FINETUNE_STEPS, ["one choice of labelled", "demo --minutes 5"]),
    (450, 2, 37, ["took 37 steps instead of 200", "demo --minutes 5"]),
])  # fmt: skip
def test_what_there_was_no_time_for_is_told(steps, draws, finetune_steps, parts):
    question = {"num_draws": draws, "finetune_steps": finetune_steps}
    told = describe_shortening(
        {"pretraining": {"steps": steps}, "question": question, "minutes": 2.5}
    )
    assert all(part in told for part in parts)
    assert bool(told) == bool(parts)
