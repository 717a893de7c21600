"""The page tells the comparison as it came out, whoever won."""

from typing import Any

import pytest

from bertsmith.demo.page import duration, shortened, verdict


def comparison(pretrained: float, untrained: float, tfidf: float) -> list[dict[str, Any]]:
    means = {"pretrained": pretrained, "untrained": untrained, "tfidf": tfidf}
    return [{"name": name, "accuracy": {"mean": mean}} for name, mean in means.items()]


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ((0.6, 0.4, 0.5), ["was worth 20.0 points", "gets 50.0%."]),
        ((0.4, 0.5, 0.6), ["cost 10.0 points", "is still ahead with 60.0%"]),
        ((0.5, 0.5, 0.5), ["made no difference", "does as well, 50.0%"]),
    ],
)
def test_verdict_follows_the_figures(means: tuple[float, float, float], words: list[str]) -> None:
    told = " ".join(verdict(comparison(*means)))
    assert all(word in told for word in words)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "no time"), (61, "1 minute and 1 second"), (3600, "60 minutes")]
)
def test_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_what_was_left_out_is_told() -> None:
    plan = {"is_full": False, "full_steps": 1800, "full_draws": 3, "full_seconds": 640.0,
            "full_minutes": 11, "full_finetune_steps": 200,
            "scale": {"finetune_steps": 50}}  # fmt: skip
    results = {"plan": plan, "pretraining": {"steps": 450}, "question": {"num_draws": 1}}
    told = shortened(results)
    assert "450 of the 1,800 steps" in told and "guesses fewer of the hidden words" in told
    assert "with 1 choice of" in told and "is not known" in told
    assert "took 50 steps instead of 200" in told
    assert "about 10.7 minutes here: bertsmith demo --minutes 11" in told
    assert "say nothing" not in told
    assert "say nothing of what pre-training" in shortened({**results, "pretraining": {"steps": 9}})
    assert "choice" not in shortened({**results, "question": {"num_draws": 3}})
    assert shortened({**results, "plan": None}) == ""
    assert shortened({**results, "plan": {**plan, "is_full": True}}) == ""
