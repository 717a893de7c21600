"""A fine-tuning whose settings and input are checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bertsmith.finetuning.resolve import FinetuneConfig
from bertsmith.tasks.example_objective import ExampleObjective
from bertsmith.tasks.task import TaskDataset
from bertsmith.tokenization.tokenizer import Tokenizer

START_NOTE = "start_note"
"""Key in `run.json` of a note on changes to the loaded weights before training."""


@dataclass(frozen=True)
class PreparedRun:
    """A run whose settings and input are checked; nothing is written yet."""

    dataset: TaskDataset[Any]
    tokenizer: Tokenizer
    objective: ExampleObjective
    """Makes the batches of the encoded examples, and computes their losses."""
    config: FinetuneConfig
    """All settings, with a value for each that the user left open."""
    load_report: str
    """The weights that were loaded, and those that began at random, in words."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of `run.json`."""
