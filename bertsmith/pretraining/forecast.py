"""Forecast a pre-training run from a few seconds of its own steps: time, memory and operations.

`bertsmith plan` prints the forecast. A *phase* is the steps with rows of one length: a run has one
phase, or two if it begins with short rows (`--start-share`).
"""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch

from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError, option
from bertsmith.model.bert import BertModel
from bertsmith.model.meta_init import on_meta_device
from bertsmith.model.parameter_counts import count_parameters, sum_parameters
from bertsmith.pretraining.build import build_model, build_objective
from bertsmith.pretraining.config import PretrainConfig
from bertsmith.pretraining.flops import flops_per_token
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.micro_batch import saved_activations
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.row_source import EVALUATION_TOKENS
from bertsmith.pretraining.step_timer import busiest_tokens, timing_steps
from bertsmith.system.matrix_products import DTYPES
from bertsmith.system.memory import available_bytes, peak_bytes, resident_bytes
from bertsmith.training.flat_parameters import Layout
from bertsmith.training.machine import Machine, computing_on

SAMPLED_STEPS = 4
"""Steps of each phase whose batches are made to count their tokens. Of a phase with short rows that
has fewer steps, all are; the last phase always has so many, even if the run ends before.
"""
PROCESS_BYTES = 180_000_000
"""Bytes that a process holds before it computes, for its libraries; 165 to 190 MB were measured.
"""


@dataclass(frozen=True)
class Phase:
    """Steps of one row length, from `first` to `last` (None: to the end), with means per step.

    `tokens` is the number of real tokens, and `predicted` the number of masked tokens, which alone
    have vocabulary logits. `busiest` is the number of real tokens of the process that has the most,
    `flops` the number of floating-point operations, and `epochs` the part of the corpus that a step
    reads.
    """

    first: int
    last: int | None
    tokens: float
    predicted: float
    busiest: float
    flops: float
    epochs: float

    def steps_within(self, steps: float) -> float:
        """Count the steps of the phase in a run of `steps` steps."""
        last = steps if self.last is None else min(self.last, steps)
        return max(0.0, last - self.first + 1)


@dataclass(frozen=True)
class Trial:
    """Measurements of a few seconds of real steps.

    `step_seconds` is the time of a whole step of the last phase, and `evaluation_seconds` the time
    of one evaluation. `peak_bytes` is the most memory of the steps and of their preparation, or
    None if the device does not report it.
    """

    num_steps: int
    step_seconds: float
    evaluation_seconds: float
    peak_bytes: int | None


