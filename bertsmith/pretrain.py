"""Pre-training from end to end: a corpus and settings go in, a trained model folder comes out.

This is where objective, model and trainer meet; none of them knows the other two by name.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

from bertsmith.config import to_jsonable
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.hardware import (
    compute_settings,
    count_trainers,
    select_device,
    select_precision,
)
from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.model.heads import build_heads
from bertsmith.model.huggingface import load_model
from bertsmith.sizing import Choice, choose_preset
from bertsmith.tasks.pretraining import Pretraining, PretrainingSettings
from bertsmith.timing import Computing
from bertsmith.training.checkpoint import Checkpoint, newest_checkpoint
from bertsmith.training.curves import draw_curves
from bertsmith.training.journal import read_journal
from bertsmith.training.optim import OptimSettings
from bertsmith.training.recorder import Watcher
from bertsmith.training.run_folder import RunFolder, machine_facts
from bertsmith.training.trainer import Summary, Trainer, TrainingSettings

LEARNING_RATES = {
    "tiny": 3e-3,
    "mini": 1.5e-3,
    "small": 7e-4,
    "medium": 4e-4,
    "base": 2e-4,
    "large": 1e-4,
}
"""Where no learning rate is given: the larger the model, the smaller the steps it bears. With the
rate of tiny, mini learnt nothing in 240 steps; with its own it had left the plateau after 800."""


MAX_LOOKS = 32 * 128**2
"""Tokens looked at by tokens, in all rows that a process computes at once on a CPU where nothing
else is said: 32 rows of 128 tokens, 2 of 512. Attention's weights take most of the memory of long
rows: with 8 rows of 512, base took 12.9 GB in two processes."""


@dataclass(frozen=True)
class ModelSettings:
    """The size of the model."""

    preset: Literal["tiny", "mini", "small", "medium", "base", "large", "auto"] = "mini"
    """One of BERT's released sizes; tiny learns in minutes on a laptop, large wants a large GPU.
    auto: the one that will know most after --minutes on this machine, by timing some steps."""
    max_position_embeddings: int = 512
    """The longest text, in tokens, that the model can ever read."""
    hidden_dropout_prob: float = 0.1
    """The share of each layer's outputs that is left out at random while it learns."""
    attention_probs_dropout_prob: float = 0.1
    """The same for attention weights."""
    initializer_range: float = 0.02
    """The spread of the random weights that training begins with. A tiny model leaves the plateau,
    on which it only knows how frequent words are, much sooner with 0.05."""
    pooling: Literal["first_token", "mean"] = "first_token"
    """What stands for a whole text: the vector of [CLS], or the mean over all tokens."""


@dataclass(frozen=True)
class PretrainJob:
    """Everything that defines a run, apart from the folder it is written to."""

    corpus: Path
    model: ModelSettings = field(default_factory=ModelSettings)
    pretraining: PretrainingSettings = field(default_factory=PretrainingSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)

    def with_preset(self, preset: Any) -> "PretrainJob":
        """The same with a model of another size."""
        return replace(self, model=replace(self.model, preset=preset))

    @property
    def resolved_optim(self) -> OptimSettings:
        """With the learning rate that suits the preset, if none was given."""
        rate = self.optim.learning_rate or LEARNING_RATES[self.model.preset]
        return replace(self.optim, learning_rate=rate)


