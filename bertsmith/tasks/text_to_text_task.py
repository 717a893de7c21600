"""Text-to-text tasks: the model writes its answer as a text, as a T5 does.

The possible answers, such as the names of classes, are known beforehand. In training the right
answer is the target, with a loss for each of its tokens. In prediction the answers are compared by
their probabilities.
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
"""The token ids of several answers, each with the end token."""


class TextToTextModel(Protocol):
    """A model with an encoder, which reads the text, and a decoder, which writes the answer."""

    def label_log_probs(self, batch: Batch, labels: AnswerIds) -> Tensor:
        """Compute the log-probability of each answer, fp32 `[sequences, answers]`."""
        ...

    def label_loss(self, batch: Batch, targets: Sequence[Sequence[int]]) -> LossTerm:
        """Compute the loss of writing one answer for each sequence, summed over tokens.

        `targets` are the token ids of the right answer to each sequence, with the end token.
        """
        ...


@dataclass(frozen=True)
class TextToTextTask(TextTask[PredictionT]):
    """A task whose `targets` are indices of its possible `answers`."""

    end_id: int = field(default=0, kw_only=True)
    """The id of the end token, </s> of T5, which follows each text and each answer."""
    answer_ids: AnswerIds = field(default=(), kw_only=True)
    """The token ids of all `answers`, in their order."""

    rows_stay_together = False  # each window of a long text has the answer as its target

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """The possible answers, such as the names of classes."""

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        task = super().restore(loaded)
        return task.with_vocabulary(loaded.tokenizer, loaded.model.config)

    def with_vocabulary(self, tokenizer: Tokenizer, config: BertConfig) -> Self:
        """Return a copy with the token ids of the answers, by the model's tokenizer and config.

        Raises:
            ConfigError: the vocabulary cannot spell an answer, or spells two alike.
        """
        end_id: int = config.eos_token_id  # type: ignore[attr-defined]
        answer_ids = encode_answers(self.answers, tokenizer, end_id)
        return replace(self, end_id=end_id, answer_ids=answer_ids)

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        """Encode each text or pair to a row, or to several windows, overlapping parts.

        If `labelled`, the target is the index of the right answer, `labels`, `[examples]`.
        """
        texts = ((example.text, example.pair) for example in examples)
        encoded = encode_sources(tokenizer, self.end_id, texts, max_length, self.windowing)
        if not labelled:
            return encoded
        return replace(encoded, example_targets={"labels": self.targets(examples)})

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute the log-probability of each answer, fp32 `[sequences, answers]`."""
        return cast(TextToTextModel, model).label_log_probs(batch, self.answer_ids)

    def training_loss(self, model: BertModel, batch: Batch) -> LossTerm:
        """Compute the loss of writing the right answers, one token after another."""
        return cast(TextToTextModel, model).label_loss(batch, self._right_answers(batch))

    def num_predictions(self, batch: Batch, *, distilled: bool = False) -> int:
        """Count the tokens of the right answers."""
        return sum(map(len, self._right_answers(batch)))

    def _right_answers(self, batch: Batch) -> AnswerIds:
        """Return the token ids of the right answer to each sequence, in the batch's order.

        An example may have several sequences, the windows of a long text, all with one answer.
        """
        example_of_sequence = batch.targets["example"]
        answer_indices = batch.targets["labels"][example_of_sequence].tolist()
        return tuple(self.answer_ids[index] for index in answer_indices)


def encode_answers(texts: Sequence[str], tokenizer: Tokenizer, end_id: int) -> AnswerIds:
    """Encode answers to token ids, each with the end token.

    Raises:
        ConfigError: the vocabulary cannot spell a text, or spells two alike.
    """
    answer_ids = tuple((*tokenizer.encode_ids(text), end_id) for text in texts)
    text_of_ids: dict[tuple[int, ...], str] = {}
    for text, ids in zip(texts, answer_ids, strict=True):
        if tokenizer.unk_id in ids:
            raise ConfigError(
                f"label {text!r}: the model writes labels as texts, and its vocabulary cannot "
                "spell this one. Rename the label, or choose a model with another vocabulary."
            )
        earlier_text = text_of_ids.setdefault(ids, text)
        if earlier_text != text:
            raise ConfigError(
                f"labels {earlier_text!r} and {text!r}: the model writes labels as texts, and its "
                "vocabulary spells both alike. Rename one of them."
            )
    return answer_ids
