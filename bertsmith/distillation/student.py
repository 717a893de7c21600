"""Settings of distillation: a teacher, and a smaller student with its vocabulary.

A student is made of the teacher's own layers, every second of them, as DistilBERT (Sanh et al.
2019, section 3); or it is another model with the same vocabulary.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertsmith.distillation.objective import DistillationWeights
from bertsmith.errors import CheckpointError, ConfigError, SettingError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.shrinking import choose_layers, truncate_layers
from bertsmith.pretraining.from_model import first_difference
from bertsmith.system.compute import Advanced
from bertsmith.system.paths import check_outside, is_within
from bertsmith.tasks.settings.finetune import NOT_GIVEN
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class StudentSettings:
    """Settings of distillation: teacher, student and loss weights."""

    teacher: Path = NOT_GIVEN
    """Folder of the teacher model. It is only read."""
    student: Path | None = None
    """Folder of a smaller model to start from, with the teacher's vocabulary. By default the
    student is made of the teacher's own layers."""
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
                f"{option('num_layers')}: found beside a model to begin with, which has its "
                "layers. Leave out one of them."
            )
        if not 0 <= self.soft_weight <= 1:
            raise SettingError("soft_weight", self.soft_weight, "0 to 1")
        if not 0 < self.soft_temperature < math.inf:
            found = self.soft_temperature
            raise SettingError("soft_temperature", found, "above 0")
        if not 0 <= self.hidden_weight < math.inf:
            found = self.hidden_weight
            raise SettingError("hidden_weight", found, "0 or more")

    @property
    def teaching(self) -> DistillationWeights:
        return DistillationWeights(self.soft_weight, self.soft_temperature, self.hidden_weight)

    @property
    def start(self) -> Path:
        """The folder of the student's initial weights."""
        if self.teacher == NOT_GIVEN:
            raise ConfigError(
                f"{option('teacher')} is missing. Name the folder of the model to learn from."
            )
        return self.student or self.teacher

    def check_out(self, out: Path) -> None:
        """Refuse an output folder that holds the teacher or student, or is inside one."""
        for name, folder in (("teacher", self.teacher), ("student", self.student)):
            if folder is not None and is_within(folder, out):
                raise ConfigError(
                    f"{out}: holds {option(name, folder)}. Choose another {option('out')}."
                )
        check_outside(out, self.teacher, self.student)

    def shortened(self, model: BertModel) -> tuple[BertModel, str]:
        """Build the student from the loaded model; also describe its origin.

        `model` is loaded from `start`.

        Raises:
            ConfigError: more layers than the teacher has, or none.
        """
        if self.student is not None:
            return model, f"{self.student}; {model.load_report}"
        num_layers = model.config.num_hidden_layers
        num_kept = max(1, num_layers // 2) if self.num_layers is None else self.num_layers
        if not 1 <= num_kept <= num_layers:
            raise ConfigError(
                f"{option('num_layers')}: found {num_kept}; the teacher {self.teacher} has "
                f"{num_layers} layers. Give 1 to {num_layers}."
            )
        keep = choose_layers(num_layers, num_kept)
        named = ", ".join(str(number) for number in keep)
        return truncate_layers(model, keep), f"layers {named} of the {num_layers} of {self.teacher}"

    def check_widths(self, student: BertConfig, teacher: BertConfig) -> None:
        """Refuse the loss on hidden states for different hidden sizes.

        Raises:
            ConfigError: the sizes differ and `hidden_weight` is not 0.
        """
        if self.hidden_weight and student.hidden_size != teacher.hidden_size:
            raise ConfigError(
                f"{option('hidden_weight')}: found {self.hidden_weight}; vectors of "
                f"{student.hidden_size} numbers cannot be compared with the teacher's of "
                f"{teacher.hidden_size}. Pass {option('hidden_weight', 0)}, or a "
                f"{option('student')} as wide as the teacher."
            )


def check_vocabularies(
    teacher: Path, of_teacher: Tokenizer, student: Path, of_student: Tokenizer
) -> None:
    """Refuse a student whose vocabulary is not the teacher's.

    Raises:
        CheckpointError: names a difference.
    """
    if of_teacher.fingerprint == of_student.fingerprint:
        return
    difference = first_difference(of_teacher, of_student) or (
        f"{of_student.vocab_size:,} and {of_teacher.vocab_size:,} tokens"
        if of_student.vocab_size != of_teacher.vocab_size
        else "an added token differs"
    )
    raise CheckpointError(
        f"{student}: its vocabulary is not that of the teacher {teacher} "
        f"({difference}). A student reads what its teacher reads: use one with the teacher's "
        "vocabulary, or the teacher's own layers."
    )


def facts_of(settings: StudentSettings, fingerprint: str, made_of: str) -> dict[str, Any]:
    """Build the entries of teacher and student in `run.json`."""
    return {
        "teacher": str(settings.teacher),
        "teacher_sha256": fingerprint,
        "student": made_of,
        **asdict(settings.teaching),
    }
