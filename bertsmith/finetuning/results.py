"""The fields that the results of all fine-tunings have in common, whatever the head."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from bertsmith.config import to_jsonable
from bertsmith.finetuning.head_choice import HeadChoice
from bertsmith.system.progress import has_details
from bertsmith.tasks.baseline import Baseline
from bertsmith.training.run_config import drop_none

LINEAR_BASELINE = "linear"
"""The `Baseline.key` of the linear head, with which a fine-tuned model is compared."""


@dataclass(frozen=True, kw_only=True)
class FineTuningResult:
    """A model for a task: its examples and its scores."""

    out: Path
    task: str
    target: str
    """Description of the labels, such as "with 2 labels"."""
    labels: tuple[str, ...]
    num_train: int
    """Number of training examples."""
    num_train_windowed: int
    """Number of training texts that were read in windows."""
    num_train_truncated: int
    """Number of training texts of which a part was left out."""
    num_train_skipped: int
    """Number of training rows that were skipped because a value was missing."""
    num_overlap: int
    """Number of eval examples that also occur in training."""
    notes: tuple[str, ...]
    """Remarks on the training examples."""
    start_note: str = ""
    """Changes to the loaded weights before training; empty if none."""
    evaluation: Any
    """The report on the scores of the saved model, such as a `ClassReport`; None without eval
    examples."""
    baselines: tuple[Baseline, ...] = ()
    """Scores of baselines on the same examples."""
    choice: HeadChoice | None = None
    """The scores by which `--head auto` chose the head; None if the user chose it."""

    def with_notes(self, convert: Callable[[str], str]) -> Self:
        """Return a copy whose remarks are changed by `convert`."""
        notes = tuple(convert(note) for note in self.notes)
        return replace(self, start_note=convert(self.start_note), notes=notes)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; `evaluation` is an empty object without eval examples."""
        facts = {**to_jsonable(self), "evaluation": {}}
        if self.evaluation is None:
            return drop_none(facts)
        return facts | {"evaluation": self.evaluation.to_json()}

    def _score_lines(self, *advice: str) -> list[str]:
        """List the scores, baselines and advice after an empty line; with -v, also the details."""
        # A report has its main scores first, and after an empty line the details, such as the
        # scores of each label, which may be long.
        scores, _, details = str(self.evaluation).partition("\n\n")
        lines = ["", scores, *map(str, self.baselines), *advice]
        return [*lines, "", details] if details and has_details() else lines
