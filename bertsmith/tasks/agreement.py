"""Agreement of predictions in bf16 or int8 with those in fp32, on a sample of the user's texts."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_texts import Text
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Agreement
from bertsmith.tasks.text_vectors import TextEncoder

Item = TypeVar("Item")

SAMPLE_TEXTS = 32
SAMPLED_FROM = 1024
"""The sample is taken from so many of the first texts, so that files of any size can stream."""
SAMPLE_TOKENS = SAMPLE_TEXTS * 512
"""A sample has at most so many tokens, which `SAMPLE_TEXTS` of BERT's longest inputs have."""
SAMPLE_CHARS = 16 * SAMPLE_TOKENS
"""Longer texts are not even cut into tokens to see whether they may be in a sample."""


class CosineAgreement(NamedTuple):
    """Mean and worst cosine between sampled vectors and those in fp32."""

    mean: float
    worst: float
    num_texts: int

    @property
    def name(self) -> str:
        return "cosine"

    @classmethod
    def between(cls, mine: NDArray[np.float32], exact: NDArray[np.float32]) -> "CosineAgreement":
        """Compare vectors `[texts, hidden]`, row by row."""
        norms = np.linalg.norm(mine, axis=1) * np.linalg.norm(exact, axis=1)
        cosines = (mine * exact).sum(1) / np.maximum(norms, 1e-12)
        return cls(float(cosines.mean()), float(cosines.min()), len(cosines))

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} beside fp32 on {self.num_texts} of these texts: "
            f"cosine {self.mean:.5f} on average, {self.worst:.5f} at worst"
        )


class LabelAgreement(NamedTuple):
    """The number of sampled texts with another label in fp32."""

    num_changed: int
    num_texts: int

    @property
    def name(self) -> str:
        return "labels"

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} beside fp32 on {self.num_texts} of these texts: {self.num_changed} with "
            "another label"
        )


class AnswerAgreement(NamedTuple):
    """The number of sampled questions with another answer in fp32."""

    num_changed: int
    num_questions: int

    @property
    def name(self) -> str:
        return "answers"

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} beside fp32 on {self.num_questions} of these questions: "
            f"{self.num_changed} with another answer"
        )


class NumberAgreement(NamedTuple):
    """Mean and largest difference from fp32 of the numbers of a sample."""

    mean: float
    worst: float
    num_texts: int

    @property
    def name(self) -> str:
        return "numbers"

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} beside fp32 on {self.num_texts} of these texts: {self.mean:.4f} off on "
            f"average, {self.worst:.4f} at worst"
        )


class NotCompared(NamedTuple):
    """The result where no text was short enough for a second computation."""

    num_texts: int = 0
    max_tokens: int = SAMPLE_TOKENS

    @property
    def name(self) -> str:
        return "nothing"

    def sentence(self, precision: str) -> str:
        return (
            f"{precision} was not compared with fp32: each of the texts looked at has more than "
            f"{self.max_tokens:,} tokens, which would take long. --precision fp32 computes in it."
        )


def sample(texts: Sequence[Item]) -> list[Item]:
    """Choose at most `SAMPLE_TEXTS` of the items, evenly spread."""
    places = np.linspace(0, len(texts) - 1, min(len(texts), SAMPLE_TEXTS)).round().astype(int)
    return [texts[place] for place in places]


def cosine_agreement(encoder: TextEncoder, texts: Sequence[Text]) -> CosineAgreement:
    """Compare an encoder's vectors with those in fp32; needs a text."""
    chosen = sample(texts)
    exact = TextEncoder.load(
        encoder.loaded.path,
        device=str(encoder.loaded.device),
        precision="fp32",
        max_length=encoder.max_length,
        pooling=encoder.pooling,
    )
    return CosineAgreement.between(encoder(chosen), exact(chosen))


def agreement_with_fp32(predictor: Predictor[Any, Any, Any], examples: Sequence[Any]) -> Agreement:
    """Compare a predictor's answers with those in fp32.

    At most `SAMPLE_TOKENS` tokens are computed twice, however long the examples are.
    """
    chosen = affordable(predictor, sample(examples))
    if not chosen:
        return NotCompared()
    agreement: Agreement = predictor.task.agreement(
        predictor.predict(chosen), predictor.exact().predict(chosen)
    )
    return agreement


def affordable(predictor: Predictor[Any, Any, Any], examples: Sequence[Any]) -> list[Any]:
    """Select examples, in order, that together fit into `SAMPLE_TOKENS`."""
    short = [example for example in examples if example.num_chars <= SAMPLE_CHARS]
    if not short:
        return []
    chosen, left = [], SAMPLE_TOKENS
    for example, num_tokens in zip(short, predictor.encode_examples(short).lengths, strict=True):
        if num_tokens <= left:
            chosen.append(example)
            left -= num_tokens
    return chosen
