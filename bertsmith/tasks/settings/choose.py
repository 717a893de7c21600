"""Settings of `finetune choose`; their docstrings are its help texts.

`Advanced` marks a setting that only --help-all shows. The `columns` of a settings class are the
options for reading its files.
"""

from dataclasses import dataclass, field
from typing import Literal

from bertsmith.data.columns import ChoiceColumns
from bertsmith.system.compute import Advanced
from bertsmith.tasks.settings.finetune import WindowSettings


@dataclass(frozen=True)
class ChooseSettings(WindowSettings):
    """Teach a BERT to choose the text that fits a prompt: multiple choice.

    Takes a pre-trained model and two files of prompts, each with two or more choices and the number
    or letter of the right one: one file to learn from, one to score by. The result is a folder that
    `bertsmith evaluate`, `bertsmith predict` and Hugging Face's transformers open.
    """

    metric: Advanced[Literal["accuracy"]] = "accuracy"
    """Score by which the best weights are chosen: accuracy, the share of prompts with the right
    choice."""
    columns: ChoiceColumns = field(default_factory=ChoiceColumns)
