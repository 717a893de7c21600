"""Pre-training from end to end: a corpus and settings go in, a trained model folder comes out.

`Run` (training/run.py) has the order of all runs: check, resolve, build, train, result;
`PretrainingRun` says what each of these does here. The weights begin at random or, with `from_`,
with those of another model.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.config import to_jsonable
from bertsmith.data.corpus import Corpus
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.errors import ConfigError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import build_trained
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.saving import save_model
from bertsmith.pretraining.build import build_model, build_objective
from bertsmith.pretraining.config import PretrainConfig
from bertsmith.pretraining.from_model import (
    AdaptationReport,
    adapt,
    save_with_pooler,
    source_facts,
    stored_pooler,
)
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.token_counts import count_sampled_tokens
from bertsmith.system.paths import check_outside, is_within
from bertsmith.system.torch_modes import drawing_from
from bertsmith.training.callback import Callback
from bertsmith.training.checkpoint import Checkpoint
from bertsmith.training.findings import diagnose
from bertsmith.training.journal import is_held_out, read_journal
from bertsmith.training.machine import Machine
from bertsmith.training.objective import Measure
from bertsmith.training.run import BuiltRun, Run, Trained
from bertsmith.training.run_folder import CONFIG
from bertsmith.training.trainer import Summary

REPORTED_SECONDS = 5.0
"""A run in minutes reports the seconds of its preparation if they are at least this many."""


@dataclass(frozen=True)
class ResolvedPretraining:
    """A run whose settings are all decided and whose inputs are open; nothing is written yet."""

    config: PretrainConfig
    corpus: Corpus
    objective: Pretraining
    checkpoint: Checkpoint | None
    """The checkpoint to resume from; None if there is none."""
    start: ModelFolder | None
    """The checkpoint to resume from, or else the model to continue; None for a new model."""
    earlier_run: Mapping[str, Any]
    """`run.json` of the run to resume; empty for a new run."""
    facts: Mapping[str, Any]
    """Facts about the data; see `Pretraining.facts`."""


class PretrainingRun(Run[ResolvedPretraining, dict[str, Any]]):
    """Pre-training of a new model, or continued pre-training of the model of `from_`."""

    def __init__(
        self,
        job: PretrainJob,
        out: Path,
        *,
        resume: bool,
        overwrite: bool,
        callbacks: Sequence[Callback],
        resume_command: str,
        measure: Measure | None = None,
    ) -> None:
        super().__init__(
            out, job.training, resume=resume, callbacks=callbacks, resume_command=resume_command
        )
        self.job = job
        self.overwrite = overwrite
        self.measure = measure
        self._began = time.monotonic()

    def check(self) -> None:
        """Refuse settings without a length, and a folder that must not be written.

        Raises:
            ConfigError: as `RunFolder.check`; or the folder lies in the corpus or in the model of
                `from`, or holds that model.
        """
        job, out = self.job, self.folder.path
        job.training.check_length()
        self.folder.check(resume=self.resume, overwrite=self.overwrite)
        if job.from_ is not None and is_within(job.from_, out):
            raise ConfigError(
                f"{out}: holds {option('from', job.from_)}. Choose another {option('out')}."
            )
        check_outside(out, job.corpus, job.from_)

    def resolve(self, machine: Machine) -> ResolvedPretraining:
        job = self.job
        checkpoint = self.newest_checkpoint()
        earlier_run = self.folder.read_run() if self.resume else {}
        earlier_config = earlier_run[CONFIG] if self.resume else None
        corpus = Corpus.open(job.corpus)
        start_path = job.from_ if checkpoint is None else checkpoint.path
        start = None if start_path is None else read_folder(start_path)
        source = None
        if job.from_ is not None and start is not None:
            # The weights in a checkpoint have changed, so the sums are those in run.json.
            weights = earlier_config["source_weights"] if earlier_config and checkpoint else None
            source = source_facts(str(job.from_), start, weights)
        config = resolve_pretraining(job, corpus, machine, source=source, previous=earlier_config)
        objective = build_objective(config, corpus)
        facts = {**objective.facts(), "unknown_rate": corpus.manifest.unknown_rate}
        return ResolvedPretraining(config, corpus, objective, checkpoint, start, earlier_run, facts)

    def build(self, resolved: ResolvedPretraining, machine: Machine) -> BuiltRun:
        job, config, facts = self.job, resolved.config, resolved.facts
        earlier_report = resolved.earlier_run.get("source") if resolved.checkpoint else None
        model, save, report = _build_start(
            config, resolved.objective, resolved.start, earlier_report
        )
        if not self.resume:
            warn_unknown(facts["unknown_rate"], job.corpus)
        notes = [str(report)] if report else []
        seconds = time.monotonic() - self._began
        if job.training.minutes is not None and seconds >= REPORTED_SECONDS:
            notes.append(
                f"Preparation took {seconds:.0f} seconds, which {option('minutes')} does not count."
            )
        return BuiltRun(
            model.to(machine.device),
            resolved.objective,
            replace(config, notes=(*notes, *config.notes)),
            save,
            facts={
                "command": "pretrain",
                "settings": to_jsonable(job),
                **({} if report is None else {"source": to_jsonable(report)}),
                "data": facts,
            },
            checkpoint=resolved.checkpoint,
        )

    def build_result(self, resolved: ResolvedPretraining, trained: Trained) -> dict[str, Any]:
        """Return the summary with the facts about the data and the findings from the journal."""
        entries = read_journal(self.folder.journal_path)
        run = self.folder.read_run()
        result = {"out": str(self.folder.path), **flat_summary(trained.summary), **resolved.facts}
        if resolved.config.source:
            evaluations = (entry for entry in entries if is_held_out(entry))
            first_evaluation: Mapping[str, Any] = next(evaluations, {})
            before = _held_out_figures(first_evaluation)
            result |= {"source": run["source"], "before": before}
        findings = list(map(asdict, diagnose(entries, run)))
        mask_token = resolved.corpus.tokenizer().mask_token
        return {**result, "mask_token": mask_token, "findings": findings}


def run_pretraining(
    job: PretrainJob,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
    measure: Measure | None = None,
) -> dict[str, Any]:
    """Run a job; return its summary, with facts about the data and findings from the journal.

    Args:
        measure: computes further metrics of evaluations; runs of a comparison have it.

    Raises:
        BertsmithError: settings, corpus or folder do not allow the run (nothing was written), or
            the run had to stop.
        Interrupted: the user asked to stop. With `measure` it is raised even if this run is
            complete, since a stop must end all runs of the comparison.
    """
    return PretrainingRun(
        job,
        out,
        resume=resume,
        overwrite=overwrite,
        callbacks=callbacks,
        resume_command=resume_command,
        measure=measure,
    ).run()


def _build_start(
    config: PretrainConfig,
    objective: Pretraining,
    folder: ModelFolder | None,
    earlier_report: Mapping[str, Any] | None,
) -> tuple[BertModel, Callable[[Path], None], AdaptationReport | None]:
    """Build a new model, adapt the one to continue, or load a checkpoint.

    Args:
        folder: the checkpoint, or the model to continue; None for a new one.
        earlier_report: the `AdaptationReport` in run.json, if `folder` is a checkpoint of a run
            that continues a model.

    Returns:
        The model, the function that saves it in a folder, and the report if it is adapted now.
    """
    corpus = objective.train.corpus
    tokenizer = corpus.tokenizer()
    longest = config.model.max_length
    if folder is None or not config.source:  # a run that does not continue a model
        tokenizer.model_max_length = longest
        model = build_model(config, objective) if folder is None else build_trained(folder)
        return model, partial(save_model, model, tokenizer=tokenizer), None
    if earlier_report is not None:  # a checkpoint of a run that continues a model
        model = build_trained(folder)
        pooler = stored_pooler(folder)
        report = None
        positions_before, positions = earlier_report["num_positions"]
        is_resized = positions_before != positions
    else:  # the model to continue

        def counts() -> Tensor:
            return torch.from_numpy(count_sampled_tokens(corpus))

        with drawing_from(config.seed):
            model, pooler, report = adapt(config, folder, tokenizer, counts)
        is_resized = report.num_positions[0] != longest
    # Dropout is set anew: heads have a dropout of their own, which no config.json holds.
    shape = config.model
    model.set_dropout(shape.hidden_dropout_prob, shape.attention_probs_dropout_prob)
    if is_resized or tokenizer.model_max_length > longest:
        tokenizer.model_max_length = longest
    return model, partial(save_with_pooler, model, pooler, tokenizer), report


def flat_summary(summary: Summary) -> dict[str, Any]:
    """Return a summary as one flat object, with the losses of the last step and the last eval."""
    facts = asdict(summary)
    last_step = facts.pop("last_step")
    held_out = facts.pop("held_out")
    figures = {name: value for name, value in last_step.items() if "loss" in name or "acc" in name}
    return {**facts, **figures, **_held_out_figures(held_out)}


def _held_out_figures(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name.startswith("held_out_")}
