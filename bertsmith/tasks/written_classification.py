"""Classification by a model that writes the name of the class, such as a T5.

In training the name is the target of the text, and the loss is that of each of its tokens. A
class's probability is that of its name given the text, in proportion to those of all classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, Self, cast

from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example
from bertsmith.data.source_rows import encode_sources
from bertsmith.errors import ConfigError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.model_folder import ModelFolder
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.settings.losses import LossSettings
from bertsmith.tasks.task import Task
from bertsmith.tasks.text_classification import Classify
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import LossTerm

LabelIds = tuple[tuple[int, ...], ...]
"""Token ids of each label's name, with the end token."""
UNUSED = ("from_scratch", "class_weights", "label_smoothing", "focal_gamma")
"""Settings that have no use for a model that writes names."""


class LabelWriter(Protocol):
    """A model that writes names of classes (lineage/t5_classifier.py)."""

    def label_log_probs(self, batch: Batch, labels: LabelIds) -> Tensor:
        """Compute the log-probability of each label, fp32 `[sequences, labels]`."""
        ...

    def label_loss(self, batch: Batch, targets: Sequence[Sequence[int]]) -> LossTerm:
        """Compute the loss of writing one target for each sequence, summed over tokens."""
        ...


@dataclass(frozen=True)
class WrittenClassify(Classify):
    """Classification with one label per text or pair, which the model writes."""

    end_id: int = field(default=0, kw_only=True)
    """The token that ends a text, and a name."""
    label_ids: LabelIds = field(default=(), kw_only=True)

    heads: ClassVar[tuple[str, ...]] = ("classify",)
    rows_stay_together = False  # each window of a long text has the name as its target

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        task = super().restore(loaded)
        return task.with_vocabulary(loaded.tokenizer, loaded.model.config)

    def with_vocabulary(self, tokenizer: Tokenizer, config: BertConfig) -> Self:
        """Return a copy with the token ids of the labels.

        Raises:
            ConfigError: as `encode_labels`.
        """
        end_id: int = config.eos_token_id  # type: ignore[attr-defined]
        label_ids = encode_labels(self.labels, tokenizer, end_id)
        return replace(self, end_id=end_id, label_ids=label_ids)

    def encode(
        self, tokenizer: Tokenizer, examples: Sequence[Example], max_length: int, *, labelled: bool
    ) -> EncodedExamples:
        texts = ((example.text, example.pair) for example in examples)
        encoded = encode_sources(tokenizer, self.end_id, texts, max_length, self.windowing)
        if not labelled:
            return encoded
        return replace(encoded, example_targets={"labels": self.targets(examples)})

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        return cast(LabelWriter, model).label_log_probs(batch, self.label_ids)

    def training_loss(self, model: BertModel, batch: Batch) -> LossTerm:
        return cast(LabelWriter, model).label_loss(batch, self._targets_of(batch))

    def num_predictions(self, batch: Batch, *, distilled: bool = False) -> int:
        """Count the tokens of the names to write."""
        return sum(map(len, self._targets_of(batch)))

    def _targets_of(self, batch: Batch) -> LabelIds:
        """Return the token ids of the label of each sequence, in the batch's order."""
        labels = batch.targets["labels"][batch.targets["example"]].tolist()
        return tuple(self.label_ids[label] for label in labels)


def encode_labels(labels: Sequence[str], tokenizer: Tokenizer, end_id: int) -> LabelIds:
    """Encode the names of labels to token ids, each with the end token.

    Raises:
        ConfigError: the vocabulary cannot spell a label, or spells two alike.
    """
    ids = tuple((*tokenizer.encode_ids(label), end_id) for label in labels)
    firsts: dict[tuple[int, ...], str] = {}
    for label, its_ids in zip(labels, ids, strict=True):
        if tokenizer.unk_id in its_ids:
            raise ConfigError(
                f"label {label!r}: the model writes the names of labels, and its vocabulary cannot "
                "spell this one. Rename the label, or choose a model with another vocabulary."
            )
        first = firsts.setdefault(its_ids, label)
        if first != label:
            raise ConfigError(
                f"labels {first!r} and {label!r}: the model writes the names of labels, and its "
                "vocabulary spells both alike. Rename one of them."
            )
    return ids


def as_written(
    task: Task[Any, Any], folder: ModelFolder, settings: FinetuneSettings
) -> Task[Any, Any]:
    """Return the task as the folder's model does it: by writing names, or as it is.

    Raises:
        ConfigError: the model writes, and cannot do this task, or has no use for a setting; or as
            `encode_labels`.
    """
    if not folder.family.config.writes_labels:
        return task
    if type(task) is not Classify or not isinstance(settings, LossSettings):
        raise ConfigError(
            f"{folder.path}: a T5 writes one label for each text. Leave out "
            f"{option('multi_label', True)}, or choose an encoder, such as a BERT."
        )
    defaults = {each.name: each.default for each in fields(type(settings))}
    for name in UNUSED:
        if getattr(settings, name) != defaults[name]:
            raise ConfigError(
                f"{option(name)} has no use for a T5, which learns to write the names of labels. "
                "Leave it out."
            )
    values = {each.name: getattr(task, each.name) for each in fields(Classify)}
    return WrittenClassify(**values).with_vocabulary(folder.tokenizer, folder.config)


TASK = WrittenClassify
