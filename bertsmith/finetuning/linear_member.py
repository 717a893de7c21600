"""`--seeds N --average --corpus`: a linear head that is averaged with the fine-tuned models.

A linear head and fine-tuned models often err on different texts, so the mean of their probabilities
is better than either. The head is logistic regression. It reads the vectors of the model before
fine-tuning and counted tokens, and learns from the corpus of texts without labels, too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from bertsmith.data.encoded_texts import max_text_length
from bertsmith.finetuning.linear_run import finetune_linear, open_corpus_of_head
from bertsmith.finetuning.unlabelled_texts import UnlabelledTexts, read_sentences
from bertsmith.model.head_names import LINEAR_MEMBER, MEMBERS_FOLDER
from bertsmith.model.model_folder import read_folder
from bertsmith.system.paths import check_outside
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import TaskDataset
from bertsmith.training.run_folder import RunFolder


def has_linear_member(settings: FinetuneSettings) -> TypeGuard[ClassifySettings]:
    """Return whether a linear head is averaged with the fine-tuned models."""
    if not isinstance(settings, ClassifySettings):  # other tasks have no option --average
        return False
    return settings.average and settings.corpus is not None


def check_linear_member(settings: ClassifySettings, data: TaskDataset[Any]) -> None:
    """Check, before anything is trained, that a linear head can be fitted.

    Raises:
        CheckpointError: the model is no encoder.
        CorpusError: there is no such corpus, or it is damaged.
        ConfigError: the corpus does not fit the model, it has only short sentences, or the examples
            are pairs of texts.
    """
    check_outside(settings.out, settings.corpus)
    folder = read_folder(settings.model)
    folder.check_encoder()
    corpus = open_corpus_of_head(settings, folder, data)
    assert corpus is not None
    limit = max_text_length(
        folder.tokenizer, folder.config.max_length, requested=settings.max_length
    )
    read_sentences(corpus, folder.tokenizer, limit)  # refuses a corpus of short sentences


def fit_linear_member(
    task_type: type[Any],
    settings: ClassifySettings,
    labels: Sequence[str],
    *,
    dataset: TaskDataset[Any] | None = None,
    unlabelled: UnlabelledTexts | None = None,
) -> dict[str, Any]:
    """Fit the linear head, write its folder, and return its scores on the eval examples.

    If a run was stopped after its head was complete, the head is kept as it is.

    Args:
        labels: those of the fine-tuned models, in their order. Models that learned from a teacher
            have its labels, which may be more than those of the examples.
        dataset: the examples; by default those of the settings' files.
        unlabelled: the texts of the settings' corpus, if they have been read before.
    """
    out = settings.out / MEMBERS_FOLDER / LINEAR_MEMBER
    folder = RunFolder(out)
    if not (folder.run_path.exists() and "result" in folder.read_run()):
        data = dataset or task_type.read(settings)
        task: Any = data.task
        data = replace(data, task=task.with_teacher_labels(replace(task, labels=tuple(labels))))
        finetune_linear(
            task_type,
            settings.for_linear_head(out),
            dataset=data,
            unlabelled=unlabelled,
            is_part=True,
        )
    scores: dict[str, Any] = folder.read_run()["result"]["evaluation"]
    return scores
