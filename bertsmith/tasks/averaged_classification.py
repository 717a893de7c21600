"""Classification by several models, whose probabilities are averaged.

The models were fine-tuned with different seeds. The folder holds the first model as any model
folder does, and the others in its subfolder `members`.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.errors import CheckpointError
from bertsmith.model.bert import BertModel
from bertsmith.model.config_file import CONFIG_FILE
from bertsmith.model.head_names import MEMBERS, MEMBERS_FOLDER
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.inference import LoadedModel, compute_in_order, load_for_inference
from bertsmith.tasks.label_prediction import ClassPrediction, LabelsPrediction
from bertsmith.tasks.multi_label_classification import MIN_PROBABILITY, MultiLabel
from bertsmith.tasks.protocols import PredictionT
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.text_to_text_classification import TextToTextClassify
from bertsmith.tasks.texts import LabelTask

SHOWN_CHARACTERS = 60
"""Characters that a message shows of a wrong setting."""
MIN_MEAN_PROBABILITY = float(np.finfo(np.float32).tiny)
"""Smallest normal number of fp32. A smaller mean, such as 0, counts as this, so that its logit is
finite."""


@dataclass(frozen=True)
class AveragedTask(LabelTask[PredictionT]):
    """The common base of classification by several models."""

    folder_names: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of the other models' folders below `members`."""
    others: tuple[BertModel, ...] = field(default=(), kw_only=True, compare=False, repr=False)
    """The other models, loaded as the first one is."""

    heads: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Load the other models for the device and in the precision of the first.

        Raises:
            CheckpointError: one is missing, or has other labels.
        """
        names = loaded.model.task_settings.get(MEMBERS)
        if not (isinstance(names, list) and all(map(_is_name, names))):
            file = loaded.folder.files.path(CONFIG_FILE)
            raise CheckpointError(
                f"{file}: {MEMBERS} is {str(names)[:SHOWN_CHARACTERS]}; allowed is a list of "
                f"names of folders in {MEMBERS_FOLDER}. Copy the folder again."
            )
        task = replace(super().restore(loaded), folder_names=tuple(names))
        return task.with_loaded(loaded)

    def with_loaded(self, loaded: LoadedModel) -> Self:
        """Return a copy with the other models loaded for the device of the first, `loaded`."""
        heads = tuple(loaded.model.heads)
        others = tuple(_load_member(loaded, name, heads) for name in self.folder_names)
        return replace(self, others=others)

    @property
    def task_settings(self) -> dict[str, Any]:
        return super().task_settings | {MEMBERS: list(self.folder_names)}

    def compute_outputs(self, model: BertModel, encoded: EncodedExamples) -> NDArray[np.float32]:
        """Compute logits of the mean probabilities, fp32 `[rows, labels]`.

        All rows of a text get the logits of the text, so that `decode`, which averages over the
        rows, keeps them.
        """
        probabilities = []  # of each model: `[texts, labels]`
        for each in (model, *self.others):
            row_logits = compute_in_order(each, encoded.rows, self.outputs)
            probabilities.append(self.probabilities(encoded.mean_over_rows(row_logits)))
        logits = self.logits_of(np.mean(probabilities, axis=0))
        text_logits: NDArray[np.float32] = logits.astype(np.float32)
        return text_logits[encoded.example_of_row()]

    @staticmethod
    def logits_of(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert probabilities to logits, the inverse of `probabilities`, in the same shape."""
        raise NotImplementedError


@dataclass(frozen=True)
class AveragedClassify(AveragedTask[ClassPrediction], Classify):
    """Classification with one label per text or pair."""

    heads: ClassVar[tuple[str, ...]] = Classify.heads

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task from its folder, as the class that `averaged_class` returns."""
        task_class = averaged_class(loaded.model)
        if task_class is not cls:
            return task_class.restore(loaded)  # type: ignore[return-value]
        # The `restore` of AveragedTask, which calls that of Classify or TextToTextClassify.
        return super().restore(loaded)

    @staticmethod
    def logits_of(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        logits: NDArray[np.float64] = np.log(np.maximum(probabilities, MIN_MEAN_PROBABILITY))
        return logits


@dataclass(frozen=True)
class AveragedTextToText(AveragedClassify, TextToTextClassify):
    """Text-to-text classification by several models."""


@dataclass(frozen=True)
class AveragedMultiLabel(AveragedTask[LabelsPrediction], MultiLabel):
    """Classification with any number of labels per text or pair."""

    heads: ClassVar[tuple[str, ...]] = MultiLabel.heads

    @staticmethod
    def logits_of(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        clipped = probabilities.clip(MIN_PROBABILITY, np.nextafter(1, 0))  # logits are finite
        logits: NDArray[np.float64] = np.log(clipped) - np.log1p(-clipped)
        return logits


def averaged_class(model: BertModel) -> type[AveragedTask[Any]]:
    """Return the class for models with the head, and of the family, of this one."""
    if "multi_label" in model.heads:
        return AveragedMultiLabel
    return AveragedTextToText if model.config.writes_labels else AveragedClassify


def _is_name(value: object) -> bool:
    """Return whether a value is a single path component."""
    return isinstance(value, str) and value not in ("", ".", "..") and Path(value).name == value


def _load_member(loaded: LoadedModel, name: str, heads: tuple[str, ...]) -> BertModel:
    """Load one of the other models of the folder.

    Raises:
        CheckpointError: the model is missing, or its labels differ from those of the first.
    """
    # An absolute path cannot be taken for a name of the Hugging Face hub, as members/seed-2 can.
    folder = loaded.folder.path.absolute() / MEMBERS_FOLDER / name
    other = load_for_inference(
        read_folder(folder),
        heads=heads,
        device=str(loaded.device),
        precision=loaded.requested_precision,
        max_length=loaded.requested_length,
    )
    if other.labels != loaded.labels:
        raise CheckpointError(
            f"{other.folder.path}: its labels are not those of {loaded.folder.path}, so the "
            "probabilities of the two cannot be averaged. Copy the whole folder again."
        )
    return other.model


TASK = AveragedClassify
