"""Distillation in pre-training: a smaller model is made from a pre-trained teacher and a corpus.

Distillation is pre-training with another objective: the student starts from layers of its teacher
and learns to predict masked tokens as the teacher does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bertsmith.config import to_jsonable
from bertsmith.data.corpus import Corpus
from bertsmith.distillation.pretraining_objective import PretrainingDistillation
from bertsmith.distillation.settings import PretrainingStudentSettings
from bertsmith.distillation.student import (
    check_vocabularies,
    check_widths,
    distillation_facts,
    loss_weights,
    shorten,
)
from bertsmith.distillation.teacher import fingerprint
from bertsmith.errors import CheckpointError, ConfigError, option
from bertsmith.evaluation.side_by_side import ComparisonInput, ModelComparison, compare_side_by_side
from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import suggest_masked_lm_folder
from bertsmith.model.loading import build, load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.model.shared import SharedModel
from bertsmith.model.shrinking import to_distilbert
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.config import PretrainConfig, SourceFacts
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.run import flat_summary
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.matrix_products import DTYPES
from bertsmith.system.paths import check_outside
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.callback import Callback
from bertsmith.training.machine import Machine
from bertsmith.training.run import BuiltRun, Run, Trained
from bertsmith.training.run_folder import CONFIG
from bertsmith.training.settings import OptimSettings, TrainingSettings

LEARNING_RATE = 5e-4
"""Default learning rate, as in DistilBERT. A student made of some layers of its teacher tolerates a
higher rate than a whole model that is trained further."""


def shorten_in_family(
    settings: PretrainingStudentSettings, model: BertModel
) -> tuple[BertModel, str]:
    """Build the student of a loaded model, in the requested family; describe its origin."""
    student, made_of = shorten(settings, model)
    if settings.family == "teacher" or student.config.model_type == settings.family:
        return student, made_of
    return to_distilbert(student), f"{made_of}, without segments and pooler"


@dataclass(frozen=True)
class DistillPretrainingJob:
    """The settings of a run, except for its output folder."""

    corpus: Path
    distillation: PretrainingStudentSettings
    pretraining: PretrainingSettings = field(
        default_factory=lambda: PretrainingSettings(pairs="none")
    )
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)

    def __post_init__(self) -> None:
        if (task := self.pretraining.pair_task) != "none":
            raise ConfigError(
                f"{option('pretraining.pairs')}: found {task!r}; a student learns from masked "
                "tokens only, as DistilBERT does. Leave it out."
            )
        if (objective := self.pretraining.objective) not in (None, "masked_lm"):
            raise ConfigError(
                f"{option('pretraining.objective')}: found {objective!r}; a student learns from "
                "masked tokens only, as DistilBERT does. Leave it out."
            )
        self.pretraining.with_shares()  # raises an error for shares that do not fit

    @property
    def as_pretrain_job(self) -> PretrainJob:
        """The job as one of pre-training that continues from the student's initial weights."""
        rate = self.optim.learning_rate or LEARNING_RATE
        optim = replace(self.optim, learning_rate=rate)
        return PretrainJob(
            self.corpus,
            ModelSettings(),
            self.pretraining,
            self.training,
            optim,
            from_=self.distillation.start,
        )


@dataclass(frozen=True)
class ResolvedDistillation:
    """A run with all settings resolved; nothing is written yet."""

    config: PretrainConfig
    pretraining: Pretraining
    """The objective without the teacher, which also evaluates."""
    objective: PretrainingDistillation
    student: BertModel
    tokenizer: Tokenizer
    made_of: str
    """Description of the weights that the student started from."""
    teacher: str
    """SHA-256 of the teacher's config and weights."""
    facts: Mapping[str, Any]
    """Facts about the data; see `Pretraining.facts`."""


