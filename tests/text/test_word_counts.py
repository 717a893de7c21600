"""Counting words: the same whatever the order, the batches and the number of processes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.text.normalize import Normalizer
from bertsmith.text.word_counts import count_words

TEXTS = ["It's a test.", "", "Ein Café, a café!", "中文 text", "a " * 50]


@given(st.permutations(TEXTS), st.integers(1, 40))
def test_order_and_batches_change_nothing(texts: list[str], batch_chars: int) -> None:
    words = Normalizer().words
    expected = Counter(word for text in TEXTS for word in words(text))
    assert count_words(texts, words, batch_chars=batch_chars) == expected
    assert expected["cafe"] == 2 and expected["中"] == 1


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_change_nothing(processes: int) -> None:
    words = Normalizer(lowercase=False).words
    texts = [f"{text} number {number % 7}" for number in range(40) for text in TEXTS]
    alone = count_words(texts, words)
    together = count_words(iter(texts), words, processes=processes, batch_chars=100)
    assert together == alone


def test_an_error_while_reading_reaches_the_caller() -> None:
    def texts() -> object:
        yield "a" * 200
        yield "b" * 200
        raise LookupError("broken file")

    with pytest.raises(LookupError, match="broken file"):
        count_words(texts(), Normalizer().words, processes=2, batch_chars=100)  # type: ignore[arg-type]


def test_no_text_gives_no_words() -> None:
    assert count_words([], Normalizer().words, processes=4) == {}
