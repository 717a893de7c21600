"""Classification by a linear head on vectors of a frozen encoder and on counts of tokens.

The head's logits are the sum of up to four parts: of the text's vector, of the TF-IDF of its tokens
and pairs of tokens (n-grams), and for a head that also learned from a corpus, of further n-grams
and of a weight for each token.
"""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.errors import CheckpointError, ConfigError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.config_file import CONFIG_FILE
from bertsmith.model.head_names import LINEAR_HEAD_FILE
from bertsmith.tasks.inference import LoadedModel, compute_in_order
from bertsmith.tasks.label_prediction import ClassPrediction, LabelsPrediction
from bertsmith.tasks.linear_head import LinearHead
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.protocols import PredictionT
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.text_vectors import mean_vectors
from bertsmith.tasks.texts import LabelTask
from bertsmith.tasks.token_means import mean_of_tokens

LABELS = "labels"
"""Key of the labels in the task's settings, which stand in config.json. The rest of this file is
that of an encoder, which has no labels (`id2label`)."""
MULTI_LABEL = "multi_label"
"""Key in the task's settings; true if a text may have several labels."""


@dataclass(frozen=True)
class LinearTask(LabelTask[PredictionT]):
    """The common base of classification by a linear head."""

    linear: LinearHead | None = field(default=None, kw_only=True, compare=False, repr=False)
    """The head; None before it is fitted."""

    heads: ClassVar[tuple[str, ...]] = ()  # none in the model: the head has a file of its own

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Read labels and weights from the model's folder.

        Raises:
            CheckpointError: the settings in config.json name no labels, or the weights do not fit
                them.
        """
        labels = loaded.model.task_settings.get(LABELS)
        if not (isinstance(labels, list) and all(isinstance(name, str) for name in labels)):
            file = loaded.folder.files.path(CONFIG_FILE)
            raise CheckpointError(
                f"{file}: it does not name the labels of {LINEAR_HEAD_FILE}. Copy the folder again."
            )
        file = loaded.folder.files.path(LINEAR_HEAD_FILE)
        linear = LinearHead.read(file, loaded.model.config.hidden_size, len(labels))
        return replace(super().restore(loaded), labels=tuple(labels), linear=linear)

    @property
    def task_settings(self) -> dict[str, Any]:
        """The settings in config.json, among them the labels."""
        return super().task_settings | {LABELS: list(self.labels)}

    def write_files(self, directory: Path) -> None:
        assert self.linear is not None
        self.linear.save(directory)

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Refuse every call: a linear head is not trained by gradients, and reads whole texts.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "a linear head is fitted to frozen vectors, so it can neither be trained further nor "
            f"teach another model. Fine-tune a model without {option('head', 'linear')} for that."
        )

    def compute_outputs(self, model: BertModel, encoded: EncodedExamples) -> NDArray[np.float32]:
        """Compute logits, fp32 `[rows, labels]`.

        `decode` averages the logits over the rows (windows) of a text. N-grams are counted in the
        whole text, so all its rows get the same n-gram logits. Logits of vectors and of token
        weights are means over the tokens of a row, so they differ between rows.
        """
        assert self.linear is not None
        head = self.linear
        weights = torch.from_numpy(head.vector_weights.T.copy()).to(model.device)
        bias = torch.from_numpy(head.bias).to(model.device)

        def logits_of_vectors(model: BertModel, batch: Batch) -> Tensor:
            vectors = mean_vectors(model, batch)
            return model.apply_to_rows(lambda rows: F.linear(rows, weights, bias), vectors)

        corpus = head.corpus  # the further weights of a head that also learned from a corpus
        if corpus is None and not len(head.ngrams):  # as in a contrastive head
            return compute_in_order(model, encoded.rows, logits_of_vectors)
        text_of_row = encoded.example_of_row()
        # `transform` computes the TF-IDF of each text, which is multiplied by the weights:
        # `[texts, labels]`.
        ngram_logits = head.ngrams.transform(encoded).multiply(head.ngram_weights)
        logits = ngram_logits[text_of_row]
        if corpus is not None:
            ngram_logits = corpus.ngrams.transform(encoded).multiply(corpus.ngram_weights)
            logits = logits + ngram_logits[text_of_row]
            special_ids = head.ngrams.special_ids
            logits = logits + mean_of_tokens(encoded.rows, corpus.token_weights, special_ids)
        if not head.vector_weights.any():  # the counted tokens alone decide
            return logits + head.bias
        return logits + compute_in_order(model, encoded.rows, logits_of_vectors)


@dataclass(frozen=True)
class LinearClassify(LinearTask[ClassPrediction], Classify):
    """Classification with one label per text or pair."""

    heads: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from its folder: `LinearMultiLabel` if texts may have several labels."""
        if loaded.model.task_settings.get(MULTI_LABEL):
            return LinearMultiLabel.restore(loaded)  # type: ignore[return-value]
        return super().restore(loaded)


@dataclass(frozen=True)
class LinearMultiLabel(LinearTask[LabelsPrediction], MultiLabel):
    """Classification with any number of labels per text or pair."""

    heads: ClassVar[tuple[str, ...]] = ()

    @property
    def task_settings(self) -> dict[str, Any]:
        return super().task_settings | {MULTI_LABEL: True}


def with_linear_head(task: LabelTask[Any], linear: LinearHead) -> LinearTask[Any]:
    """Return the task with a fitted linear head in place of its own, a trained or a linear one."""
    task_class: Any = LinearMultiLabel if isinstance(task, MultiLabel) else LinearClassify
    values = {each_field.name: getattr(task, each_field.name) for each_field in fields(task)}
    return task_class(**values | {"linear": linear})


TASK = LinearClassify  # imported by catalog.py, which names this module
