"""`load`, which returns the predictor of a model folder, by its head or by the name of its task.

A predictor is a loaded model with its task: it is called with texts and returns predictions.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from bertsmith.errors import CheckpointError
from bertsmith.errors.model_kinds import ModelKindError
from bertsmith.model.config_file import model_kind
from bertsmith.model.model_folder import read_folder
from bertsmith.system.bounds import check_choice
from bertsmith.tasks.averaged_classification import AveragedClassify
from bertsmith.tasks.catalog import task_of_folder, tasks
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.inference import LoadedModel, load_for_inference
from bertsmith.tasks.linear_classification import LinearClassify
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.multiple_choice import Choose
from bertsmith.tasks.prediction import InferenceTask
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.question_answering import Answer
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.text_to_text_classification import TextToTextClassify
from bertsmith.tasks.text_to_text_regression import TextToTextRegress
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.tasks.token_classification import Tag

FolderPath = str | os.PathLike[str]

OWN_CLASSES: Mapping[type[InferenceTask[Any, Any]] | None, tuple[str, ...]] = {
    LinearClassify: ("classify", "multi_label"),
    AveragedClassify: ("classify", "multi_label"),
    TextToTextClassify: ("classify", "multi_label"),
    TextToTextRegress: ("regress",),
}
"""Classes of tasks for models that the usual class of the task cannot use, such as a T5; beside
each, the names of its tasks. If `load` is asked for one of these names, it keeps the class."""


class LoadOptions(TypedDict, total=False):
    """Arguments of `load` that its overloads share."""

    device: str
    precision: str
    max_length: int | None


@overload
def load(
    path: FolderPath, *, task: Literal["classify"], **options: Unpack[LoadOptions]
) -> Predictor[Classify]: ...
@overload
def load(
    path: FolderPath, *, task: Literal["multi_label"], **options: Unpack[LoadOptions]
) -> Predictor[MultiLabel]: ...
@overload
def load(
    path: FolderPath, *, task: Literal["regress"], **options: Unpack[LoadOptions]
) -> Predictor[Regress]: ...
@overload
def load(
    path: FolderPath, *, task: Literal["tag"], **options: Unpack[LoadOptions]
) -> Predictor[Tag]: ...
@overload
def load(
    path: FolderPath, *, task: Literal["answer"], **options: Unpack[LoadOptions]
) -> Predictor[Answer]: ...
@overload
def load(
    path: FolderPath, *, task: Literal["choose"], **options: Unpack[LoadOptions]
) -> Predictor[Choose]: ...
@overload
def load(
    path: FolderPath, *, task: Literal["embed"], **options: Unpack[LoadOptions]
) -> Predictor[Embed]: ...
@overload
def load(
    path: FolderPath, *, task: Literal["fill"], **options: Unpack[LoadOptions]
) -> Predictor[FillMask]: ...
@overload
def load(
    path: FolderPath, *, task: Literal["vectors"], **options: Unpack[LoadOptions]
) -> Predictor[TextVectors]: ...
@overload
def load(
    path: FolderPath, *, task: str | None = None, **options: Unpack[LoadOptions]
) -> Predictor[Any]: ...


def load(
    path: FolderPath,
    *,
    task: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    max_length: int | None = None,
) -> Predictor[Any]:
    """Load the predictor of a model folder, by its head.

    A fine-tuned model predicts as its task does (labels, numbers, spans, choices). A pre-trained
    model fills in [MASK]. A bare encoder, which has no head, gives vectors of texts. The predictor
    of any model also gives vectors by `encode`.

    >>> classifier = load("runs/reviews")  # doctest: +SKIP
    >>> classifier("a gripping story").label  # doctest: +SKIP
    'positive'

    Args:
        path: the folder, or "org/name" on the Hugging Face hub.
        task: the task that the model must be fine-tuned for (classify, multi_label, regress, tag,
            answer, choose, embed), or the use that is made of the model: fill ([MASK]) or vectors.
            If it is given, type checkers know the class of the predictions.
        device: auto, cpu, cuda, cuda:1 or mps.
        precision: auto, fp32, bf16 or int8.
        max_length: maximum length of texts in tokens; by default as in training.

    Raises:
        CheckpointError: the folder is incomplete, not a BERT, or a model of another kind.
        ConfigError: there is no such task, or this machine lacks the device or precision.
    """
    classes: dict[str, type[InferenceTask[Any, Any]]] = {
        **tasks(),
        "multi_label": MultiLabel,  # a form of `classify`
        "fill": FillMask,
        "vectors": TextVectors,
    }
    if task is not None:
        check_choice("task", task, classes)
    folder = read_folder(Path(path))
    # None if the model was not fine-tuned for a task.
    task_class: type[InferenceTask[Any, Any]] | None = task_of_folder(folder)
    if task is not None and task not in OWN_CLASSES.get(task_class, ()):
        task_class = classes[task]
    loaded = load_for_inference(
        folder,
        heads=() if task_class is None else task_class.heads,
        device=device,
        precision=precision,
        max_length=max_length,
    )
    predictor = _predictor_of(loaded, task_class)
    # `definition` is the predictor's task. It may be of another class than was asked for: the class
    # `Classify` restores a multi-label model as `MultiLabel`.
    if task is not None and not isinstance(predictor.definition, classes[task]):
        own_task = next(
            name
            for name, class_of_name in classes.items()
            if isinstance(predictor.definition, class_of_name)
        )
        raise CheckpointError(
            f"{folder.path}: task is '{task}', but this model's is '{own_task}'. Leave task out."
        )
    return predictor


def load_with_gradients(
    path: FolderPath, *, device: str = "auto", max_length: int | None = None
) -> Predictor[Any]:
    """Load the predictor of a model folder by its head, to inspect the model.

    Unlike that of `load`, the model computes in fp32 by plain layers, through which gradients flow.

    Raises:
        CheckpointError: the folder is incomplete, not a BERT, or a model without attention.
        ConfigError: this machine has no such device, or the model cannot read so many tokens.
    """
    folder = read_folder(Path(path))
    if folder.config.is_recurrent:  # an LSTM, GRU or ELMo
        raise ModelKindError(folder.path, model_kind(folder.settings), "look")
    if folder.config.writes_labels:  # a T5, which is never an encoder
        folder.check_encoder()  # raises an error that names the command for a T5
    task_class = task_of_folder(folder)
    loaded = load_for_inference(
        folder,
        heads=() if task_class is None else task_class.heads,
        device=device,
        max_length=max_length,
        packed=False,  # keeps plain layers
    )
    return _predictor_of(loaded, task_class)


def _predictor_of(
    loaded: LoadedModel, task_class: type[InferenceTask[Any, Any]] | None
) -> Predictor[Any]:
    """Restore the task of `task_class`; if that is None, choose one by the heads of the model.

    A model with a masked-LM head fills in [MASK], another one gives vectors.
    """
    if task_class is None and "masked_lm" in loaded.model.heads:
        task_class = FillMask
    elif task_class is None:
        loaded.folder.check_classifier(None)  # refuses classifiers whose head is none of ours
        task_class = TextVectors
    return Predictor(loaded, task_class.restore(loaded))
