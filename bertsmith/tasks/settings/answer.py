"""Settings of `finetune answer`; their docstrings are its help texts.

The `columns` of a settings class are the options for reading its files.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bertsmith.data.columns import QuestionColumns
from bertsmith.tasks.settings.finetune import NOT_GIVEN, WindowSettings

Metric = Literal["f1", "exact_match"]


@dataclass(frozen=True)
class AnswerSettings(WindowSettings):
    """Teach a BERT to find the answers to questions in passages.

    Takes a pre-trained model and two files of questions with their passages and answers, as those
    of SQuAD 1.1 and 2.0: one to learn from, one to score by. Where a question has no answer, the
    model learns to say so. The result is a folder that `bertsmith evaluate`, `bertsmith predict`
    and Hugging Face's transformers open.
    """

    train: Path
    """Questions with their answers to train on: .json in SQuAD's format, or one question
    per row in .jsonl, .parquet or .json (a list); also as .gz, .xz or .zst."""
    eval: Path = NOT_GIVEN
    """Questions with their answers to score by. They are never trained on, and should not be among
    --train."""
    metric: Metric = "f1"
    """Score by which the best weights are chosen: f1, the overlap of words with the right answer,
    or exact_match, the share of answers that are right word for word."""
    batch_size: int = 16
    """Batch size: windows per update."""
    max_answer_length: int | None = None
    """Maximum length of an answer, in tokens. Default: 30, or the length that 99 % of the
    training answers do not exceed, if that is larger."""
    columns: QuestionColumns = field(default_factory=QuestionColumns)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_answer_length is not None:
            self.check_positive("max_answer_length", allowed="1 or more")
