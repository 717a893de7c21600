"""Tasks of a model that writes its answer as a text, such as a T5.

The texts that it may answer are known beforehand. In training the right one is the target, and the
loss is that of each of its tokens. In prediction the texts are compared by their probabilities.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, cast

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example
from bertsmith.data.source_rows import encode_sources
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.protocols import PredictionT
from bertsmith.tasks.texts import TextTask
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import LossTerm

AnswerIds = tuple[tuple[int, ...], ...]
"""Token ids of each text that may be written, with the end token."""


class AnswerWriter(Protocol):
    """A model that writes answers (lineage/t5_classifier.py)."""

    def label_log_probs(self, batch: Batch, labels: AnswerIds) -> Tensor:
        """Compute the log-probability of each text, fp32 `[sequences, texts]`."""
        ...

    def label_loss(self, batch: Batch, targets: Sequence[Sequence[int]]) -> LossTerm:
        """Compute the loss of writing one target for each sequence, summed over tokens."""
        ...


@dataclass(frozen=True)
class WrittenTask(TextTask[PredictionT]):
    """A task whose answers are `written_texts`; its `targets` are indices of these."""

    end_id: int = field(default=0, kw_only=True)
    """The token that ends a text, and an answer."""
    answer_ids: AnswerIds = field(default=(), kw_only=True)

    rows_stay_together = False  # each window of a long text has the answer as its target

    @property
    @abstractmethod
    def written_texts(self) -> tuple[str, ...]:
        """The texts that the model may answer."""

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        task = super().restore(loaded)
        return task.with_vocabulary(loaded.tokenizer, loaded.model.config)

    def with_vocabulary(self, tokenizer: Tokenizer, config: BertConfig) -> Self:
        """Return a copy with the token ids of the answers.

        Raises:
            ConfigError: as `encode_answers`.
        """
        end_id: int = config.eos_token_id  # type: ignore[attr-defined]
        answer_ids = encode_answers(self.written_texts, tokenizer, end_id)
        return replace(self, end_id=end_id, answer_ids=answer_ids)

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        texts = ((example.text, example.pair) for example in examples)
        encoded = encode_sources(tokenizer, self.end_id, texts, max_length, self.windowing)
        if not labelled:
            return encoded
        return replace(encoded, example_targets={"labels": self.targets(examples)})

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        return cast(AnswerWriter, model).label_log_probs(batch, self.answer_ids)

    def training_loss(self, model: BertModel, batch: Batch) -> LossTerm:
        """Compute the loss of writing the answers, one token after another."""
        return cast(AnswerWriter, model).label_loss(batch, self._targets_of(batch))

    def num_predictions(self, batch: Batch, *, distilled: bool = False) -> int:
        """Count the tokens of the answers to write."""
        return sum(map(len, self._targets_of(batch)))

    def _targets_of(self, batch: Batch) -> AnswerIds:
        """Return the token ids of the answer to each sequence, in the batch's order."""
        numbers = batch.targets["labels"][batch.targets["example"]].tolist()
        return tuple(self.answer_ids[number] for number in numbers)


def encode_answers(texts: Sequence[str], tokenizer: Tokenizer, end_id: int) -> AnswerIds:
    """Encode answers to token ids, each with the end token.

    Raises:
        ConfigError: the vocabulary cannot spell a text, or spells two alike.
    """
    ids = tuple((*tokenizer.encode_ids(text), end_id) for text in texts)
    firsts: dict[tuple[int, ...], str] = {}
    for text, its_ids in zip(texts, ids, strict=True):
        if tokenizer.unk_id in its_ids:
            raise ConfigError(
                f"label {text!r}: the model writes labels as texts, and its vocabulary cannot "
                "spell this one. Rename the label, or choose a model with another vocabulary."
            )
        first = firsts.setdefault(its_ids, text)
        if first != text:
            raise ConfigError(
                f"labels {first!r} and {text!r}: the model writes labels as texts, and its "
                "vocabulary spells both alike. Rename one of them."
            )
    return ids
