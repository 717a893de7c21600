"""Pre-training from end to end: a corpus and settings go in, a trained model folder comes out.

This is where objective, model and trainer meet; none of them knows the other two by name. A model
begins at random or, with `from_`, where another stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bertsmith.config import to_jsonable
from bertsmith.data.unknown_tokens import tell_unknown
from bertsmith.errors import ConfigError, Interrupted
from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import build_trained
from bertsmith.model.model_folder import read_folder
from bertsmith.pretraining.from_checkpoint import (
    AdaptationReport,
    Source,
    stored_pooler,
    with_pooler,
)
from bertsmith.pretraining.job import (
    PretrainJob,
    build_model,
    build_objective,
    choose_size,
    look_ahead,
    look_back,
)
from bertsmith.pretraining.model_settings import NEW_MODEL
from bertsmith.pretraining.objective import Pretraining, token_counts
from bertsmith.pretraining.step_timer import Computing
from bertsmith.system.hardware import (
    compute_settings,
    computing_as,
    count_trainers,
    select_device,
    select_precision,
)
from bertsmith.training.checkpoint import Checkpoint, check_identity, newest_checkpoint
from bertsmith.training.curves import draw_curves
from bertsmith.training.journal import is_held_out, read_journal
from bertsmith.training.objective import Measure, Measured
from bertsmith.training.recorder import Callback
from bertsmith.training.run_folder import RunFolder, machine_facts
from bertsmith.training.trainer import Summary, Trainer


def pretrain(
    job: PretrainJob,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume",
    measure: Measure | None = None,
) -> dict[str, Any]:
    """Run a job and give its summary with the facts about its data.

    What `measure` finds joins the held-out figures as `held_out_common_eval_…`.

    Raises:
        BertsmithError: settings, corpus or folder do not allow it (nothing was written), or the
            run had to stop.
        Interrupted: the user asked to stop; with `measure`, which runs of a series have, also where
            this one is complete.
    """
    job.training.budget()
    folder = RunFolder(out)
    folder.check(resume=resume, overwrite=overwrite, has_curves=True)
    if job.from_ is not None and job.from_.resolve().is_relative_to(out.resolve()):
        raise ConfigError(f"{out}: holds --from {job.from_}. Choose another --out.")
    device = select_device(job.training.device)
    check = partial(folder.check, resume=resume, overwrite=overwrite, has_curves=True)
    with (
        folder.held(check),
        computing_as(folder.read_choices() if resume else None),
        compute_settings(device, job.training.threads),
    ):
        computing = Computing(
            device, select_precision(job.training.precision, device), count_trainers(device)
        )
        checkpoint = newest_checkpoint(folder.checkpoints_dir) if resume else None
        start = _start(job, folder if resume else None, checkpoint, computing)
        job, objective, model = start.job, start.objective, start.model.to(device)
        if resume:
            outlook = look_back(job.training, folder.read_run())
        else:
            outlook = look_ahead(job.training, objective, model, computing)
        objective = outlook.fit(objective)
        tokenizer = objective.train.corpus.tokenizer()
        if start.longest is not None:
            tokenizer.model_max_length = start.longest
        trainer = Trainer(
            model,
            objective if measure is None else Measured(objective, measure, "common_eval"),
            folder,
            job.training,
            job.optim,
            precision=computing.precision,
            num_processes=computing.num_processes,
            tokenizer=tokenizer,
            callbacks=callbacks,
            resume_command=resume_command,
            chosen="; ".join(filter(None, [start.chosen, *outlook.notes])),
            evaluations=outlook.evaluations,
            as_saved=start.as_saved,
        )
        manifest = objective.train.corpus.manifest
        data = {**objective.facts(), "unknown_rate": manifest.unknown_rate}
        if resume and "summary" in folder.read_run():  # all but the curves was there
            summary = trainer.recall()
        else:
            if resume:
                trainer.resume(checkpoint)
            else:
                tell_unknown(data["unknown_rate"], job.corpus)
                trainer.begin({**_facts(start, computing, data), **outlook.facts})
            summary = trainer.run()
    source = folder.read_run().get("source")
    entries = read_journal(folder.journal_path)
    draw_curves(entries, folder.curves_path, data.get("held_out_unigram_entropy"))
    if trainer.is_stop_requested and measure is not None:  # one of several runs
        raise Interrupted(f"{out}: trained, then stopped. Continue with: {resume_command}")
    return {**_result(summary, data, source, entries, out), "mask_token": tokenizer.mask_token}


@dataclass(frozen=True)
class _Start:
    """A run that is about to begin or to go on: its settings in full, objective and model."""

    job: PretrainJob
    objective: Pretraining
    model: BertModel
    chosen: str = ""
    report: AdaptationReport | None = None
    """What became of the model that it goes on from."""
    longest: int | None = None
    """The longest text that it reads, where that is not what the other read."""
    as_saved: Callable[[BertModel], AbstractContextManager[object]] = nullcontext


def _start(
    job: PretrainJob, resumed: RunFolder | None, checkpoint: Checkpoint | None, computing: Computing
) -> _Start:
    """A new model, one to go on from, or a checkpoint of this run."""
    if resumed is not None:
        check_identity(
            resumed.path, _origin(resumed.read_run()["settings"]), _origin(to_jsonable(job))
        )
    if job.from_ is None:
        return _start_new(job, resumed, checkpoint, computing)
    if resumed is not None and checkpoint is not None:
        return _start_again(job, resumed, checkpoint, computing)
    return _start_continued(job, resumed, computing)


def _origin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the origin of a run, as far as its checkpoints do not hold it."""
    model = settings.get("model")  # a path where the run is a fine-tuning
    initializer = model["position_initializer"] if isinstance(model, Mapping) else None
    return {
        "from": settings.get("from"),
        "position_initializer": initializer or NEW_MODEL["position_initializer"],
    }


