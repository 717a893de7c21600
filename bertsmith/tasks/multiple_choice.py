"""Multiple choice: which of several texts, the choices, fits a prompt best.

Each choice is read beside the prompt and gets one logit from the pooler's vector; probabilities are
the softmax over a prompt's choices (Devlin et al. 2019, section 4.4), so prompts may have different
numbers of choices. A long prompt is read in windows, overlapping parts, which are the same for all
its choices. The logits of a choice's windows are averaged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.columns import ChoiceColumns
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import as_list, check_string
from bertsmith.data.multiple_choice import ChoiceExample, ChoiceReader
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.data.windowing import Windowing
from bertsmith.data.windows import Windows, join_windows, make_windows
from bertsmith.errors import InputError, option
from bertsmith.metrics.multiple_choice import ChoiceReport
from bertsmith.model.bert import BertModel
from bertsmith.tasks.choice_baselines import ChoiceBaselines
from bertsmith.tasks.choice_prediction import ChoicePrediction
from bertsmith.tasks.logits import sequence_logits
from bertsmith.tasks.prediction import single_text
from bertsmith.tasks.probabilities import softmax64
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.settings.choose import ChooseSettings
from bertsmith.tasks.soft_targets import soft_class_loss
from bertsmith.tasks.task import Task
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import LossTerm

CHANCE_LIMIT = 0.01
"""An observation that has at most this probability by chance is taken for a mistake in the data."""


class ChoiceAccumulator(PredictionCounts):
    """Accumulator of right choices, and of the cross entropy."""

    metrics = ("accuracy",)  # by which the best weights may be chosen

    def __init__(self) -> None:
        self.num_right = 0
        self.chance = 0.0
        """Expected number of right choices of a random guess."""

    def add(
        self, examples: Sequence[ChoiceExample], predictions: Sequence[ChoicePrediction]
    ) -> None:
        for example, prediction in zip(examples, predictions, strict=True):
            assert example.label is not None
            prob_right = max(prediction.probabilities[example.label], np.finfo(np.float64).tiny)
            self.loss -= float(np.log(prob_right))
            self.chance += 1 / len(example.choices)
            self.num_right += prediction.number == example.label
        self.count(predictions)

    def result(self, num_skipped: int = 0) -> ChoiceReport:
        return ChoiceReport(
            accuracy=self.num_right / self.num_predictions,
            chance=self.chance / self.num_predictions,
            num_prompts=self.num_predictions,
            **self.counts(num_skipped),
        )


@dataclass(frozen=True)
class Choose(Task[ChoiceExample, ChoicePrediction]):
    """The task of multiple choice."""

    windowing: Windowing = Windowing()  # noqa: RUF009 - frozen
    """Treatment of long prompts: windows, or a cut."""
    trained: TrainingColumns = field(default_factory=TrainingColumns, kw_only=True, compare=False)
    """The columns that the model was trained on, which it looks for in other files."""

    titles = ("number", "probability", "prompt", "choice")  # of the columns of predictions
    name = "choose"  # of the command, and of the loss among a run's metrics
    baselines = ChoiceBaselines()
    noun = "prompt"  # of an example, in messages
    target_phrase = "with choices"  # follows the number of examples in messages
    settings = ChooseSettings
    pipeline = "multiple-choice"
    example_type = ChoiceExample
    fields = ("text", "choices")  # the keys of an example that is given as a dictionary
    texts_per_example = None  # all texts of a command line are one example
    columns = ChoiceColumns  # the options for reading a file
    heads = ("choose",)
    cell_types: ClassVar = {"label": int, "choice": str, "probability": float}  # of a table
    rows_are_windows = True  # training may drop some windows of a very long prompt

    @classmethod
    def of_examples(cls, train: list[ChoiceExample], settings: ChooseSettings) -> Self:
        return cls(settings.windowing)

    def reader(
        self, source: ExampleSource, columns: ChoiceColumns | None, *, labelled: bool
    ) -> ChoiceReader:
        """Open the rows of a table, with the numbers of the right choices if `labelled`."""
        return ChoiceReader(source, columns, labelled=labelled, trained=self.trained)

    def example(self, record: Mapping[str, Any]) -> ChoiceExample:
        """Build an example from the fields `text`, the prompt, and `choices`, a list of texts.

        Raises:
            InputError: the prompt or a choice is missing or no string, or there are fewer than two
                choices.
        """
        prompt = single_text(record)
        choices = as_list(record.get("choices"), "'choices'", example="the texts of one row")
        for index, choice in enumerate(choices):
            check_string(f"choice {index}", choice)
        if len(choices) < 2:
            raise InputError(f"'choices': found {len(choices)}. Give two or more.")
        return ChoiceExample(prompt, tuple(choices), row=record.get("row", 0))

    def notes(self, examples: Sequence[ChoiceExample], encoded: EncodedExamples) -> list[str]:
        """Warn if the first choice is never right, which is unlikely by chance."""
        # The probability that random labels are never 0.
        prob_by_chance = math.prod(1 - 1 / len(example.choices) for example in examples)
        if prob_by_chance > CHANCE_LIMIT or any(example.label == 0 for example in examples):
            return []
        return [
            "the first choice is right in none of the rows; if labels are numbers, "
            f"{option('first_label')} gives the number of the first choice"
        ]

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[ChoiceExample],
        max_length: int,
        *,
        labelled: bool,
    ) -> EncodedExamples:
        """Encode a row for each choice and window, choice by choice.

        Targets: `choice`, int64 `[rows]`, the index of the row's choice; `num_choices`, int64
        `[examples]`, and if `labelled` `labels`, the indices of the right choices.
        """
        counts = np.array([len(example.choices) for example in examples], dtype=np.int64)
        targets = {"num_choices": counts}
        if labelled:
            targets["labels"] = np.array([example.label for example in examples], dtype=np.int64)
        encoded = join_windows(
            [
                windows
                for example in examples
                for windows in encode_choices(tokenizer, example, max_length, self.windowing)
            ]
        )
        choices = np.array([choice for count in counts for choice in range(count)], np.int64)
        # So far each choice is an example, whose rows are its windows. From here on, an example is
        # a prompt, with the rows of all its choices.
        return replace(
            encoded,
            starts=encoded.starts[np.cumsum([0, *counts])],  # the first row of each prompt
            example_targets=targets,
            row_targets={"choice": np.repeat(choices, np.diff(encoded.starts))},
            num_parts=counts,  # the parts of an example, each with its own windows, are its choices
        )

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Compute cross entropy over each prompt's choices, summed over the prompts.

        `outputs` are fp32 logits `[sequences, 1]`, one for each window of each choice.
        """
        logits = choice_logits(outputs[:, 0], batch)
        labels = batch.targets["labels"]
        return LossTerm(
            sum=F.cross_entropy(logits, labels, reduction="sum"),
            correct=(logits.argmax(-1) == labels).sum(),
            count=len(labels),
        )

    def distillation_loss(
        self, outputs: Tensor, teacher_outputs: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the divergence of the choices' probabilities, summed over the prompts.

        The second result counts the prompts for which student and teacher choose alike.
        """
        logits = choice_logits(outputs[:, 0], batch)
        teacher_logits = choice_logits(teacher_outputs[:, 0], batch)
        return soft_class_loss(logits, teacher_logits, temperature)

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        return sequence_logits(model, batch, "choose")

    def decode(
        self,
        outputs: NDArray[np.float32],
        encoded: EncodedExamples,
        examples: Sequence[ChoiceExample],
    ) -> list[ChoicePrediction]:
        """Choose by the logits of the choices, each a mean over the choice's windows.

        `outputs` are the logits of all rows, fp32 `[rows, 1]`.
        """
        logits = outputs[:, 0]
        predictions = []
        for index, example in enumerate(examples):
            rows = encoded.rows_of(index)
            # [choices, windows], as all choices have equally many windows
            window_logits = logits[rows.start : rows.stop].reshape(len(example.choices), -1)
            probabilities = softmax64(window_logits.mean(1))
            number = int(probabilities.argmax())
            predictions.append(
                ChoicePrediction(
                    number,
                    example.choices[number],
                    tuple(probabilities.tolist()),
                    is_truncated=encoded.num_cut[index] > 0,
                    num_windows=window_logits.shape[1],
                )
            )
        return predictions

    def cells(self, prediction: ChoicePrediction) -> dict[str, Any]:
        return {
            "label": prediction.number,
            "choice": prediction.text,
            "probability": prediction.probability,
        }

    def accumulator(self, path: Path) -> ChoiceAccumulator:
        return ChoiceAccumulator()

    def outcome(self, example: ChoiceExample, prediction: ChoicePrediction) -> Outcome:
        assert example.label is not None
        return Outcome(
            text=example.text,
            gold=example.choices[example.label],
            predicted=prediction.text,
            score=float(prediction.number == example.label),
            confidence=prediction.probability,
        )


def encode_choices(
    tokenizer: Tokenizer, example: ChoiceExample, max_length: int, windowing: Windowing
) -> list[Windows]:
    """Encode each choice beside each window of the prompt; return the windows of each choice.

    A row holds a window and the choice. The windows of the prompt are the same for all choices. A
    choice is cut only if it is longer than half of a row and does not fit beside the prompt.
    """
    prompt = tokenizer.encode_ids(example.text)
    choices = [tokenizer.encode_ids(choice) for choice in example.choices]
    num_text_tokens = max_length - tokenizer.num_special_tokens(2)  # two texts in a row
    # A choice may take half of a row, or all that the prompt leaves free.
    max_choice_length = max(num_text_tokens // 2, num_text_tokens - max(1, len(prompt)))
    longest = min(max(map(len, choices)), max_choice_length)
    stride = windowing.overlap(max_length)
    reads_windows = windowing.long_texts == "window"
    prompt_ids = prompt if reads_windows else prompt[: num_text_tokens - longest]
    num_cut = len(prompt) - len(prompt_ids)
    encoded = []
    for choice in choices:
        ids = choice[:longest]
        # The row of a shorter choice is shorter, too, so that all choices have the same windows.
        length = max_length - longest + len(ids)
        # `windowed=0`: the first text, the prompt, is divided.
        windows = make_windows(tokenizer, [prompt_ids, ids], length, stride, windowed=0)
        encoded.append(replace(windows, num_cut=num_cut + len(choice) - len(ids)))
    return encoded


def choice_logits(row_logits: Tensor, batch: Batch) -> Tensor:
    """Average logits `[sequences]` over windows to `[examples, most choices of an example]`.

    A sequence is a window of a prompt with one of its choices; an example is a prompt. Prompts with
    fewer choices are padded with minus infinity.
    """
    counts = batch.targets["num_choices"]
    width = int(counts.max())
    # The flat index of each row's cell in the matrix `[examples, width]`.
    cells = batch.targets["example"] * width + batch.targets["choice"]
    total = row_logits.new_zeros(len(counts) * width).index_add(0, cells, row_logits)
    num_rows = torch.bincount(cells, minlength=len(total))
    is_absent = num_rows == 0
    means = (total / num_rows.clamp(min=1)).masked_fill(is_absent, -torch.inf)
    return means.view(len(counts), width)


TASK = Choose  # imported by catalog.py, which names this module
