"""The page tells the comparison as it came out, whoever won."""

from typing import Any

import pytest

from bertsmith.demo.page import duration, verdict


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
