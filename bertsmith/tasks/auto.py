"""Prediction: the right predictor for a model folder, and predictions for any number of examples.

`load` returns the predictor of a folder; `iter_predictions` runs examples through one in bounded
memory.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bertsmith.data.windows import LongTexts
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.system.bounds import check_largest
from bertsmith.tasks.catalog import task_of_folder
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.inference import MISSING_HEAD, load_for_inference
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.task import Task
from bertsmith.tasks.text_vectors import TextVectors

CHUNK_EXAMPLES = 1024
"""Examples read, sorted by length and predicted together; more gains little and delays output."""
CHUNK_CHARS = 4_000_000
"""Most characters in such a chunk, which then has fewer examples."""

Item = TypeVar("Item", bound=Any)


def load(
    path: str | Path,
    *,
    device: str = "auto",
    precision: str = "auto",
    max_length: int | None = None,
) -> Predictor[Any]:
    """Load the predictor of a model folder, by its head.

    A fine-tuned model predicts as its task does (labels, numbers, spans, choices), a pre-trained
    one fills in [MASK], and one with neither gives vectors of texts.

    >>> classifier = load("runs/reviews")  # doctest: +SKIP
    >>> classifier("a gripping story").label  # doctest: +SKIP
    'positive'

    Raises:
        CheckpointError: the folder is incomplete, not a BERT, or a classifier of another kind.
        ConfigError: a device or precision that this machine does not have.
    """
    folder = read_folder(path)
    task = task_of_folder(folder)
    loaded = load_for_inference(
        folder,
        heads=() if task is None else task.heads,
        device=device,
        precision=precision,
        max_length=max_length,
    )
    if task is not None:
        return Predictor(loaded, task.restore(loaded))
    if "masked_lm" in loaded.model.heads:
        return Predictor(loaded, FillMask.restore(loaded))
    folder.check_classifier(None)
    return Predictor(loaded, TextVectors.restore(loaded))


def load_predictor(
    path: str | Path,
    *,
    device: str = "auto",
    precision: str = "auto",
    max_length: int | None = None,
    long_texts: LongTexts | None = None,
    stride: int | None = None,
) -> Predictor[Task[Any, Any]]:
    """Load the predictor of a fine-tuned model.

    Long texts are read as in training unless `long_texts` or `stride` is given.

    Raises:
        CheckpointError: as `load`; also if the model is of no task.
        ConfigError: as `load`; also if the task reads no windows.
    """
    folder = read_folder(path)
    predictor = predictor_of(folder, device=device, precision=precision, max_length=max_length)
    given = {"long_texts": long_texts, "stride": stride}
    return predictor.with_definition(with_windowing(predictor.definition, given))


def with_windowing(task: Task[Any, Any], given: Mapping[str, Any]) -> Task[Any, Any]:
    """Return a copy that treats long texts as `given`; None keeps a value.

    Raises:
        ConfigError: the task has no windows.
    """
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        return task
    if task.windowing is None:
        raise ConfigError(
            f"--long-texts, --stride: the task '{task.name}' reads no windows. Leave them out."
        )
    return replace(task, windowing=replace(task.windowing, **changes))  # type: ignore[type-var]


def predictor_of(
    folder: ModelFolder,
    *,
    device: str = "auto",
    precision: str = "auto",
    max_length: int | None = None,
) -> Predictor[Task[Any, Any]]:
    """Build the predictor of a folder's fine-tuned model.

    Raises:
        CheckpointError: as `load`; also if the model is of no task.
    """
    task = task_of_folder(folder)
    if task is None:
        folder.check_classifier(None)
        raise CheckpointError(f"{folder.path}: {MISSING_HEAD['classify']}")
    return Predictor.load(folder, task, device=device, precision=precision, max_length=max_length)


def iter_predictions(
    predictor: Predictor[Any], examples: Iterable[Item]
) -> Iterator[tuple[Item, Any]]:
    """Yield each example with its prediction, in order, in bounded memory."""
    for chunk in in_chunks(examples):
        yield from zip(chunk, predictor.predict(chunk), strict=True)


def in_chunks(examples: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield lists of `CHUNK_EXAMPLES` examples, or fewer long ones."""
    chunk: list[Item] = []
    num_chars = 0
    for example in examples:
        if len(chunk) == CHUNK_EXAMPLES or (chunk and num_chars + example.num_chars > CHUNK_CHARS):
            yield chunk
            chunk, num_chars = [], 0
        chunk.append(example)
        num_chars += example.num_chars
    if chunk:
        yield chunk


def rows_of(reader: Iterable[Item], limit: int | None) -> Iterable[Item]:
    """Return all examples of a reader, or its first `limit`.

    Raises:
        ConfigError: `limit` is not above 0.
    """
    check_limit(limit)
    return reader if limit is None else itertools.islice(reader, limit)


def check_limit(limit: int | None) -> None:
    """Raise ConfigError unless `limit` is above 0 or None."""
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit: found {limit}; allowed is a number above 0.")
    check_largest("limit", limit, "--limit")
