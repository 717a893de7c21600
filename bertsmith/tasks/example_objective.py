"""The fine-tuning objective of any task, which makes batches and losses from encoded examples.

The training loop asks an objective for the batches and the losses of each step. Examples are
shuffled in each epoch. The examples of a step are divided into shares, which processes compute at
the same time, and a share into micro-batches, each one forward pass. An example has one row of
tokens or several, such as the windows of a long text, which stay in one micro-batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from bertsmith.config import to_jsonable
from bertsmith.data.batches import Batch, pack
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.length_groups import deal_by_length, group_by_length
from bertsmith.model.bert import BertModel
from bertsmith.model.vocabulary_subset import VocabularySubset
from bertsmith.tasks.task import Task
from bertsmith.training.interleave import interleave
from bertsmith.training.objective import LossTerm, Objective

MICRO_BATCH_TOKENS = 8_192
"""Largest number of tokens in one forward pass of training, enough for 16 texts of 512 tokens. The
limit bounds the memory. If the windows of one text have more tokens, only some windows are used."""


@dataclass(frozen=True)
class TrainingExamples:
    """Encoded training examples, and the row of each in its file.

    `num_windowed` counts the texts that were too long for one row of tokens and were read in
    windows. `num_truncated` counts those that lost some tokens. `notes` are other remarks for the
    user.
    """

    encoded: EncodedExamples
    path: Path
    rows: Sequence[int]
    """Row of each example in its file, counted from 1."""
    num_windowed: int = 0
    num_truncated: int = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.encoded)


@dataclass(frozen=True)
class HeldOutExamples:
    """Eval examples, as read and encoded."""

    encoded: EncodedExamples
    path: Path
    examples: Sequence[Any]


@dataclass(frozen=True)
class TaskEvaluation:
    """The evaluation of a task's model on its eval examples.

    Each of several ranks predicts a part of the examples, and `combine` scores all parts.
    """

    task: Task[Any, Any]
    held_out: HeldOutExamples

    def evaluate_part(self, model: BertModel, part: int, num_parts: int) -> list[Any]:
        """Predict every `num_parts`-th example, from example `part` on."""
        encoded = self.held_out.encoded
        examples = self.held_out.examples
        if num_parts > 1:
            chosen = range(part, len(examples), num_parts)
            encoded = encoded.select(chosen)
            examples = [examples[index] for index in chosen]
        return self.task.predict(model, encoded, examples) if examples else []

    def combine(self, results: Sequence[list[Any]]) -> dict[str, float]:
        """Compute loss and scores from the predictions of all parts."""
        examples = self.held_out.examples
        if not examples:
            return {}
        accumulator = self.task.accumulator(self.held_out.path)  # it adds up losses and scores
        accumulator.add(examples, interleave(results))  # the predictions in the order of the file
        metrics = accumulator.compute_metrics()
        named = {f"held_out_{self.task.name}_{name}": value for name, value in metrics.items()}
        return {"held_out_loss": metrics["loss"], **named}


class ExampleObjective(Objective[BertModel, Batch], Protocol):
    """An objective over the examples of a task, such as `FineTuning`."""

    @property
    def task(self) -> Task[Any, Any]: ...

    @property
    def train(self) -> TrainingExamples: ...

    @property
    def held_out(self) -> HeldOutExamples: ...

    @property
    def num_shares(self) -> int:
        """The number of shares that a step is divided into."""
        ...

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps that see every example once."""
        ...

    def narrow_vocabulary(self, model: BertModel) -> VocabularySubset:
        """Shrink the model's embeddings to the tokens of the examples, and renumber their ids."""
        ...


