"""How close a computation in bf16 or int8 comes to fp32, on a sample of the texts at hand."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bertsmith.data.encoded_texts import Text
from bertsmith.tasks.classify import Classifier
from bertsmith.tasks.embed import TextEncoder

SAMPLE_TEXTS = 32
SAMPLED_FROM = 1024
"""The sample is taken from so many of the first texts, so that files of any size can stream."""


class CosineAgreement(NamedTuple):
    """Mean and worst cosine between the vectors of a sample in some precision and in fp32."""

    mean: float
    worst: float
    num_texts: int

    def sentence(self, precision: str) -> str:
        """The same for people."""
        return (
            f"{precision} beside fp32 on {self.num_texts} of these texts: "
            f"cosine {self.mean:.5f} on average, {self.worst:.5f} at worst"
        )


class LabelAgreement(NamedTuple):
    """How many texts of a sample have another label in fp32."""

    num_changed: int
    num_texts: int

    def sentence(self, precision: str) -> str:
        """The same for people."""
        return (
            f"{precision} beside fp32 on {self.num_texts} of these texts: {self.num_changed} with "
            "another label"
        )


def sample(texts: Sequence[Text]) -> list[Text]:
    """At most `SAMPLE_TEXTS` of the texts, evenly spread."""
    places = np.linspace(0, len(texts) - 1, min(len(texts), SAMPLE_TEXTS)).round().astype(int)
    return [texts[place] for place in places]


def cosine_agreement(encoder: TextEncoder, texts: Sequence[Text]) -> CosineAgreement:
    """Compare an encoder with the same one in fp32; `texts` must not be empty."""
    chosen = sample(texts)
    exact = TextEncoder.load(
        encoder.loaded.path,
        device=str(encoder.loaded.device),
        precision="fp32",
        max_length=encoder.max_length,
        pooling=encoder.pooling,
    )
    mine, theirs = encoder(chosen), exact(chosen)
    norms = np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines = (mine * theirs).sum(1) / np.maximum(norms, 1e-12)
    return CosineAgreement(float(cosines.mean()), float(cosines.min()), len(chosen))


def label_agreement(classifier: Classifier, texts: Sequence[Text]) -> LabelAgreement:
    """Compare a classifier with the same one in fp32."""
    chosen = sample(texts)
    loaded = classifier.loaded
    exact = Classifier.load(
        loaded.path,
        device=str(loaded.device),
        precision="fp32",
        max_length=loaded.max_length,
    )
    pairs = zip(classifier.labels(chosen), exact.labels(chosen), strict=True)
    return LabelAgreement(sum(mine != theirs for mine, theirs in pairs), len(chosen))
