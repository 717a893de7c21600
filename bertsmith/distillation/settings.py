"""Settings of distillation: a teacher, and a smaller student with its vocabulary.

Fields are options of the command line, and their docstrings its help; only --help-all shows those
whose type is `Advanced`. The class for tasks is `DistillSettings`, for a corpus
`PretrainingStudentSettings`. `NOT_GIVEN` stands for a folder that the user did not name.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.compute import Advanced
from bertsmith.system.paths import check_outside, is_within
from bertsmith.tasks.settings.finetune import NOT_GIVEN


@dataclass(frozen=True)
class StudentSettings:
    """Settings of distillation: teacher, student and loss weights."""

    teacher: Path = NOT_GIVEN
    """Folder of the teacher model. It is only read."""
    student: Path | None = None
    """Folder of a smaller model to start from. It needs the teacher's vocabulary. By default the
    teacher's own layers are taken."""
    num_layers: Advanced[int | None] = None
    """Number of teacher layers that the student is made of, spread from the first to the last; by
    default half of them."""
    soft_weight: Advanced[float] = 0.5
    """Weight of the distillation loss on the teacher's outputs, from 0 to 1; the loss on labels has
    the rest."""
    soft_temperature: Advanced[float] = 2.0
    """Temperature of distillation over classes: both models' logits are divided by it, so that less
    likely classes count more; 1 leaves them unchanged."""
    hidden_weight: Advanced[float] = 0.0
    """Weight of the cosine loss between student and teacher last hidden states; 0 turns it off.
    Requires equal hidden sizes."""

    def __post_init__(self) -> None:
        if self.num_layers is not None and self.student is not None:
            raise ConfigError(
                f"{option('num_layers')} has no use beside {option('student')}, which has its own "
                "layers. Leave out one of them."
            )
        if not 0 <= self.soft_weight <= 1:
            raise SettingError("soft_weight", self.soft_weight, "0 to 1")
        if not 0 < self.soft_temperature < math.inf:
            raise SettingError("soft_temperature", self.soft_temperature, "above 0")
        if not 0 <= self.hidden_weight < math.inf:
            raise SettingError("hidden_weight", self.hidden_weight, "0 or more")

    @property
    def start(self) -> Path:
        """The folder of the student's initial weights.

        Raises:
            ConfigError: no teacher is named.
        """
        self._check_teacher()
        return self.student or self.teacher

    def _check_teacher(self) -> None:
        if self.teacher is NOT_GIVEN:
            raise ConfigError(
                f"{option('teacher')} is missing. Name the folder of the model to learn from."
            )

    def check_out(self, out: Path) -> None:
        """Refuse an output folder that holds the teacher or student, or is inside one of them.

        Raises:
            ConfigError: the output folder must not be used, and the message names both folders; or
                no teacher is named.
        """
        self._check_teacher()
        for name, folder in (("teacher", self.teacher), ("student", self.student)):
            if folder is not None and is_within(folder, out):
                raise ConfigError(
                    f"{out}: holds {option(name, folder)}. Choose another {option('out')}."
                )
        check_outside(out, self.teacher, self.student)


@dataclass(frozen=True)
class DistillSettings(StudentSettings):
    """Settings of distillation: teacher, student, losses and unlabelled texts."""

    unlabelled: Advanced[Path | None] = None
    """Texts without labels, in a file like --train. On them, the model learns only from the
    teacher's outputs. They have the same share in each update as among all texts."""
    cache: Advanced[Path | None] = None
    """Cache folder for the teacher's outputs, which are computed once for all epochs and for later
    runs on the same texts (other seeds, students or loss weights). It holds a few numbers per text
    or word; with --hidden-weight also each token's vector, two bytes per number."""

    def check_out(self, out: Path) -> None:
        """Refuse an output folder that holds teacher, student or cache, or is inside a model.

        Raises:
            ConfigError: the output folder must not be used, and the message names both folders; or
                no teacher is named.
        """
        super().check_out(out)
        if self.cache is not None and is_within(self.cache, out):
            raise ConfigError(
                f"{option('cache', self.cache)}: in {option('out', out)}. Choose a folder "
                "elsewhere, which serves other runs too."
            )


@dataclass(frozen=True)
class PretrainingStudentSettings(StudentSettings):
    """Settings of distillation in pre-training: teacher, student and losses."""

    teacher: Annotated[Path, tyro.conf.arg(help_behavior_hint="(required)")] = NOT_GIVEN
    """Folder of the pre-trained teacher, with a masked-LM head. It is only read."""
    family: Literal["teacher", "distilbert"] = "teacher"
    """Family of the student. distilbert has no segments and no pooler."""
    soft_weight: float = 0.7
    """Weight of the distillation loss on masked tokens, from 0 to 1; masked LM has the rest.
    DistilBERT weighs the two 5 to 2."""
    hidden_weight: float = 0.15
    """Weight of the cosine loss between student and teacher last hidden states; 0 turns it off.
    DistilBERT has a weight of 1 here, beside the 5 and 2 of the other losses."""
