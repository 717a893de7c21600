"""Texts in, what a model says about them out: the road from a folder to an answer.

`load` gives the predictor that fits the folder; `iter_predictions` runs any number of texts
through a classifier in bounded memory.
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bertsmith.data.encoded_texts import Text
from bertsmith.data.examples import Example
from bertsmith.model.huggingface import check_single_label
from bertsmith.tasks.classify import Classifier, Prediction
from bertsmith.tasks.embed import TextEncoder
from bertsmith.tasks.fill import MaskFiller
from bertsmith.tasks.inference import load_for_inference

CHUNK_TEXTS = 1024
"""Texts read, sorted by length and predicted together; more gains little and delays output."""

Predictor = Classifier | MaskFiller | TextEncoder


def load(path: str | Path, *, device: str = "auto", precision: str = "auto") -> Predictor:
    """The predictor for a model folder, by the head that it holds.

    A fine-tuned model gives a `Classifier` (texts to labels), a pre-trained one a `MaskFiller`
    (text with [MASK] to words), and one with neither head a `TextEncoder` (texts to vectors).

    >>> classifier = load("runs/reviews")  # doctest: +SKIP
    >>> classifier("a gripping story").label  # doctest: +SKIP
    'positive'

    Raises:
        CheckpointError: the folder is incomplete, not a BERT, or a classifier that does not
            choose one label.
        ConfigError: a device or precision that this machine does not have.
    """
    loaded = load_for_inference(path, head=None, device=device, precision=precision)
    if "classify" in loaded.model.heads:
        return Classifier(loaded)
    if "masked_lm" in loaded.model.heads:
        return MaskFiller(loaded)
    check_single_label(loaded.path)
    return TextEncoder(loaded)


def iter_predictions(
    classifier: Classifier, examples: Iterable[Example]
) -> Iterator[tuple[Example, Prediction]]:
    """Each example with its prediction, in order; `CHUNK_TEXTS` examples are held at a time."""
    for chunk in in_chunks(examples):
        yield from zip(chunk, classifier([as_text(example) for example in chunk]), strict=True)


def in_chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    """The examples in lists of `CHUNK_TEXTS`, the last one shorter."""
    remaining = iter(examples)
    while chunk := list(itertools.islice(remaining, CHUNK_TEXTS)):
        yield chunk


def as_text(example: Example) -> Text:
    """The example's text, or its pair of texts."""
    return example.text if example.pair is None else (example.text, example.pair)


def to_json(example: Example, prediction: Prediction) -> dict[str, Any]:
    """One line of a file of predictions."""
    pair = {} if example.pair is None else {"pair": example.pair}
    return {
        "row": example.row,
        "text": example.text,
        **pair,
        "label": prediction.label,
        "probability": prediction.probability,
        "probabilities": dict(prediction.probabilities),
        "is_truncated": prediction.is_truncated,
    }
