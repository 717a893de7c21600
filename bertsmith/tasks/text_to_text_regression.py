"""Text-to-text regression: a model such as a T5 writes the number.

Labels are rounded to multiples of 0.2 and written with one decimal, as for STS-B in Raffel et al.
2020, section 2.4. The prediction is the mean of all numbers that may be written, each weighted by
its probability. This mean has the least expected squared error, and is not bound to multiples of
0.2.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.examples import Example
from bertsmith.data.labels import numeric_labels
from bertsmith.errors import CheckpointError, InputError
from bertsmith.model.bert import BertModel
from bertsmith.model.config_file import CONFIG_FILE, TASK_SETTINGS
from bertsmith.tasks.checked_examples import CHECKED_EXAMPLES
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.number_prediction import NumberPrediction
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.text_to_text_task import TextToTextTask

NUMBERS_PER_UNIT = 5
"""Numbers that may be written between two whole numbers: multiples of 1/5, the 0.2 of the paper."""
MAX_WRITTEN_NUMBERS = 101
"""Largest count of numbers that may be written; each takes one more pass through the decoder."""


@dataclass(frozen=True)
class TextToTextRegress(TextToTextTask[NumberPrediction], Regress):
    """Regression of a number on texts or pairs, which the model writes."""

    numbers: tuple[str, ...] = field(default=(), kw_only=True)
    """The numbers that may be written, in ascending order."""

    stored: ClassVar[tuple[str, ...]] = (*Regress.stored, "numbers")  # kept in config.json

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from a folder, which lists the numbers that the model writes.

        Raises:
            CheckpointError: the folder lists none, or a setting has a value that is not allowed.
        """
        if loaded.model.task_settings.get("numbers") is None:
            raise CheckpointError(
                f"{loaded.folder.files.path(CONFIG_FILE)}: '{TASK_SETTINGS}' does not list the "
                "'numbers' that this T5 writes. Copy the folder again, or fine-tune the model with "
                "'bertsmith finetune regress'."
            )
        return super().restore(loaded)

    @property
    def answers(self) -> tuple[str, ...]:
        """The texts that the model may write."""
        return tuple(self.numbers)  # config.json gives a list

    def with_numbers(self, train: Sequence[Example], path: Path) -> Self:
        """Return a copy that writes the numbers in the range of these labels.

        Raises:
            InputError: the range has more than `MAX_WRITTEN_NUMBERS` multiples of 0.2.
        """
        fifths = np.rint(numeric_labels(train, path) * NUMBERS_PER_UNIT)
        first, last = fifths.min(), fifths.max()
        if not 0 < last - first < MAX_WRITTEN_NUMBERS:
            raise InputError(
                f"{path}: the numbers are {first / NUMBERS_PER_UNIT:g} to "
                f"{last / NUMBERS_PER_UNIT:g}. A T5 writes multiples of {1 / NUMBERS_PER_UNIT}, 2 "
                f"to {MAX_WRITTEN_NUMBERS} of them. Write the numbers in another unit, or choose "
                "an encoder, such as a BERT."
            )
        numbers = np.arange(first, last + 1) / NUMBERS_PER_UNIT + 0.0  # + 0.0 makes 0.0 of -0.0
        written = tuple(f"{number:.1f}" for number in numbers.tolist())
        # The numbers are in the labels' unit, so there is nothing to standardize.
        return replace(self, numbers=written, mean=0.0, deviation=1.0)

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Average the numbers, weighted by their probabilities, to fp32 `[sequences, 1]`."""
        probabilities = super().outputs(model, batch).double().softmax(1)
        numbers = probabilities.new_tensor(list(map(float, self.numbers)))
        return (probabilities @ numbers).float()[:, None]

    def targets(self, examples: Sequence[Example]) -> NDArray[Any]:
        """Return the index of the written number that is nearest to each label, `[examples]`."""
        # The labels were checked when they were read, so no error names the placeholder of a file.
        fifths = np.rint(numeric_labels(examples, CHECKED_EXAMPLES) * NUMBERS_PER_UNIT)
        first = round(float(self.numbers[0]) * NUMBERS_PER_UNIT)
        return (fifths - first).clip(0, len(self.numbers) - 1).astype(np.int64)

    def continue_head(self, model: BertModel) -> None:
        """Do nothing, since there is no head with weights."""

    @contextlib.contextmanager
    def as_saved(self, model: BertModel) -> Iterator[dict[str, Tensor]]:
        """Convert nothing, since there is no head with weights."""
        yield {}


TASK = TextToTextRegress  # imported by catalog.py, which names this module