def pretrain(
    job: PretrainJob,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    watchers: Sequence[Watcher] = (),
    resume_command: str = "the same call with resume",
) -> dict[str, Any]:
    """Run a job and give its summary with the facts about its data.

    Raises:
        BertsmithError: settings, corpus or folder do not allow it (nothing was written), or the
            run had to stop.
    """
    job.training.budget()
    folder = RunFolder(out)
    folder.check(resume=resume, overwrite=overwrite)
    device = select_device(job.training.device)
    with compute_settings(device, job.training.threads):
        precision = select_precision(job.training.precision, device)
        num_processes = count_trainers(device)
        objective = build_objective(job, num_processes)
        if resume and job.model.preset == "auto":
            job = job.with_preset(folder.read_run()["settings"]["model"]["preset"])
        choice = None
        if job.model.preset == "auto":
            computing = Computing(device, precision, num_processes)
            choice = choose_size(job, objective, computing)
            job = job.with_preset(choice.preset)
        checkpoint = newest_checkpoint(folder.checkpoints_dir) if resume else None
        model = build_model(job, objective, checkpoint).to(device)
        trainer = Trainer(
            model,
            objective,
            folder,
            job.training,
            job.resolved_optim,
            precision=precision,
            num_processes=num_processes,
            tokenizer=objective.train.corpus.tokenizer(),
            watchers=watchers,
            resume_command=resume_command,
            chosen="" if choice is None else str(choice),
        )
        if resume:
            trainer.resume(checkpoint)
        else:
            trainer.begin(_facts(job, objective, precision, device))
        summary = trainer.run()
    data = folder.read_run()["data"]
    draw_curves(
        read_journal(folder.journal_path), folder.curves_path, data.get("held_out_unigram_entropy")
    )
    return _result(summary, data, out)


def build_objective(job: PretrainJob, num_processes: int = 1) -> Pretraining:
    """Open both splits of the job's corpus; a step has a micro-batch for every process.

    Raises:
        ConfigError: rows are to be longer than the model can read.
        CorpusError: the corpus is damaged, or has a single document and pairs are asked for.
    """
    if job.pretraining.max_length > job.model.max_position_embeddings:
        raise ConfigError(
            f"pretraining.max_length: found {job.pretraining.max_length}; allowed is at most "
            f"model.max_position_embeddings, {job.model.max_position_embeddings}."
        )
    rows_each = min(-(-job.training.batch_size // num_processes), _rows_at_once(job))
    return Pretraining(
        Corpus.open(job.corpus),
        Corpus.open(job.corpus, "held_out"),
        job.pretraining,
        batch_size=job.training.batch_size,
        micro_batch_size=rows_each,
        seed=job.training.seed,
        eval_rows=job.training.eval_rows,
    )


def _rows_at_once(job: PretrainJob) -> int:
    """How many rows a process computes at once at most."""
    if job.training.micro_batch_size is not None:
        return job.training.micro_batch_size
    if select_device(job.training.device).type != "cpu":
        return job.training.batch_size
    return max(1, MAX_LOOKS // job.pretraining.max_length**2)


def choose_size(job: PretrainJob, objective: Pretraining, computing: Computing) -> Choice:
    """The size that serves the job's minutes best."""
    config = asdict(job.model)
    del config["preset"]
    return choose_preset(objective, config, job.training.minutes, computing)


def build_model(
    job: PretrainJob, objective: Pretraining, checkpoint: Checkpoint | None = None
) -> BertModel:
    """A new model from the seed, or the checkpoint's."""
    if checkpoint is not None:
        return load_model(checkpoint.path)
    changes = asdict(job.model)
    config = BertConfig.from_preset(
        changes.pop("preset"), objective.train.corpus.vocab_size, **changes
    )
    heads = ["masked_lm", "next_sentence"] if job.pretraining.next_sentence else ["masked_lm"]
    torch.manual_seed(job.training.seed)
    return BertModel(config, build_heads(config, heads))


def _facts(
    job: PretrainJob, objective: Pretraining, precision: str, device: torch.device
) -> dict[str, Any]:
    return {
        "command": "pretrain",
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": to_jsonable(replace(job, optim=job.resolved_optim)),
        "precision": precision,
        **machine_facts(device),
        "data": objective.facts(),
    }


def _result(summary: Summary, data: dict[str, Any], out: Path) -> dict[str, Any]:
    """The summary as one flat object."""
    facts = asdict(summary)
    last_step, held_out = facts.pop("last_step"), facts.pop("held_out")
    figures = {name: value for name, value in last_step.items() if "loss" in name or "acc" in name}
    measured = {name: value for name, value in held_out.items() if name.startswith("held_out_")}
    return {"out": str(out), **facts, **figures, **measured, **data}
