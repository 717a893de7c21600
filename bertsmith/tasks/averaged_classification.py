"""Classification by several models, whose probabilities are averaged.

The models were fine-tuned with different seeds. The folder holds the first model as any model
folder does, and each other model in a folder of its own below `members`. One of the others may be a
linear head on the model before fine-tuning. The linear head has as much weight as all fine-tuned
models together.
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
from bertsmith.model.head_names import LINEAR_HEAD_FILE, MEMBERS, MEMBERS_FOLDER
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.tasks.inference import LoadedModel, compute_in_order, load_for_inference
from bertsmith.tasks.label_prediction import ClassPrediction, LabelsPrediction
from bertsmith.tasks.linear_classification import LinearClassify, LinearTask
from bertsmith.tasks.multi_label_classification import MIN_PROBABILITY, MultiLabel
from bertsmith.tasks.protocols import PredictionT
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.text_to_text_classification import TextToTextClassify
from bertsmith.tasks.texts import LabelTask

SHOWN_CHARACTERS = 60
"""Largest number of characters of a wrong setting that a message shows."""
MIN_MEAN_PROBABILITY = float(np.finfo(np.float32).tiny)
"""Smallest normal number of fp32. A smaller mean, such as 0, counts as this, so that its logit is
finite."""


@dataclass(frozen=True)
class LinearMember:
    """A linear head, one of the averaged models, and the frozen encoder that it reads."""

    task: LinearTask[Any]
    encoder: BertModel

    def probabilities(self, encoded: EncodedExamples) -> NDArray[np.float64]:
        """Compute the probabilities of the labels, fp64 `[texts, labels]`."""
        outputs = self.task.compute_outputs(self.encoder, encoded)
        return self.task.probabilities(encoded.mean_over_rows(outputs))


@dataclass(frozen=True)
class AveragedTask(LabelTask[PredictionT]):
    """The common base of classification by several models.

    The first model is the loaded one, which methods get as `model`.
    """

    folder_names: tuple[str, ...] = field(default=(), kw_only=True)
    """Names of the other models' folders below `members`."""
    others: tuple[BertModel, ...] = field(default=(), kw_only=True, compare=False, repr=False)
    """The other fine-tuned models, loaded as the first one is."""
    linear: LinearMember | None = field(default=None, kw_only=True, compare=False, repr=False)
    """The linear head, if there is one."""

    heads: ClassVar[tuple[str, ...]] = ()  # subclasses name those of their models

    @classmethod
    def restore(cls, loaded: LoadedModel) -> Self:
        """Restore the task, with the other models loaded for the device of the first.

        Raises:
            CheckpointError: one of the other models is missing, or has other labels than the first.
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
        others: list[BertModel] = []
        linear = None
        for name in self.folder_names:
            folder = _member_folder(loaded, name)
            if folder.files.has(LINEAR_HEAD_FILE):
                linear = _load_linear_member(loaded, folder)
            else:
                others.append(_load_member(loaded, folder).model)
        return replace(self, others=tuple(others), linear=linear)

    @property
    def other_models(self) -> tuple[BertModel, ...]:
        """The models besides the first, which are moved to another device together with it."""
        return self.others if self.linear is None else (*self.others, self.linear.encoder)

    @property
    def task_settings(self) -> dict[str, Any]:
        """The settings in config.json, among them the names of the other models' folders."""
        return super().task_settings | {MEMBERS: list(self.folder_names)}

    def compute_outputs(self, model: BertModel, encoded: EncodedExamples) -> NDArray[np.float32]:
        """Average the models' probabilities, and return their logits, fp32 `[rows, labels]`.

        All rows of a text get the same logits. So `decode`, which averages over the rows of a text,
        does not change them.
        """
        probabilities = []  # of each fine-tuned model: `[texts, labels]`
        for fine_tuned in (model, *self.others):
            # `outputs` computes the logits of a batch, and `probabilities` is a softmax, or a
            # sigmoid for several labels.
            row_logits = compute_in_order(fine_tuned, encoded.rows, self.outputs)
            probabilities.append(self.probabilities(encoded.mean_over_rows(row_logits)))
        mean = np.mean(probabilities, axis=0)
        if self.linear is not None:
            mean = (mean + self.linear.probabilities(encoded)) / 2
        text_logits: NDArray[np.float32] = self.logits_of(mean).astype(np.float32)
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
        # The next class in Python's order of inheritance is AveragedTask. Its `restore` loads the
        # other models, and calls that of Classify or TextToTextClassify for the labels.
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
    """Return the class of the task for this model and others of the same head and family."""
    if "multi_label" in model.heads:
        return AveragedMultiLabel
    # A T5 writes labels as texts.
    return AveragedTextToText if model.config.writes_labels else AveragedClassify


def _is_name(value: object) -> bool:
    """Return whether a value is a single path component."""
    return isinstance(value, str) and value not in ("", ".", "..") and Path(value).name == value


def _member_folder(loaded: LoadedModel, name: str) -> ModelFolder:
    """Return the folder `name` below `members`, which holds another model.

    Raises:
        CheckpointError: the folder is missing.
    """
    # The path is absolute: read_folder might take a relative one, such as members/seed-2, for a
    # model of the Hugging Face hub.
    return read_folder(loaded.folder.path.absolute() / MEMBERS_FOLDER / name)


def _load_member(loaded: LoadedModel, folder: ModelFolder) -> LoadedModel:
    """Load another fine-tuned model for the device and in the precision of the first.

    Raises:
        CheckpointError: the model is damaged, or its labels differ from those of the first.
    """
    other = _load_beside(loaded, folder, tuple(loaded.model.heads))
    _check_labels(loaded, folder, other.labels)
    return other


def _load_linear_member(loaded: LoadedModel, folder: ModelFolder) -> LinearMember:
    """Load the linear head and its encoder for the device and in the precision of the first model.

    Raises:
        CheckpointError: the head is damaged, or its labels differ from those of the first model.
    """
    encoder = _load_beside(loaded, folder, heads=())
    task = LinearClassify.restore(encoder)
    _check_labels(loaded, folder, task.labels)
    return LinearMember(task, encoder.model)


def _load_beside(loaded: LoadedModel, folder: ModelFolder, heads: tuple[str, ...]) -> LoadedModel:
    """Load a folder with the device, precision and maximum length of `loaded`."""
    return load_for_inference(
        folder,
        heads=heads,
        device=str(loaded.device),
        precision=loaded.requested_precision,
        max_length=loaded.requested_length,
    )


def _check_labels(loaded: LoadedModel, folder: ModelFolder, labels: tuple[str, ...]) -> None:
    if labels != loaded.labels:
        raise CheckpointError(
            f"{folder.path}: its labels are not those of {loaded.folder.path}, so the "
            "probabilities of the two cannot be averaged. Copy the whole folder again."
        )


TASK = AveragedClassify  # imported by catalog.py, which names this module
