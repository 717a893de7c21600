"""Keep the classifiers of several seeds as one model, which averages their probabilities.

`finetune classify --seeds 3 --average` does this. The folder of the best model also holds the other
models, the *members*; a predictor that opens it asks all of them.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertsmith.model.config_file import own_settings, read_config
from bertsmith.model.head_names import LINEAR_MEMBER, MEMBERS, MEMBERS_FOLDER
from bertsmith.model.saving import write_task_settings
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.averaged_classification import AveragedClassify
from bertsmith.tasks.predictor import Predictor, accumulate_examples
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import TaskDataset
from bertsmith.training.run_folder import MODEL_FILES

WEIGHTS = "model.safetensors"
"""The file that is moved, since it is large; the other files of a model are copied."""


def is_averaged(settings: FinetuneSettings) -> bool:
    """Return whether the models of a series are kept as one model that averages them."""
    # Only the settings of classification have this option.
    return bool(getattr(settings, "average", False))


def move_members(out: Path, folders: Sequence[Path], *, has_linear: bool = False) -> None:
    """Move the models of `folders` into the best model's folder `out`, and list them in its config.

    Models that an earlier, interrupted call has moved already stay where they are.

    Args:
        has_linear: whether to list a linear head, too; its folder is already among the members.
    """
    for folder in folders:
        member = out / MEMBERS_FOLDER / folder.name
        member.mkdir(parents=True, exist_ok=True)
        for name in MODEL_FILES:
            if name != WEIGHTS and (folder / name).is_file():
                (member / name).parent.mkdir(exist_ok=True)  # some names have a folder before them
                shutil.copy2(folder / name, member / name)
        if (folder / WEIGHTS).exists():
            (folder / WEIGHTS).replace(member / WEIGHTS)
    settings = own_settings(read_config(SmallFiles(out)))
    names = [folder.name for folder in folders] + ([LINEAR_MEMBER] if has_linear else [])
    write_task_settings(out, settings | {MEMBERS: names})


def score_average(settings: FinetuneSettings, data: TaskDataset[Any]) -> dict[str, Any]:
    """Score the mean of the probabilities on the eval examples; return the scores by name.

    Without eval examples the result is empty.
    """
    if not data.held_out:
        return {}
    predictor = Predictor.load(
        settings.out, AveragedClassify, device=settings.device, precision=settings.precision
    )
    predictor.unknown_tokens.is_reported = True  # each run has warned of them
    accumulator = accumulate_examples(predictor, data.held_out, path=settings.eval)
    report: Any = accumulator.result(data.num_held_out_skipped)
    # The JSON of a report has each score under one name. The metric may be a second name, such as
    # accuracy for the subset accuracy of texts with several labels.
    return {**report.to_json(), settings.score_key: getattr(report, settings.score_key)}
