"""Who learns from whom: settings → a teacher, and a student that is smaller and reads as it does.

A student is made of the teacher's own layers, every second of them, as DistilBERT (Sanh et al.
2019, section 3); or it is another model with the same vocabulary.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.model.truncation import choose_layers, truncate_layers
from bertsmith.tasks.settings import NOT_GIVEN
from bertsmith.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class StudentSettings:
    """Who teaches, what the student is made of, and what it learns by."""

    teacher: Path = NOT_GIVEN
    """Folder of the model to learn from. It is only read."""
    student: Path | None = None
    """Folder of a smaller model to start from, with the teacher's vocabulary. Where not given, the
    student is made of the teacher's own layers."""
    num_layers: int | None = None
    """How many of the teacher's layers the student is made of, spread from the first to the last.
    Half of them where not given."""
    soft_weight: float = 0.5
    """How much the teacher's answers count, from 0 to 1; the right answers count for the rest."""
    soft_temperature: float = 2.0
    """Of choices, how much of the less likely ones is learnt: both models' logits are divided by
    this, which makes them more alike. 1 leaves them as they are."""
    hidden_weight: float = 0.0
    """How much it counts that the vectors of the last layer point where the teacher's do; 0 does
    not look at them. Only a student as wide as its teacher has such vectors."""
    cache: Path | None = None
    """Keep what the teacher says in this folder."""

    def __post_init__(self) -> None:
        """Refuse what cannot be learnt by."""
        if self.num_layers is not None and self.student is not None:
            raise ConfigError("--num-layers and --student exclude each other. Give one of them.")
        if not 0 <= self.soft_weight <= 1:
            raise ConfigError(f"--soft-weight: found {self.soft_weight}; allowed is 0 to 1.")
        if not 0 < self.soft_temperature < math.inf:
            found = self.soft_temperature
            raise ConfigError(f"--soft-temperature: found {found}; allowed is above 0.")
        if not 0 <= self.hidden_weight < math.inf:
            found = self.hidden_weight
            raise ConfigError(f"--hidden-weight: found {found}; allowed is 0 or more.")

    @property
    def start(self) -> Path:
        """The folder that the student's weights come from."""
        if self.teacher == NOT_GIVEN:
            raise ConfigError("--teacher: not given. Name the folder of the model to learn from.")
        return self.student or self.teacher

    def check_out(self, out: Path) -> None:
        """Refuse to write over the teacher or the student's first weights, or among a cache."""
        for flag, folder in (("--teacher", self.teacher), ("--student", self.student)):
            if folder is not None and folder.resolve().is_relative_to(out.resolve()):
                raise ConfigError(f"{out}: holds {flag} {folder}. Choose another --out.")
        if self.cache is not None and self.cache.resolve().is_relative_to(out.resolve()):
            raise ConfigError(
                f"--cache {self.cache}: in --out {out}. Choose a folder elsewhere, which serves "
                "other runs too."
            )

    def shortened(self, model: BertModel) -> tuple[BertModel, str]:
        """The student of the model that was loaded from `start`, and what it is made of.

        Raises:
            ConfigError: more layers than the teacher has, or none.
        """
        if self.student is not None:
            return model, f"{self.student}; {model.load_report}"
        num_layers = model.config.num_hidden_layers
        num_kept = max(1, num_layers // 2) if self.num_layers is None else self.num_layers
        if not 1 <= num_kept <= num_layers:
            raise ConfigError(
                f"--num-layers: found {num_kept}; the teacher {self.teacher} has {num_layers} "
                f"layers. Give 1 to {num_layers}."
            )
        keep = choose_layers(num_layers, num_kept)
        named = ", ".join(str(number) for number in keep)
        return truncate_layers(model, keep), f"layers {named} of the {num_layers} of {self.teacher}"

    def check_widths(self, student: BertConfig, teacher: BertConfig) -> None:
        """Refuse vectors that cannot be compared.

        Raises:
            ConfigError: the two are not equally wide, and vectors are to be learnt.
        """
        if self.hidden_weight and student.hidden_size != teacher.hidden_size:
            raise ConfigError(
                f"--hidden-weight: found {self.hidden_weight}; vectors of {student.hidden_size} "
                f"numbers cannot be compared with the teacher's of {teacher.hidden_size}. Pass "
                "--hidden-weight 0, or a --student as wide as the teacher."
            )


def check_vocabularies(
    teacher: Path, of_teacher: Tokenizer, student: Path, of_student: Tokenizer
) -> None:
    """Refuse a student that does not read as its teacher does.

    Raises:
        CheckpointError: says in what they differ.
    """
    if of_teacher.fingerprint == of_student.fingerprint:
        return
    raise CheckpointError(
        f"{student}: its vocabulary is not that of the teacher {teacher} "
        f"({differing(of_student, of_teacher)}). A student reads what its teacher reads: use one "
        "with the teacher's vocabulary, or the teacher's own layers."
    )


def differing(mine: Tokenizer, theirs: Tokenizer) -> str:
    """In what two vocabularies differ: size, a piece, or a setting."""
    if mine.vocab_size != theirs.vocab_size:
        return f"{mine.vocab_size:,} and {theirs.vocab_size:,} pieces"
    pairs = enumerate(zip(mine.vocab, theirs.vocab, strict=True))
    if (first := next(((i, a, b) for i, (a, b) in pairs if a != b), None)) is not None:
        number, piece, other = first
        return f"piece {number} is {piece!r} and {other!r}"
    before, after = theirs.settings(), mine.settings()
    names = [name for name in after if after[name] != before[name] and name != "model_max_length"]
    return ", ".join(f"{name} is {after[name]} and {before[name]}" for name in names)


def facts_of(settings: StudentSettings, fingerprint: str, made_of: str) -> dict[str, Any]:
    """What `run.json` says of teacher and student."""
    return {
        "teacher": str(settings.teacher),
        "teacher_sha256": fingerprint,
        "student": made_of,
        "soft_weight": settings.soft_weight,
        "soft_temperature": settings.soft_temperature,
        "hidden_weight": settings.hidden_weight,
    }
