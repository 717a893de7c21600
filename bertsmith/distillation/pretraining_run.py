"""Distillation in pre-training: a pre-trained teacher and a corpus in, a smaller model out.

It is pre-training with another objective: the student starts as layers of its teacher, and is
trained to predict masked tokens as the teacher does.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bertsmith.config import to_jsonable
from bertsmith.distillation.objective import Teaching
from bertsmith.distillation.pretraining_objective import PretrainingDistillation
from bertsmith.distillation.student import StudentSettings, check_vocabularies, facts_of
from bertsmith.distillation.teacher import fingerprint
from bertsmith.distillation.teacher_vectors import VectorCache
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.evaluation.side_by_side import Comparison, Trial, compare
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.electra_pair import who_guesses
from bertsmith.model.keep_layers import distilled
from bertsmith.model.loading import build, load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.shared import SharedModel
from bertsmith.pretraining.job import PretrainJob, build_objective, look_ahead, look_back
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.step_timer import Computing
from bertsmith.system.hardware import (
    compute_settings,
    computing_as,
    count_trainers,
    select_device,
    select_precision,
)
from bertsmith.tasks.inference import DTYPES
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.checkpoint import newest_checkpoint
from bertsmith.training.curves import draw_curves
from bertsmith.training.journal import read_journal
from bertsmith.training.optim import OptimSettings
from bertsmith.training.recorder import Callback
from bertsmith.training.run_folder import RunFolder, machine_facts
from bertsmith.training.trainer import Summary, Trainer, TrainingSettings

LEARNING_RATE = 5e-4
"""DistilBERT's rate, the default: layers taken from a teacher tolerate more than a continued model.
"""


@dataclass(frozen=True)
class PretrainingStudentSettings(StudentSettings):
    """Settings of distillation in pre-training: teacher, student and losses."""

    teacher: Path = Path()
    """Folder of the pre-trained teacher, with a masked-LM head. It is only read."""
    family: Literal["distilbert"] | None = None
    """Family of the student: distilbert has no segments and no pooler. By default the teacher's."""
    soft_weight: float = 0.7
    """Weight of the distillation loss on masked tokens, from 0 to 1; masked LM has the rest.
    DistilBERT has 5 to 2."""
    hidden_weight: float = 0.15
    """Weight of the cosine loss between student and teacher last hidden states; 0 turns it off.
    DistilBERT has 1, beside 5 and 2 for the above."""

    cache: Path | None = None
    """Cache folder for the teacher's vectors of each batch, which are read where a batch is
    repeated: in further rounds of --duplicates, and in later runs with the same corpus, seed,
    lengths and batches (another student, other loss weights). On the same machine it changes no
    number. Takes two bytes (four in fp32) per number of each token's vector; with --hidden-weight 0
    only of masked tokens, a seventh of that."""

    def shortened(self, model: BertModel) -> tuple[BertModel, str]:
        """Build the student of a loaded model, in the requested family."""
        student, made_of = super().shortened(model)
        if self.family is None or student.config.model_type == self.family:
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
        """Refuse tasks other than masked LM."""
        if (task := self.pretraining.pair_task) != "none":
            raise ConfigError(
                f"pretraining.pairs: found {task!r}; a student learns hidden words alone, as "
                "DistilBERT. Leave it out."
            )
        if self.pretraining.replaces:
            raise ConfigError(
                "pretraining.objective: found 'replaced_token'; a student learns hidden words "
                "alone, as DistilBERT. Leave it out."
            )
        self.pretraining.with_shares()  # which do for masked LM, that nothing else may ask for

    @property
    def resolved_optim(self) -> OptimSettings:
        """The optimizer settings with a learning rate."""
        return replace(self.optim, learning_rate=self.optim.learning_rate or LEARNING_RATE)

    @property
    def resolved(self) -> "DistillPretrainingJob":
        """The job with all default shares and the learning rate filled in."""
        return replace(self, pretraining=self.pretraining.with_shares(), optim=self.resolved_optim)

    def pretraining_of(
        self, config: BertConfig, teacher: BertConfig, computing: Computing
    ) -> Pretraining:
        """Build the pre-training objective for a student of this shape.

        Micro-batches are sized for the teacher, so that cached vectors serve students of any size.
        """
        shape = ModelSettings(max_position_embeddings=config.max_length)
        job = PretrainJob(self.corpus, shape, self.pretraining, self.training, self.resolved_optim)
        return build_objective(job, computing, teacher)


