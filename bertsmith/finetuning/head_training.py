"""Train one of the heads that `finetune classify --head auto` compares, by its name.

A head is a way to learn from the labels, such as `linear` or `fine-tuned`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertsmith.finetuning.contrastive_run import finetune_contrastive
from bertsmith.finetuning.label_calibration import LabelCalibration
from bertsmith.finetuning.linear_run import finetune_linear
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.finetuning.unlabelled_texts import UnlabelledTexts
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify
from bertsmith.training.callback import Callback

TRAINING_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "fine-tuned": finetune,
    "linear": finetune_linear,
    "counts": finetune_linear,
    "contrastive": finetune_contrastive,
}
"""The function that trains each head. `auto` is missing: it chooses one of these."""
AVERAGE = "average"
"""Name of the mean of several fine-tuned models, which `auto` compares as if it were a head. The
options `--seeds 3 --average` train the same mean."""
NUM_AVERAGED = 3
"""Number of fine-tuned models in that mean."""


def settings_of_head(settings: ClassifySettings, head: str) -> ClassifySettings:
    """Return the settings that train `head`, which may be `AVERAGE`."""
    return settings.for_average(NUM_AVERAGED) if head == AVERAGE else settings.with_head(head)


def train_head(
    task_type: type[Classify],
    settings: ClassifySettings,
    data: TaskDataset[Any],
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call",
    *,
    has_costly_baselines: bool = False,
    calibration: LabelCalibration | None = None,
    unlabelled: UnlabelledTexts | None = None,
) -> Any:
    """Train the head of these settings, which are those of `settings_of_head`.

    Without eval examples, fine-tuning keeps the weights of its last step.

    Args:
        has_costly_baselines: whether to score also the baselines that take some seconds; an average
            has none.
        calibration: the scale and biases of the logits of a contrastive head; None for none.
        unlabelled: the texts of the settings' corpus, if they have been read before; only a linear
            head and an average learn from them.

    Returns:
        A `FineTuned`, a `FittedHead`, or for the average a `SeriesResult`.
    """
    if settings.is_series:  # of these heads, only the average trains several models
        return finetune_repeatedly(
            task_type,
            settings,
            callbacks,
            resume_command,
            dataset=data,
            unlabelled=unlabelled,
        )
    options: dict[str, Any] = {}
    if calibration is not None:
        options["calibration"] = calibration
    if unlabelled is not None and settings.head == "linear":
        options["unlabelled"] = unlabelled
    return TRAINING_FUNCTIONS[settings.head](
        task_type,
        settings,
        callbacks,
        resume_command,
        dataset=data,
        has_costly_baselines=has_costly_baselines,
        **options,
    )
