"""Counting words: the same whatever the order, the batches and the number of processes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.system.processes import LocalProcesses
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.vocabulary.train import count_words

TEXTS = ["It's a test.", "", "Ein Café, a café!", "中文 text", "a " * 50]
WORDS = Normalizer().words


@given(st.permutations(TEXTS), st.integers(1, 40))
def test_order_and_batches_change_nothing(texts, batch_chars):
    expected = Counter(word for text in TEXTS for word in WORDS(text))
    assert count_words(texts, WORDS, batch_chars=batch_chars) == expected
    assert expected["cafe"] == 2 and expected["中"] == 1


def test_processes_change_nothing_and_an_error_while_reading_reaches_the_caller():
    texts = [f"{text} number {number % 7}" for number in range(40) for text in TEXTS]
    processes = LocalProcesses(2)
    counts = count_words(iter(texts), WORDS, executor=processes, batch_chars=100)
    assert counts == count_words(texts, WORDS)
    assert count_words([], WORDS, executor=processes) == {}

    def broken():
        yield from texts
        raise LookupError("broken file")

    with pytest.raises(LookupError, match="broken file"):
        count_words(broken(), WORDS, executor=processes, batch_chars=100)
