"""The student of a distillation: a smaller model with the vocabulary of its teacher.

A student is made of layers of the teacher: by default half of them, spread from the first to the
last, like DistilBERT's one layer out of two (Sanh et al. 2019, section 3). Or it is another model
with the same vocabulary.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertsmith.distillation.objective import DistillationWeights
from bertsmith.distillation.settings import StudentSettings
from bertsmith.errors import CheckpointError, ConfigError, as_arguments, option
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.layer_choice import choose_layers
from bertsmith.model.shrinking import truncate_layers
from bertsmith.pretraining.from_model import first_difference
from bertsmith.tokenization.tokenizer import Tokenizer


def loss_weights(settings: StudentSettings) -> DistillationWeights:
    """Return the weights of the losses."""
    return DistillationWeights(
        settings.soft_weight, settings.soft_temperature, settings.hidden_weight
    )


def shorten(settings: StudentSettings, model: BertModel) -> tuple[BertModel, str]:
    """Build the student from `model`, which was loaded from `settings.start`; describe its origin.

    If `settings.student` is set, the student is this model as it is. Otherwise the model is the
    teacher, of which some layers are kept.

    Raises:
        ConfigError: more layers are requested than the teacher has, or none; or the teacher has
            no layers.
    """
    if settings.student is not None:
        return model, f"{settings.student}; {model.load_report}"
    num_layers = model.config.num_hidden_layers
    if num_layers == 0:
        raise ConfigError(
            f"{settings.teacher}: static vectors have no layers of which a student could be made. "
            f"Name a {option('student')} with the same vocabulary."
        )
    num_kept = max(1, num_layers // 2) if settings.num_layers is None else settings.num_layers
    if not 1 <= num_kept <= num_layers:
        raise ConfigError(
            f"{option('num_layers')}: found {num_kept}; the teacher {settings.teacher} has "
            f"{num_layers} layers. Give 1 to {num_layers}."
        )
    keep = choose_layers(num_layers, num_kept)
    named = f"{'layer' if num_kept == 1 else 'layers'} {', '.join(map(str, keep))}"
    return truncate_layers(model, keep), f"{named} of the {num_layers} of {settings.teacher}"


def check_widths(settings: StudentSettings, student: BertConfig, teacher: BertConfig) -> None:
    """Refuse the loss on hidden states for different hidden sizes, or without hidden states.

    Raises:
        ConfigError: `hidden_weight` is not 0, and the sizes differ or a model has no layers.
    """
    if settings.hidden_weight and 0 in (student.num_layers, teacher.num_layers):
        folder = settings.start if student.num_layers == 0 else settings.teacher
        raise ConfigError(
            f"{option('hidden_weight')}: found {settings.hidden_weight}; {folder} has static "
            f"vectors and no layers, so it has no hidden states. Pass {option('hidden_weight', 0)}."
        )
    if settings.hidden_weight and student.hidden_size != teacher.hidden_size:
        raise ConfigError(
            f"{option('hidden_weight')}: found {settings.hidden_weight}; vectors of "
            f"{student.hidden_size} numbers cannot be compared with the teacher's of "
            f"{teacher.hidden_size}. Pass {option('hidden_weight', 0)}, or a "
            f"{option('student')} as wide as the teacher."
        )


def check_vocabularies(
    teacher: Path,
    teacher_tokenizer: Tokenizer,
    other: Path,
    other_tokenizer: Tokenizer,
    advice: str = "Use a student with the teacher's vocabulary, or the teacher's own layers.",
) -> None:
    """Refuse a student, or a corpus, whose vocabulary is not the teacher's.

    Args:
        other: the folder of the student or the corpus.
        advice: a sentence for the message; by default the one for a student.

    Raises:
        CheckpointError: the vocabularies differ; the message names a difference.
    """
    # A fingerprint is a hash of a tokenizer's vocabulary and settings.
    if teacher_tokenizer.fingerprint == other_tokenizer.fingerprint:
        return
    # `first_difference` compares tokens and settings, but lets the second have more tokens.
    difference = first_difference(teacher_tokenizer, other_tokenizer) or (
        f"{other_tokenizer.vocab_size:,} and {teacher_tokenizer.vocab_size:,} tokens"
        if other_tokenizer.vocab_size != teacher_tokenizer.vocab_size
        else "an added token differs"
    )
    raise CheckpointError(
        f"{other}: its vocabulary is not that of the teacher {teacher} ({difference}). {advice}"
    )


def distillation_facts(settings: StudentSettings, fingerprint: str, made_of: str) -> dict[str, Any]:
    """Build the entry "distillation" of `run.json`.

    `fingerprint` is the SHA-256 of the teacher; `made_of` says of which weights the student began.
    """
    return {
        "teacher": str(settings.teacher),
        "teacher_sha256": fingerprint,
        "made_of": as_arguments(made_of),
        **asdict(loss_weights(settings)),
    }