def distill_pretraining(
    job: DistillPretrainingJob,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume",
) -> dict[str, Any]:
    """Run a job; return its summary, corpus facts, and the comparison.

    Raises:
        BertsmithError: settings, models, corpus or folder do not allow it (nothing was written), or
            the run had to stop.
    """
    job.training.budget()
    start = job.student.start
    folder = RunFolder(out)
    folder.check(resume=resume, overwrite=overwrite, last="comparison")
    job.student.check_out(out)
    device = select_device(job.training.device)
    check = partial(folder.check, resume=resume, overwrite=overwrite, last="comparison")
    with (
        folder.held(check),
        computing_as(folder.read_choices() if resume else None),
        compute_settings(device, job.training.threads),
    ):
        precision = select_precision(job.training.precision, device)
        computing = Computing(device, precision, count_trainers(device))
        teacher, tokenizer = load_teacher(job.student.teacher)
        mark = fingerprint(teacher)
        start_folder = read_folder(start)
        whole = build(start_folder, ["masked_lm"])
        check_vocabularies(job.student.teacher, tokenizer, start, start_folder.tokenizer)
        model, made_of = job.student.shortened(whole)
        check_sizes(job.student, model, teacher)
        job.student.check_widths(model.config, teacher.config)
        pretraining = job.pretraining_of(model.config, teacher.config, computing)
        check_corpus(pretraining, job.student.teacher, tokenizer)
        if resume:
            outlook = look_back(job.training, folder.read_run())
        else:
            outlook = look_ahead(job.training, pretraining, model.to(device), computing)
        pretraining = outlook.fit(pretraining)
        teaching = Teaching(
            job.student.soft_weight,
            job.student.soft_temperature,
            job.student.hidden_weight,
        )
        reading = SharedModel(teacher.to(DTYPES[precision]).to(device).eval())
        cache = None
        if job.student.cache is not None:
            cache = VectorCache(
                job.student.cache,
                {"teacher": mark, "tokenizer": tokenizer.fingerprint},
                teacher.config.hidden_size,
                DTYPES[precision],
                hidden=teaching.hidden_weight > 0,
            )
        cached = "" if cache is None else describe_cache(job, cache)
        objective = PretrainingDistillation(pretraining, reading, teaching, mark, cache)
        checkpoint = newest_checkpoint(folder.checkpoints_dir) if resume else None
        if checkpoint is not None:
            model = load_model(checkpoint.path)
        trainer = Trainer(
            model.to(device),
            objective,
            folder,
            job.training,
            job.resolved_optim,
            precision=precision,
            num_processes=computing.num_processes,
            tokenizer=tokenizer,
            callbacks=callbacks,
            resume_command=resume_command,
            chosen="; ".join(filter(None, [made_of, cached, *outlook.notes])),
            evaluations=outlook.evaluations,
        )
        data = pretraining.facts()
        if resume and "summary" in folder.read_run():  # all but the comparison was there
            summary = trainer.recall()
        elif resume:
            trainer.resume(checkpoint)
            summary = trainer.run()
        else:
            facts = {
                "command": "distill pretraining",
                "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "settings": to_jsonable(job.resolved),
                "distillation": facts_of(job.student, mark, made_of),
                "precision": precision,
                **machine_facts(device),
                "data": data,
                **outlook.facts,
            }
            trainer.begin(facts)
            summary = trainer.run()
    entries = read_journal(folder.journal_path)
    draw_curves(entries, folder.curves_path, data.get("held_out_unigram_entropy"))
    training = job.training
    trial = Trial(
        device=training.device, precision=training.precision, measure=pretraining.evaluate
    )
    comparison = compare(read_folder(job.student.teacher), read_folder(out), trial)
    folder.write_run({**folder.read_run(), "comparison": comparison.to_json()})
    facts = {"out": str(out), "student": made_of, **data}
    if cache is not None:
        facts |= cache.facts()
    return result_of(summary, facts, comparison)


def describe_cache(job: DistillPretrainingJob, cache: VectorCache) -> str:
    """Describe the cache of the teacher's vectors: folder, size and reuse."""
    settings = job.pretraining
    share = 1.0 if cache.holds_all else settings.masking_rate
    numbers = share * job.training.batch_size * settings.max_length * cache.width
    megabytes = numbers * cache.dtype.itemsize / 1e6
    again = "" if settings.duplicates else ", none of which comes again in this run (--duplicates)"
    return f"the teacher's vectors in {cache.directory}, up to {megabytes:,.1f} MB a step{again}"


def load_teacher(path: Path) -> tuple[BertModel, Tokenizer]:
    """Load the model and tokenizer of a folder with a masked-LM head.

    Raises:
        CheckpointError: it has no masked-LM head.
    """
    folder = read_folder(path)
    if "masked_lm" not in folder.heads:
        raise CheckpointError(
            f"{folder.path}: has no masked-LM head, so it cannot teach that. "
            f"{who_guesses(folder.path)}"
        )
    return build(folder, ["masked_lm"]), folder.tokenizer


def check_sizes(student: StudentSettings, model: BertModel, teacher: BertModel) -> None:
    """Refuse two models with different vocabulary sizes."""
    sizes = model.config.vocab_size, teacher.config.vocab_size
    if sizes[0] != sizes[1]:
        raise CheckpointError(
            f"{student.start}: has {sizes[0]:,} word embeddings, and the teacher "
            f"{student.teacher} {sizes[1]:,}. Use a student with as many, or the teacher's layers."
        )


def check_corpus(pretraining: Pretraining, teacher: Path, tokenizer: Tokenizer) -> None:
    """Refuse a corpus of another vocabulary than the teacher's.

    Raises:
        CheckpointError: it was built with another vocabulary.
    """
    corpus = pretraining.train.corpus
    check_vocabularies(teacher, tokenizer, corpus.directory, corpus.tokenizer())


def result_of(summary: Summary, facts: dict[str, Any], comparison: Comparison) -> dict[str, Any]:
    """Flatten the summary, facts and final losses; add the comparison."""
    found = asdict(summary)
    last_step, held_out = found.pop("last_step"), found.pop("held_out")
    figures = {name: value for name, value in last_step.items() if "loss" in name or "acc" in name}
    measured = {name: value for name, value in held_out.items() if name.startswith("held_out_")}
    return {**facts, **found, **figures, **measured, "comparison": comparison}
