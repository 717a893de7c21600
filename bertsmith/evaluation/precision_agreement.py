"""A sample of the user's texts, computed in fp32 beside bf16 or int8."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from bertsmith.data.reader import count_chars
from bertsmith.tasks.agreement import Agreement, not_compared
from bertsmith.tasks.predictor import CHUNK_CHARS, Predictor

Item = TypeVar("Item")

SAMPLE_TEXTS = 32
SAMPLED_FROM = 1024
"""The sample is taken from so many of the first texts, so that files of any size can stream."""
SAMPLE_TOKENS = SAMPLE_TEXTS * 512
"""A sample has at most so many tokens, which `SAMPLE_TEXTS` of BERT's longest inputs have."""
SAMPLE_CHARS = 16 * SAMPLE_TOKENS
"""Longer texts are not even cut into tokens to see whether they may be in a sample."""


class FirstExamples:
    """The first examples that pass, fewer of long ones: standard input is read once."""

    def __init__(self) -> None:
        self.examples: list[Any] = []
        self._num_chars = 0

    def see(self, examples: Iterable[Any], outcomes: Any = None) -> None:
        """Keep examples until there are `SAMPLED_FROM`, or enough characters."""
        for example in examples:
            if len(self.examples) < SAMPLED_FROM and self._num_chars < CHUNK_CHARS:
                self.examples.append(example)
                self._num_chars += count_chars(example.content)

    def passing(self, examples: Iterable[Item]) -> Iterator[Item]:
        """Yield the examples, which are seen on the way."""
        for example in examples:
            self.see([example])
            yield example


def sample(texts: Sequence[Item]) -> list[Item]:
    """Choose at most `SAMPLE_TEXTS` of the items, evenly spread."""
    places = np.linspace(0, len(texts) - 1, min(len(texts), SAMPLE_TEXTS)).round().astype(int)
    return [texts[place] for place in places]


def agreement_with_fp32(predictor: Predictor[Any], examples: Sequence[Any]) -> Agreement:
    """Compare a predictor's answers with those in fp32.

    At most `SAMPLE_TOKENS` tokens are computed twice, however long the examples are.
    """
    chosen = _affordable(predictor, sample(examples))
    if not chosen:
        return not_compared(SAMPLE_TOKENS)
    task = predictor.definition
    exact = Predictor(predictor.loaded.again(task.heads, predictor.device, "fp32"), task)
    return task.agreement(predictor.predict(chosen), exact.predict(chosen))


def _affordable(predictor: Predictor[Any], examples: Sequence[Any]) -> list[Any]:
    """Select examples, in order, that together fit into `SAMPLE_TOKENS`."""
    short = [example for example in examples if count_chars(example.content) <= SAMPLE_CHARS]
    if not short:
        return []
    chosen, left = [], SAMPLE_TOKENS
    for example, num_tokens in zip(short, predictor.encode_examples(short).lengths, strict=True):
        if num_tokens <= left:
            chosen.append(example)
            left -= num_tokens
    return chosen