@dataclass(frozen=True)
class Forecast:
    """Time, memory and operations that a run will take on this computer.

    `state_bytes` is the memory of weights, optimizer and gradients. `preparation_seconds` is the
    time before the first step, such as for word embeddings that are counted in the corpus.
    """

    config: PretrainConfig
    machine: Machine
    parameters: int
    encoder_parameters: int
    phases: Sequence[Phase]
    state_bytes: int
    preparation_seconds: float
    trial: Trial

    @property
    def step_seconds(self) -> list[float]:
        """The seconds of a step of each phase, scaled from the timed phase by operations."""
        timed_flops = self.phases[-1].flops
        return [self.trial.step_seconds * phase.flops / timed_flops for phase in self.phases]

    @property
    def num_steps(self) -> float:
        """Steps of the run.

        In a run of some minutes, they are the steps that fit beside its evaluations, at least 1.
        """
        if self.config.steps is not None:
            return float(self.config.steps)
        assert self.config.minutes is not None
        evaluation = self.trial.evaluation_seconds
        every = self.config.eval_every
        # With an interval in steps, each step adds a part of an evaluation. Otherwise the number of
        # evaluations is fixed. In both cases there is one before the first step.
        evaluation_per_step = evaluation / every if every else 0.0
        num_fixed = 1 if every else 1 + self.config.evaluations.times
        seconds_left = max(0.0, 60 * self.config.minutes - num_fixed * evaluation)
        steps = 0.0
        for phase, step_seconds in zip(self.phases, self.step_seconds, strict=True):
            seconds = step_seconds + evaluation_per_step
            phase_steps = math.inf if phase.last is None else phase.last - phase.first + 1
            steps_done = min(phase_steps, seconds_left / seconds)
            steps += steps_done
            seconds_left -= steps_done * seconds
        return max(1.0, steps)

    @property
    def num_evaluations(self) -> int:
        """Evaluations of the run, the one before the first step included."""
        plan, every = self.config.evaluations, self.config.eval_every
        if self.config.steps is None and every is None:
            return 1 + plan.times
        return plan.num_evaluations(math.ceil(self.num_steps), every)

    def sum_over_run(self, amounts: Sequence[float]) -> float:
        """Sum `amounts`, one per step of each phase, over all steps of the run."""
        steps = self.num_steps
        return sum(
            phase.steps_within(steps) * amount
            for phase, amount in zip(self.phases, amounts, strict=True)
        )

    @property
    def seconds(self) -> float:
        """The duration of the run in seconds, with evaluations, without preparation."""
        evaluations = self.num_evaluations * self.trial.evaluation_seconds
        return self.sum_over_run(self.step_seconds) + evaluations

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as plain JSON, in seconds, bytes and operations."""
        full_length = self.phases[-1]
        seconds = self.step_seconds[-1]
        return {
            "preset": self.config.preset or None,
            "notes": list(self.config.notes),
            "vocab_size": self.config.model.vocab_size,
            "parameters": self.parameters,
            "encoder_parameters": self.encoder_parameters,
            "device": str(self.machine.device),
            "precision": self.machine.precision,
            "processes": self.machine.processes_here,
            "step": {
                "rows": self.config.batch_size,
                "tokens": full_length.tokens,
                "predicted": full_length.predicted,
                "flops": full_length.flops,
                "seconds": seconds,
                "tokens_per_second": full_length.tokens / seconds,
            },
            "run": {
                "steps": round(self.num_steps),
                "tokens": self.sum_over_run([phase.tokens for phase in self.phases]),
                "epochs": self.sum_over_run([phase.epochs for phase in self.phases]),
                "flops": self.sum_over_run([phase.flops for phase in self.phases]),
                "seconds": self.seconds,
                "preparation_seconds": self.preparation_seconds,
                "evaluations": self.num_evaluations,
                "evaluation_seconds": self.trial.evaluation_seconds,
            },
            "memory": {"state": self.state_bytes, "peak": self.trial.peak_bytes},
            "measured_steps": self.trial.num_steps,
        }


def forecast(job: PretrainJob, seconds: float) -> Forecast:
    """Sample some batches of a job, time its steps, and forecast the whole run.

    Args:
        seconds: the time for which steps are timed, about; at least a few steps are.

    Raises:
        BertsmithError: the job has an error that would also stop its run.
        ConfigError: the run needs more memory than is free.
    """
    job.training.check_length()  # of the run: its steps or minutes
    with computing_on(job.training) as machine:
        corpus = Corpus.open(job.corpus)
        config = resolve_pretraining(job, corpus, machine)
        objective = build_objective(config, corpus)
        with on_meta_device():  # a model without values, which is enough to count parameters
            meta_model = objective.new_model(config.model)
        counts = count_parameters(meta_model)
        is_exact = job.training.exact
        state = state_bytes(meta_model, config, machine, is_exact=is_exact)
        _check_memory(state, config, machine)
        began = time.monotonic()
        # In place of a model to continue, one with random weights of its shape is timed: the values
        # of weights do not change the time.
        is_new = not config.source
        model = build_model(config, objective) if is_new else objective.new_model(config.model)
        preparation = time.monotonic() - began
        prepared_peak = peak_bytes()
        start = objective.start_steps
        phases = []
        if start:
            phases.append(_measure_phase(objective, model, machine, first=1, last=start))
        phases.append(_measure_phase(objective, model, machine, first=start + 1, last=None))
        trial = _time_steps(
            objective,
            config,
            model.to(machine.device),
            machine,
            phases[-1],
            seconds,
            is_exact=is_exact,
        )
    if machine.device.type == "cpu" and trial.peak_bytes and prepared_peak:
        trial = replace(trial, peak_bytes=max(trial.peak_bytes, prepared_peak))
    return Forecast(
        config,
        machine,
        parameters=sum_parameters(counts),
        encoder_parameters=sum_parameters(counts, heads=False),
        phases=phases,
        state_bytes=state,
        preparation_seconds=preparation,
        trial=trial,
    )


def state_bytes(
    model: BertModel, config: PretrainConfig, machine: Machine, *, is_exact: bool = False
) -> int:
    """Count the bytes of weights, optimizer and gradients.

    Weights are fp32; a run in bf16 also has a copy in bf16. The optimizer has two numbers per
    weight. Each share of a step has gradients of its own: in fp32 if it sums those of several
    micro-batches, with `--exact`, and on a GPU. All shares count, since this machine computes whole
    steps for the forecast.
    """
    width = DTYPES[machine.precision].itemsize
    is_cpu = machine.device.type == "cpu"
    sums_gradients = config.batch_size > machine.num_shares * config.micro_batch_size
    has_fp32_gradients = sums_gradients or is_exact or not is_cpu
    weights = 4 + (width if width < 4 else 0)
    gradients = (4 if has_fp32_gradients else width) * machine.num_shares
    return Layout.of(model.parameter_specs()).size * (weights + 8 + gradients)


def _check_memory(state: int, config: PretrainConfig, machine: Machine) -> None:
    """Refuse to time a run that cannot fit into memory.

    Raises:
        ConfigError: the run needs more memory than is free; the message has both amounts.
    """
    free = available_bytes()
    if machine.device.type != "cpu" or free is None:
        return
    bytes_per_number = DTYPES[machine.precision].itemsize
    bytes_per_row = saved_activations(config.model, config.pretraining.max_length, bytes_per_number)
    activations = config.micro_batch_size * bytes_per_row
    needed = state + machine.processes_here * (PROCESS_BYTES + activations)
    if needed > free:
        raise ConfigError(
            f"The run needs more than {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are "
            f"free, so nothing was measured. Use a smaller {option('preset')} or "
            f"{option('micro_batch_size')}, or fewer {option('threads')}."
        )


def _measure_phase(
    objective: Pretraining,
    model: BertModel,
    machine: Machine,
    first: int,
    last: int | None,
) -> Phase:
    """Count the work of a phase, from `first` to `last` (None: to the end), in its first steps."""
    # A phase with a last step is the one with short rows.
    end = first + SAMPLED_STEPS
    if last is not None:
        end = min(end, last + 1)
    steps = [objective.micro_batches(step) for step in range(first, end)]
    tokens = fmean(sum(batch.num_tokens for batch in step) for step in steps)
    rows = fmean(sum(batch.num_sequences for batch in step) for step in steps)
    source = objective.train if last is None else objective.short_rows
    return Phase(
        first,
        last,
        tokens=tokens,
        predicted=fmean(
            sum(len(batch.targets["masked_labels"]) for batch in step) for step in steps
        ),
        busiest=fmean(
            busiest_tokens(step, machine.num_shares, machine.processes_here) for step in steps
        ),
        flops=tokens * flops_per_token(objective, model, first),
        epochs=rows / source.rows_per_epoch,
    )


def _time_steps(
    objective: Pretraining,
    config: PretrainConfig,
    model: BertModel,
    machine: Machine,
    phase: Phase,
    seconds: float,
    *,
    is_exact: bool,
) -> Trial:
    """Time steps whose rows have their full length, by all processes of the run.

    Args:
        phase: the last phase, whose rows have their full length.
        seconds: the time for which steps are timed, about.
        is_exact: whether the run has the setting `--exact`.
    """
    rows = objective.batch_size
    max_length = config.pretraining.max_length
    is_cpu = machine.device.type == "cpu"
    if is_cpu:  # two batches per process, so that the trial sums gradients if the run does
        rows = min(rows, 2 * machine.num_shares * config.micro_batch_size)
    eval_rows = min(objective.eval_rows, max(1, EVALUATION_TOKENS // max_length))
    if machine.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(machine.device)
    with timing_steps(
        objective.resized(rows, eval_rows),
        model,
        machine.precision,
        machine.num_shares,
        config.optim.optimizer,
        machine.processes_here,
        is_exact=is_exact,
    ) as timer:
        measured = timer.time(phase.first, seconds=seconds)
        evaluation = timer.time_evaluation() * objective.eval_rows / eval_rows
        other_pids = [worker.process.pid or 0 for worker in timer.workers.processes]
        # What the processes hold after the steps is taken for their peak, since they keep the
        # memory that they free, except that of large arrays (`configure_process`).
        peak = resident_bytes([os.getpid(), *other_pids]) if is_cpu else None
    if machine.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(machine.device)
    # The trial gave seconds per token and per update, so its steps may have fewer rows.
    step_seconds = measured.seconds(busiest=phase.busiest)
    return Trial(measured.num_steps, step_seconds, evaluation_seconds=evaluation, peak_bytes=peak)