class DistillPretrainingRun(Run[ResolvedDistillation, tuple[dict[str, Any], Pretraining]]):
    """Pre-training of a student; the result is its summary and the pre-training objective.

    `run` is inherited. It calls `check`, `resolve`, `build` and, after training, `build_result`.
    """

    def __init__(
        self,
        job: DistillPretrainingJob,
        out: Path,
        *,
        resume: bool,
        overwrite: bool,
        callbacks: Sequence[Callback],
        resume_command: str,
    ) -> None:
        super().__init__(
            out, job.training, resume=resume, callbacks=callbacks, resume_command=resume_command
        )
        self.job = job
        self.overwrite = overwrite

    def check(self) -> None:
        self.job.training.check_length()
        # The entry "comparison" of run.json, which is written last, says that a run is finished.
        self.folder.check(resume=self.resume, overwrite=self.overwrite, final_key="comparison")
        self.job.distillation.check_out(self.folder.path)
        check_outside(self.folder.path, self.job.corpus)

    def resolve(self, machine: Machine) -> ResolvedDistillation:
        job, settings = self.job, self.job.distillation
        teacher, tokenizer = _load_teacher(settings.teacher)
        teacher_fingerprint = fingerprint(teacher)
        student, made_of = _load_student(settings, teacher, tokenizer)
        corpus = Corpus.open(job.corpus)
        check_vocabularies(
            settings.teacher,
            tokenizer,
            corpus.directory,
            corpus.tokenizer(),
            advice=f"Build the corpus with {option('tokenizer', settings.teacher)}.",
        )
        readers = {
            f"teacher {settings.teacher}": teacher.config.max_length,
            f"student {settings.start}": student.config.max_length,
        }
        for name, longest in readers.items():
            if job.pretraining.max_length > longest:
                raise ConfigError(
                    f"{option('pretraining.max_length')}: found {job.pretraining.max_length}; the "
                    f"{name} reads {longest} tokens. Pass {option('max_length', longest)} or less."
                )
        # The run continues the student's initial weights, which have no folder: `source` describes
        # them by their origin. Micro-batches are sized for the teacher, which computes them, too.
        config = resolve_pretraining(
            job.as_pretrain_job,
            corpus,
            machine,
            source=SourceFacts(
                name=made_of,
                weights={"teacher": teacher_fingerprint},
                config=student.config,
                objective="masked_lm",
            ),
            previous=self.folder.read_run()[CONFIG] if self.resume else None,
            teacher=teacher.config,
        )
        pretraining = build_objective(config, corpus)
        shared = SharedModel(teacher.to(DTYPES[machine.precision]).to(machine.device).eval())
        return ResolvedDistillation(
            config,
            pretraining,
            PretrainingDistillation(
                pretraining, shared, loss_weights(settings), teacher_fingerprint
            ),
            student,
            tokenizer,
            made_of,
            teacher_fingerprint,
            pretraining.facts(),
        )

    def build(self, resolved: ResolvedDistillation, machine: Machine) -> BuiltRun:
        checkpoint = self.newest_checkpoint()
        config = resolved.config
        model = resolved.student if checkpoint is None else load_model(checkpoint.path)
        return BuiltRun(
            model.to(machine.device),
            resolved.objective,
            replace(config, notes=(resolved.made_of, *config.notes)),
            save=partial(save_model, model, tokenizer=resolved.tokenizer),
            facts={
                "command": "distill pretraining",
                "settings": to_jsonable(self.job),
                "distillation": distillation_facts(
                    self.job.distillation, resolved.teacher, resolved.made_of
                ),
                "data": resolved.facts,
            },
            checkpoint=checkpoint,
        )

    def build_result(
        self, resolved: ResolvedDistillation, trained: Trained
    ) -> tuple[dict[str, Any], Pretraining]:
        facts = {"out": str(self.folder.path), "made_of": resolved.made_of, **resolved.facts}
        return {**facts, **flat_summary(trained.summary)}, resolved.pretraining


def distill_pretraining(
    job: DistillPretrainingJob,
    out: Path,
    *,
    resume: bool,
    overwrite: bool,
    callbacks: Sequence[Callback],
    resume_command: str,
) -> tuple[dict[str, Any], ModelComparison]:
    """Run a job; return its summary with facts about the corpus, and teacher beside student.

    Args:
        out: the folder of the student and the run.
        resume: whether to continue the stopped run in `out`.
        overwrite: whether to replace an earlier run there.
        callbacks: objects that are told of each step and evaluation.
        resume_command: what the user runs to continue a stopped run, for messages.

    Raises:
        BertsmithError: settings, models, corpus or folder do not allow the run (nothing was
            written), or the run had to stop.
    """
    run = DistillPretrainingRun(
        job,
        out,
        resume=resume,
        overwrite=overwrite,
        callbacks=callbacks,
        resume_command=resume_command,
    )
    result, pretraining = run.run()
    comparison_input = ComparisonInput(
        device=job.training.device, precision=job.training.precision, measure=pretraining.evaluate
    )
    comparison = compare_side_by_side(
        read_folder(job.distillation.teacher), read_folder(out), comparison_input
    )
    run.folder.write_run({**run.folder.read_run(), "comparison": comparison.to_json()})
    return result, comparison


def _load_teacher(path: Path) -> tuple[BertModel, Tokenizer]:
    """Load the model and tokenizer of a folder with a masked-LM head.

    Raises:
        CheckpointError: the model has no masked-LM head.
    """
    folder = read_folder(path)
    if "masked_lm" not in folder.heads:
        raise CheckpointError(
            f"{folder.path}: has no masked-LM head, so it cannot be a teacher of pre-training. "
            f"{suggest_masked_lm_folder(folder.path)}"
        )
    return build(folder, ["masked_lm"]), folder.tokenizer


def _load_student(
    settings: PretrainingStudentSettings, teacher: BertModel, tokenizer: Tokenizer
) -> tuple[BertModel, str]:
    """Load the student, and describe its origin.

    Raises:
        CheckpointError: the student cannot learn from this teacher.
    """
    start = settings.start
    folder = read_folder(start)
    check_vocabularies(settings.teacher, tokenizer, start, folder.tokenizer)
    model, made_of = shorten_in_family(settings, build(folder, ["masked_lm"]))
    student_size, teacher_size = model.config.vocab_size, teacher.config.vocab_size
    if student_size != teacher_size:
        raise CheckpointError(
            f"{start}: has {student_size:,} word embeddings, and the teacher {settings.teacher} "
            f"{teacher_size:,}. Use a student with as many, or the teacher's layers."
        )
    check_widths(settings, model.config, teacher.config)
    return model, made_of
