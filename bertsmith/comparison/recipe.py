"""The interface of a recipe: a named pre-training job that a comparison can run and load."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from bertsmith.comparison.budget import ComparisonBudget, RunLength
from bertsmith.model.trainable import TrainableModel
from bertsmith.training.callback import Callback
from bertsmith.training.objective import Measure
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.settings import TrainingSettings

JobT = TypeVar("JobT", bound=Any)
COMPUTE = ("device", "precision")
"""Settings of training that say how a run computes, and that a resumed run may not change."""


@dataclass(frozen=True)
class Recipe(ABC, Generic[JobT]):
    """A named pre-training job; the comparison sets its length, and each run its seed."""

    name: str
    job: JobT
    """The settings of the run: an object with the field `training` and the method `with_training`,
    which returns a copy with other training settings."""

    @property
    def training(self) -> TrainingSettings:
        training: TrainingSettings = self.job.training
        return training

    @property
    def compute(self) -> dict[str, Any]:
        """The settings that say how the run computes, such as its precision, by name."""
        return {name: getattr(self.training, name) for name in COMPUTE}

    def with_training(self, **changes: Any) -> Self:
        return replace(self, job=self.job.with_training(**changes))

    def with_seed(self, seed: int) -> Self:
        return self.with_training(seed=seed)

    def shortened(self, steps: int) -> Self:
        """Return the recipe with a run of only `steps` steps, evaluated at the end."""
        return self.with_training(
            steps=steps, minutes=None, eval_every=steps, checkpoint_every=None, keep=0
        )

    @property
    @abstractmethod
    def max_length(self) -> int:
        """The largest number of tokens of a row."""

    @abstractmethod
    def supports_task(self, task: str) -> bool:
        """Return whether the model can be fine-tuned on a task of `bertsmith finetune`."""

    @abstractmethod
    def training_length(self, budget: ComparisonBudget) -> RunLength:
        """Convert a budget to the length of a run, which `with_training` takes.

        Raises:
            BertsmithError: the job cannot be run, or its cost is unknown in the budget's unit.
        """

    @abstractmethod
    def compared_settings(self) -> Mapping[str, Any]:
        """Return the settings that affect results, except length and seed, as nested tables."""

    @abstractmethod
    def estimate_seconds(self) -> float:
        """Return the seconds of a run: those of its budget, or by timing a few rows."""

    @abstractmethod
    def check_earlier(self, folder: RunFolder) -> None:
        """Check that the earlier run in a folder had the same settings and data.

        Raises:
            ConfigError: they differ; the message names the folder and the differences.
        """

    @abstractmethod
    def train(
        self,
        folder: RunFolder,
        callbacks: Sequence[Callback],
        resume_command: str,
        measure: Measure,
    ) -> None:
        """Train, or continue a stopped run.

        Args:
            resume_command: the command line that continues a stopped run, for its message.
            measure: computes further metrics at each evaluation, in the same way for all recipes.

        Raises:
            BertsmithError: the job cannot be run, or had to stop.
        """

    @abstractmethod
    def load(self, directory: Path) -> TrainableModel:
        """Load the trained model of a folder, in fp32, in evaluation mode."""
