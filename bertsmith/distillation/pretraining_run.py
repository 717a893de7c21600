"""Distillation in pre-training: a pre-trained teacher and a corpus in, a smaller model out.

It is pre-training with another objective: the student starts as layers of its teacher, and is
trained to predict masked tokens as the teacher does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from bertsmith.config import to_jsonable
from bertsmith.data.shards import Corpus
from bertsmith.distillation.pretraining_objective import PretrainingDistillation
from bertsmith.distillation.student import StudentSettings, check_vocabularies, facts_of
from bertsmith.distillation.teacher import fingerprint
from bertsmith.errors import CheckpointError, ConfigError, option
from bertsmith.evaluation.side_by_side import ComparisonInput, compare_side_by_side
from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import who_guesses
from bertsmith.model.loading import build, load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.model.shared import SharedModel
from bertsmith.model.shrinking import distilled
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.config import SourceFacts
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.run import flat_summary
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.matrix_products import DTYPES
from bertsmith.system.paths import check_outside
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.checkpoint import newest_checkpoint
from bertsmith.training.curves import draw_curves
from bertsmith.training.journal import read_journal
from bertsmith.training.machine import computing_on
from bertsmith.training.model_card import write_card
from bertsmith.training.recorder import Callback
from bertsmith.training.run_folder import CONFIG, RunFolder
from bertsmith.training.runner import TrainingRun, run_training
from bertsmith.training.settings import OptimSettings, TrainingSettings

LEARNING_RATE = 5e-4
"""DistilBERT's rate, the default: layers taken from a teacher tolerate more than a continued model.
"""


@dataclass(frozen=True)
class PretrainingStudentSettings(StudentSettings):
    """Settings of distillation in pre-training: teacher, student and losses."""

    teacher: Annotated[Path, tyro.conf.arg(help_behavior_hint="(required)")] = Path()
    """Folder of the pre-trained teacher, with a masked-LM head. It is only read."""
    family: Literal["teacher", "distilbert"] = "teacher"
    """Family of the student: that of the teacher, or distilbert, without segments and pooler."""
    soft_weight: float = 0.7
    """Weight of the distillation loss on masked tokens, from 0 to 1; masked LM has the rest.
    DistilBERT has 5 to 2."""
    hidden_weight: float = 0.15
    """Weight of the cosine loss between student and teacher last hidden states; 0 turns it off.
    DistilBERT has 1, beside 5 and 2 for the above."""

    def shortened(self, model: BertModel) -> tuple[BertModel, str]:
        """Build the student of a loaded model, in the requested family."""
        student, made_of = super().shortened(model)
        if self.family == "teacher" or student.config.model_type == self.family:
            return student, made_of
        return distilled(student), f"{made_of}, without segments and pooler"


@dataclass(frozen=True)
class DistillPretrainingJob:
    """The full definition of a run, except for its output folder."""

    corpus: Path
    student: PretrainingStudentSettings
    pretraining: PretrainingSettings = field(
        default_factory=lambda: PretrainingSettings(pairs="none")
    )
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)

    def __post_init__(self) -> None:
        if (task := self.pretraining.pair_task) != "none":
            raise ConfigError(
                f"{option('pretraining.pairs')}: found {task!r}; a student learns masked tokens "
                "alone, as DistilBERT does. Leave it out."
            )
        if self.pretraining.replaces:
            raise ConfigError(
                f"{option('pretraining.objective')}: found 'replaced_token'; a student learns "
                "masked tokens alone, as DistilBERT does. Leave it out."
            )
        self.pretraining.with_shares()  # which do for masked LM, that nothing else may ask for

    @property
    def said(self) -> PretrainJob:
        """The job as one of pre-training that continues the student."""
        rate = self.optim.learning_rate or LEARNING_RATE
        optim = replace(self.optim, learning_rate=rate)
        return PretrainJob(
            self.corpus, ModelSettings(), self.pretraining, self.training, optim, self.student.start
        )


def distill_pretraining(
    job: DistillPretrainingJob,
    out: Path,
    *,
    resume: bool,
    overwrite: bool,
    callbacks: Sequence[Callback],
    resume_command: str,
) -> dict[str, Any]:
    """Run a job; return its summary, corpus facts, and the comparison.

    Raises:
        BertsmithError: settings, models, corpus or folder do not allow it (nothing was written), or
            the run had to stop.
    """
    training, student = job.training, job.student
    training.check_length()
    folder = RunFolder(out)
    check = partial(folder.check, resume=resume, overwrite=overwrite, last="comparison")
    check()
    student.check_out(out)
    check_outside(out, job.corpus)
    computing = computing_on(training, folder if resume else None)
    with folder.held(check), computing as machine:
        teacher, tokenizer = _load_teacher(student.teacher)
        mark = fingerprint(teacher)
        model, made_of = _load_student(student, teacher, tokenizer)
        corpus = Corpus.open(job.corpus)
        check_vocabularies(student.teacher, tokenizer, corpus.directory, corpus.tokenizer())
        if job.pretraining.max_length > teacher.config.max_length:
            raise ConfigError(
                f"{option('pretraining.max_length')}: found {job.pretraining.max_length}; the "
                f"teacher {student.teacher} reads {teacher.config.max_length} tokens. Pass "
                f"{option('max_length', teacher.config.max_length)} or less."
            )
        # Micro-batches are sized for the teacher, which computes each of them, too.
        config = resolve_pretraining(
            job.said,
            corpus,
            machine,
            source=SourceFacts(made_of, {"teacher": mark}, model.config, "masked_lm"),
            previous=folder.read_run()[CONFIG] if resume else None,
            largest=teacher.config,
        )
        pretraining = build_objective(config, corpus)
        reading = SharedModel(teacher.to(DTYPES[machine.precision]).to(machine.device).eval())
        objective = PretrainingDistillation(pretraining, reading, student.teaching, mark)
        checkpoint = newest_checkpoint(folder.checkpoints_dir) if resume else None
        if checkpoint is not None:
            model = load_model(checkpoint.path)
        data = pretraining.facts()
        trained = run_training(
            TrainingRun(
                model.to(machine.device),
                objective,
                config.run_config(objective.identity(), [made_of]),
                save=partial(save_model, model, tokenizer=tokenizer),
                facts={
                    "command": "distill pretraining",
                    "settings": to_jsonable(job),
                    "distillation": facts_of(student, mark, made_of),
                    "data": data,
                },
                report_to=training.report_to,
            ),
            folder,
            resume=resume,
            checkpoint=checkpoint,
            callbacks=callbacks,
            resume_command=resume_command,
        )
        write_card(out, folder.read_run())
    entries = read_journal(folder.journal_path)
    draw_curves(entries, folder.curves_path, folder.read_run())
    trial = ComparisonInput(
        device=training.device, precision=training.precision, measure=pretraining.evaluate
    )
    comparison = compare_side_by_side(read_folder(student.teacher), read_folder(out), trial)
    folder.write_run({**folder.read_run(), "comparison": comparison.to_json()})
    facts = {"out": str(out), "student": made_of, **data}
    return {**facts, **flat_summary(trained.summary), "comparison": comparison}


def _load_teacher(path: Path) -> tuple[BertModel, Tokenizer]:
    """Load the model and tokenizer of a folder with a masked-LM head.

    Raises:
        CheckpointError: it has no masked-LM head.
    """
    folder = read_folder(path)
    if "masked_lm" not in folder.heads:
        raise CheckpointError(
            f"{folder.path}: has no masked-LM head, so it cannot be a teacher here. "
            f"{who_guesses(folder.path)}"
        )
    return build(folder, ["masked_lm"]), folder.tokenizer


def _load_student(
    settings: StudentSettings, teacher: BertModel, tokenizer: Tokenizer
) -> tuple[BertModel, str]:
    """Load the student, and describe its origin.

    Raises:
        CheckpointError: it cannot learn from this teacher.
    """
    start = settings.start
    folder = read_folder(start)
    check_vocabularies(settings.teacher, tokenizer, start, folder.tokenizer)
    model, made_of = settings.shortened(build(folder, ["masked_lm"]))
    sizes = model.config.vocab_size, teacher.config.vocab_size
    if sizes[0] != sizes[1]:
        raise CheckpointError(
            f"{start}: has {sizes[0]:,} word embeddings, and the teacher {settings.teacher} "
            f"{sizes[1]:,}. Use a student with as many, or the teacher's layers."
        )
    settings.check_widths(model.config, teacher.config)
    return model, made_of
