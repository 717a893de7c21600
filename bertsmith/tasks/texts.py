"""The common base of tasks over texts and pairs of texts.

A long text is read in windows, whose logits are averaged in training as in prediction, so that the
loss is that of the prediction.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Columns, Example, ExampleReader
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.windows import Windowing, encode_windowed
from bertsmith.model.bert import BertModel
from bertsmith.tasks.inference import compute_in_order
from bertsmith.tasks.logits import sequence_logits
from bertsmith.tasks.prediction import PredictionT, text_example
from bertsmith.tasks.task import Task
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextTask(Task[Example, PredictionT]):
    """A task with a few logits per text or pair from the pooler."""

    labels: tuple[str, ...] = ()
    windowing: Windowing = Windowing()  # noqa: RUF009 - frozen
    pairs: bool | None = field(default=None, kw_only=True)
    """Whether the training examples were pairs of texts; None where that is not known."""

    pipeline: ClassVar[str] = "text-classification"
    example_type: ClassVar[type[Any]] = Example
    fields: ClassVar[tuple[str, ...]] = ("text", "pair")
    columns: ClassVar[type[Any]] = Columns
    rows_are_windows: ClassVar[bool] = True

    def reader(
        self, source: ExampleSource, columns: Columns | None, *, labelled: bool
    ) -> ExampleReader:
        """Return the rows of a table, with pairs as in training."""
        return ExampleReader(source, columns, labelled=labelled, pairs=self.pairs)

    def example(self, record: Mapping[str, Any]) -> Example:
        """Build an example of a text, or of two."""
        return text_example(record)

    @property
    def words_per_example(self) -> int:
        """Two for a model of pairs."""
        return 2 if self.pairs else 1

    @property
    def task_settings(self) -> dict[str, Any]:
        """The treatment of long texts, and whether examples are pairs."""
        return {**asdict(self.windowing), "pairs": self.pairs}

    @abstractmethod
    def targets(self, examples: Sequence[Example]) -> Mapping[str, NDArray[Any]]:
        """Return the labels of examples as named arrays `[examples, ...]`."""

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode each text or pair to a row, or to several windows."""
        texts = ((example.text, example.pair) for example in examples)
        encoded = encode_windowed(tokenizer, texts, max_length, self.windowing)
        return replace(encoded, example_targets=self.targets(examples)) if labelled else encoded

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute logits, fp32 `[sequences, outputs]`, in the batch's order."""
        assert self.head is not None
        return sequence_logits(model, batch, self.head)

    def logits(self, model: BertModel, encoded: EncodedExamples) -> NDArray[np.float32]:
        """Compute logits of all examples, in order, without gradients."""
        return encoded.mean_over_rows(compute_in_order(model, encoded.rows, self.outputs))