class FineTuning(Objective[BertModel, Batch]):
    """The objective of a task over `batch_size` examples a step.

    Args:
        task: the task, which computes losses and predictions.
        train: the examples to learn from.
        held_out: the examples to score; may be empty.
        batch_size: examples in one step; the last step of an epoch takes the remaining ones.
        num_shares: shares of a step, computed at the same time.
        micro_batch_tokens: tokens in one forward pass; a share with more is divided.
        seed: determines the order of the examples.
    """

    def __init__(
        self,
        task: Task[Any, Any],
        train: TrainingExamples,
        held_out: HeldOutExamples,
        *,
        batch_size: int = 16,
        num_shares: int = 1,
        micro_batch_tokens: int = MICRO_BATCH_TOKENS,
        seed: int = 0,
    ) -> None:
        self.task = task
        self.train = train
        self.held_out = held_out
        self.batch_size = batch_size
        # More shares than examples would leave some empty (only the last step of an epoch, which
        # may be short, does). If the loss compares groups of examples, there are at most as many
        # shares as groups, which stay whole.
        self.num_shares = min(num_shares, -(-batch_size // (task.group_size or 1)))
        self.micro_batch_tokens = micro_batch_tokens
        self.seed = seed
        # The digests show whether a resumed run has the same examples. They are computed before
        # `narrow_vocabulary` remaps token ids, as the new ids depend on both sets of examples.
        self._digests = train.encoded.digest(), held_out.encoded.digest()
        # Order and micro-batches are kept, so that they are not computed anew for each micro-batch.
        # The epoch that was shuffled last, from 0, and its order; -1 before the first one.
        self._shuffled: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, dtype=np.int64))
        # The step that was divided last, from 1, and its micro-batches; 0 before the first one.
        self._grouped: tuple[int, list[list[int]]] = (0, [])

    def __getstate__(self) -> dict[str, Any]:
        """Pickle all but the eval examples, which may be large, for worker processes.

        The workers only compute shares of a step, and never evaluate.
        """
        return {name: value for name, value in vars(self).items() if name != "held_out"}

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self.train) // self.batch_size)

    def narrow_vocabulary(self, model: BertModel) -> VocabularySubset:
        subset = VocabularySubset.of(model, self.token_ids)
        self.renumber(subset.new_ids)
        subset.shrink(model)
        return subset

    @property
    def token_ids(self) -> list[NDArray[np.int32]]:
        """The token ids of training and of eval, each int32 `[tokens]`."""
        return [self.train.encoded.rows.ids.flat, self.held_out.encoded.rows.ids.flat]

    def renumber(self, new_ids: NDArray[np.int32]) -> None:
        """Replace each token id `i` by `new_ids[i]`, int32 `[vocabulary]`."""
        train, held_out = self.train, self.held_out
        self.train = replace(train, encoded=train.encoded.remap_ids(new_ids))
        self.held_out = replace(held_out, encoded=held_out.encoded.remap_ids(new_ids))

    def num_micro_batches(self, step: int) -> int:
        return len(self._groups(step))

    def micro_batch(self, step: int, index: int) -> Batch:
        """Return micro-batch `index`, from 0, of step `step`, from 1."""
        encoded = self.train.encoded
        group = self._groups(step)[index]
        first_rows = self._first_rows(step)
        # The index of each row among all rows of the step, by which dropout is drawn. Here the rows
        # are in the order of `group`; `with_step_indices` puts them in that of the batch.
        step_indices = [
            first_rows[i] + row for i in group for row in range(len(encoded.rows_of(i)))
        ]
        return collate(encoded, group).with_step_indices(step_indices)

    def num_rows(self, step: int) -> int:
        """Count the rows of all examples of a step."""
        return sum(len(self.train.encoded.rows_of(i)) for i in self.chosen(step))

    def _first_rows(self, step: int) -> dict[int, int]:
        """Return the index, among all rows of the step, of each example's first row."""
        chosen = self.chosen(step)
        counts = [len(self.train.encoded.rows_of(i)) for i in chosen]
        return dict(zip(chosen, accumulate(counts, initial=0), strict=False))

    def _groups(self, step: int) -> list[list[int]]:
        """Return the indices of the examples of each micro-batch of a step."""
        grouped_step, groups = self._grouped
        if grouped_step != step:
            groups = list(self._divide(self.chosen(step)))
            self._grouped = (step, groups)
        return groups

    def _divide(self, chosen: list[int]) -> Iterator[list[int]]:
        """Divide the examples at the indices `chosen` into micro-batches; yield their indices.

        If the loss compares `group_size` examples with one another, each micro-batch is a group of
        that size, in the order of `chosen`. Otherwise the shares are divided by length.
        """
        size = self.task.group_size
        if size is not None:
            for first in range(0, len(chosen), size):
                yield chosen[first : first + size]
            return
        lengths = self.train.encoded.lengths
        # Each share has long and short examples and about as many tokens as the others; a
        # micro-batch of a share has examples of similar length.
        for positions in deal_by_length([lengths[i] for i in chosen], self.num_shares):
            share = [chosen[position] for position in positions]
            share_lengths = [lengths[i] for i in share]
            for group in group_by_length(share_lengths, self.micro_batch_tokens):
                yield [share[position] for position in group]

    def chosen(self, step: int) -> list[int]:
        """Return the indices of a step's training examples."""
        epoch, batch_index = divmod(step - 1, self.steps_per_epoch)
        shuffled_epoch, order = self._shuffled
        if shuffled_epoch != epoch:
            order = self.draw_order(np.random.default_rng((self.seed, epoch)))
            self._shuffled = (epoch, order)
        # The last step of an epoch may have fewer examples.
        return order[batch_index * self.batch_size : (batch_index + 1) * self.batch_size].tolist()

    def draw_order(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the order in which an epoch takes the examples, int64 `[examples]`."""
        return rng.permutation(len(self.train))

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count the predictions over which the loss is summed, by the name of the loss."""
        return {self.task.name: self.task.num_predictions(batch)}

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        return {self.task.name: self.task.training_loss(model, batch)}

    @property
    def evaluation(self) -> TaskEvaluation:
        return TaskEvaluation(self.task, self.held_out)

    def describe(self, step: int) -> str:
        """Name the rows of the training file that a step takes."""
        rows = sorted({self.train.rows[i] for i in self.chosen(step)})
        return f"{self.train.path}: rows {', '.join(map(str, rows))}"

    def identity(self) -> dict[str, Any]:
        """Return the facts about task and examples that must be the same in a resumed run."""
        return {
            "task": self.task.name,
            "task_settings": to_jsonable(self.task),
            "train_sha256": self._digests[0],
            "held_out_sha256": self._digests[1],
        }


def training_examples(
    task: Task[Any, Any],
    encoded: EncodedExamples,
    path: Path,
    examples: Sequence[Any],
    *,
    labelled: bool = True,
) -> TrainingExamples:
    """Prepare encoded examples for training, with the task's notes if they are labelled.

    If the task does not keep rows together, each row becomes an example of its own. If the windows
    of an example have more than `MICRO_BATCH_TOKENS` tokens, some of the windows are left out.
    """
    notes = tuple(task.notes(examples, encoded)) if labelled else ()
    if task.rows_are_windows:
        encoded = encoded.limit_tokens(MICRO_BATCH_TOKENS)
    rows = [example.row for example in examples]  # of the file, not of tokens
    encoded_for_training = encoded
    if not task.rows_stay_together:
        encoded_for_training = encoded.by_row()
        rows = [rows[example] for example in encoded.example_of_row().tolist()]
    # Where a task reads no windows, as in the training of vectors of texts, several rows are the
    # texts of an example that are compared.
    num_windowed = 0 if task.windowing is None else encoded.num_windowed
    return TrainingExamples(
        encoded_for_training, path, rows, num_windowed, encoded.num_truncated, notes
    )


def collate(encoded: EncodedExamples, indices: Sequence[int]) -> Batch:
    """Pack all rows of the examples at `indices` into one batch.

    Each row becomes a sequence of the batch. The batch's `targets` hold those of `encoded` and
    three more:

    - `example`, int64 `[sequences]`: the example of each sequence, as an index into `indices`;
    - `row_index`, int64 `[sequences]`: the index of the sequence among the rows of its example;
    - `num_examples`, a scalar.

    Targets of examples have the order of `indices`. Targets of rows and tokens have the order of
    the packed sequences.
    """
    rows = [row for index in indices for row in encoded.rows_of(index)]
    texts = encoded.rows
    batch = pack([texts.ids[row] for row in rows], [texts.type_ids[row] for row in rows])
    order = list(batch.order)  # the packed sequences, longest first, as indices into `rows`
    packed_rows = [rows[index] for index in order]
    num_rows = [len(encoded.rows_of(index)) for index in indices]
    example_of_row = np.repeat(np.arange(len(indices), dtype=np.int64), num_rows)
    row_indices = np.concatenate([np.arange(count, dtype=np.int64) for count in num_rows])
    targets = {
        "example": example_of_row[order],
        "row_index": row_indices[order],
        "num_examples": np.array(len(indices)),
    }
    for name, values_of_examples in encoded.example_targets.items():
        targets[name] = values_of_examples[list(indices)]
    for name, values_of_rows in encoded.row_targets.items():
        targets[name] = values_of_rows[packed_rows]
    for name, values_of_tokens in encoded.token_targets.items():
        targets[name] = np.concatenate([values_of_tokens[row] for row in packed_rows])
    tensors = {name: torch.from_numpy(array) for name, array in targets.items()}
    return replace(batch, targets=tensors)