def _start_new(
    job: PretrainJob, resumed: RunFolder | None, checkpoint: Checkpoint | None, computing: Computing
) -> _Start:
    """A new model from the seed, or the checkpoint's."""
    job = job.prepared
    if resumed is not None and job.model.preset == "auto":
        job = job.with_preset(resumed.read_run()["settings"]["model"]["preset"])
    objective = build_objective(job, computing)
    choice = None
    if job.model.preset == "auto":
        choice = choose_size(job, objective, computing)
        job = job.with_preset(choice.preset)
        objective = build_objective(job, computing)
    if checkpoint is None:
        model = build_model(job, objective)
    else:
        model = build_trained(read_folder(checkpoint.path))
    chosen = "" if choice is None else str(choice)
    return _Start(replace(job, optim=job.resolved_optim), objective, model, chosen)


def _start_again(
    job: PretrainJob, resumed: RunFolder, checkpoint: Checkpoint, computing: Computing
) -> _Start:
    """The checkpoint of a run that went on from another model, which is not needed any more."""
    folder = read_folder(checkpoint.path)
    model, pooler = build_trained(folder), stored_pooler(folder)
    job = job.going_on_from_folder(folder)
    objective = build_objective(job, computing, model.config)
    before, after = resumed.read_run()["source"]["num_positions"]
    return _Start(
        job,
        objective,
        model,
        longest=None if before == after else after,
        as_saved=partial(with_pooler, pooler=pooler),
    )


def _start_continued(job: PretrainJob, resumed: RunFolder | None, computing: Computing) -> _Start:
    """The model of a folder, made to fit the corpus."""
    folder = job.from_
    assert folder is not None
    torch.manual_seed(job.training.seed)
    job = job.prepared
    source = Source.open(folder, job.pretraining.heads)
    if resumed is not None:
        before = {"from": resumed.read_run()["source"]["weights"]}
        check_identity(resumed.path, before, {"from": source.weights})
    objective = build_objective(job, computing)
    corpus, settings = objective.train.corpus, vars(job.model)
    longest = settings["max_position_embeddings"]
    report = source.fit(
        corpus.tokenizer(),
        job.corpus,
        counts=lambda: torch.from_numpy(token_counts(corpus)),
        positions=longest,
    )
    model = source.trained
    model.set_dropout(settings["hidden_dropout_prob"], settings["attention_probs_dropout_prob"])
    return _Start(
        job,
        objective,
        model,
        str(report),
        report,
        longest=None if report.num_positions[0] == longest else longest,
        as_saved=partial(with_pooler, pooler=source.pooler),
    )


def _facts(start: _Start, computing: Computing, data: Mapping[str, Any]) -> dict[str, Any]:
    source = {} if start.report is None else {"source": to_jsonable(start.report)}
    return {
        "command": "pretrain",
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": to_jsonable(start.job),
        **source,
        "precision": computing.precision,
        **machine_facts(computing.device),
        "data": data,
    }


def _result(
    summary: Summary,
    data: Mapping[str, Any],
    source: Mapping[str, Any] | None,
    entries: Sequence[Mapping[str, Any]],
    out: Path,
) -> dict[str, Any]:
    """The summary as one flat object; of a model that went on from another, where it began too."""
    facts = asdict(summary)
    last_step, held_out = facts.pop("last_step"), facts.pop("held_out")
    figures = {name: value for name, value in last_step.items() if "loss" in name or "acc" in name}
    result = {"out": str(out), **facts, **figures, **_measured(held_out), **data}
    if source is None:
        return result
    first = next((entry for entry in entries if is_held_out(entry)), {})
    return {**result, "source": source, "before": _measured(first)}


def _measured(held_out: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held_out.items() if name.startswith("held_out_")}
