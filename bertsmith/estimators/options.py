"""Types of the keyword arguments of estimators, for type checkers and editors.

The keys are the keyword parameters of the estimators; a test checks that they agree.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict

from bertsmith.data.label_schemes import Scheme
from bertsmith.data.windowing import LongTexts
from bertsmith.tasks.settings import answer, classify, regress, tag
from bertsmith.tasks.settings.finetune import ClsAttention
from bertsmith.tasks.vector_losses import VectorLoss


class Options(TypedDict, total=False):
    """Options of all tasks; `bertsmith finetune TASK --help` explains each."""

    out: str | PathLike[str] | None
    verbose: int | None
    limit: int | None
    sample: int | None
    max_length: int | None
    epochs: float | None
    steps: int | None
    batch_size: int
    learning_rate: float | None
    weight_decay: float
    warmup_fraction: float
    dropout: float
    layer_decay: float
    freeze_layers: int
    freeze_embeddings: bool
    patience: int | None
    cls_attention: ClsAttention
    from_scratch: bool
    seed: int
    resume: bool
    overwrite: bool
    device: str
    precision: Literal["auto", "fp32", "bf16"]
    threads: int | None
    exact: bool
    report_to: Literal["wandb", "mlflow"] | None


class WindowOptions(Options, total=False):
    """Options of a task that divides long texts into windows."""

    long_texts: LongTexts
    stride: int | None


class LabelOptions(WindowOptions, total=False):
    """Options of a task that chooses among labels."""

    class_weights: Literal["balanced"] | Mapping[str, float] | Sequence[str] | None
    label_smoothing: float
    focal_gamma: float


class ClassifyOptions(LabelOptions, total=False):
    """Options of `TextClassifier`."""

    head: classify.Head
    minutes: float | None
    corpus: str | PathLike[str] | None
    cell: classify.Cell | None
    preset: classify.Preset | None
    pooling: classify.RecurrentPooling | None
    metric: classify.Metric | None
    multi_label: bool
    label_separator: str
    threshold: float


class RegressOptions(WindowOptions, total=False):
    """Options of `TextRegressor`."""

    metric: regress.Metric


class TagOptions(LabelOptions, total=False):
    """Options of `TokenClassifier`."""

    metric: tag.Metric
    learn: Scheme | None


class AnswerOptions(WindowOptions, total=False):
    """Options of `QuestionAnswerer`."""

    metric: answer.Metric
    max_answer_length: int | None


class ChooseOptions(WindowOptions, total=False):
    """Options of `MultipleChoice`."""

    metric: Literal["accuracy"]


class EmbedOptions(Options, total=False):
    """Options of `SentenceEncoder`."""

    metric: Literal[
        "score", "spearman", "pearson", "mrr", "recall_at_1", "recall_at_5", "recall_at_10"
    ]
    loss: str | VectorLoss
    temperature: float
    group_size: int
    pooling: Literal["first_token", "mean"] | None
