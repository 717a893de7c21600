"""Settings of `finetune regress`; their docstrings are its help texts.

The `columns` of a settings class are the options for reading its files.
"""

from dataclasses import dataclass, field
from typing import Literal

from bertsmith.data.columns import Columns
from bertsmith.tasks.settings.finetune import WindowSettings

Metric = Literal["pearson", "spearman"]


@dataclass(frozen=True)
class RegressSettings(WindowSettings):
    """Teach a BERT to give texts, or pairs of texts, a number.

    Takes a pre-trained model and two files of texts with numbers: one to learn from, one to score
    by. The result is a folder that `bertsmith evaluate`, `bertsmith predict` and Hugging Face's
    transformers open.
    """

    metric: Metric = "pearson"
    """Score by which the best weights are chosen: pearson, the correlation with the true numbers,
    or spearman, the correlation with their order."""
    columns: Columns = field(default_factory=Columns)
