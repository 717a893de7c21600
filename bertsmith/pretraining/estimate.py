"""Estimate of a pre-training run: time, memory and operations, before it runs.

Operations follow from the shapes of the model and of some batches of the run's own objective. Time
is measured in a few seconds of real steps by all processes of the run; for other hardware it
follows from its published peak and an assumed efficiency.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertsmith.data.shards import Corpus
from bertsmith.model.accounting import count_parameters, total
from bertsmith.model.bert import BertModel
from bertsmith.model.meta_init import skeleton
from bertsmith.model.shape_buckets import rounded_up
from bertsmith.model.step_cost import (
    Memory,
    Workload,
    computed_work,
    flops_of,
    memory,
    real_work,
    sum_work,
)
from bertsmith.pretraining.accelerators import Accelerator
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.config import PretrainConfig
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.objective import EVALUATION_TOKENS, Pretraining
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.pretraining.step_timer import WARM_UP_STEPS, longest_share, timing_steps
from bertsmith.system.matrix_products import measured_products
from bertsmith.system.memory import available_bytes, resident_bytes
from bertsmith.system.torch_modes import drawing_from
from bertsmith.training.budget import EvaluationPlan
from bertsmith.training.flat_parameters import Layout
from bertsmith.training.machine import Machine, computing_on

SAMPLED_STEPS = 4
SAMPLED_ROWS = 256
"""Most rows per sampled step."""

TRIAL_STEP_SECONDS = 1.0
"""A trial's steps have fewer rows than the run's where those would take much longer than this."""
ASSUMED_SHARE = 0.3
"""Assumed fraction of matrix-product speed, which sets the rows of a trial's steps."""

PROCESS_BYTES = 180e6
"""Bytes that a process holds before it computes: the libraries' own data. Measured: 165 to 190 MB.
"""
CODE_BYTES = 124e6
"""Bytes of library code, once for all processes."""
SHAPE_BYTES = 15e6
"""Bytes per further row count of products in a process: oneDNN keeps machine code and scratch space
for each shape. Measured: 14 MB for tiny, 16 MB for mini."""
HELD_TWICE = 2
"""Bytes held by a process per byte of concurrent activations: freed memory is reused only where
something fits in. Measured: 1.9 to 2.1."""
COUNTED_ROWS = 2048
"""Rows in which a run's row counts are sampled; few are new later."""


@dataclass(frozen=True)
class Phase:
    """Steps of one kind, from `first` to `last` (None: to the end).

    `real` counts the real tokens of a step, `computed` what is computed for them; `largest` is the
    largest batch that a process computes at once, `share` the tokens of the busiest process in a
    step. `flops` are those of the real tokens.
    """

    first: int
    last: int | None
    real: Workload
    computed: Workload
    largest: Workload
    share: float
    flops: Mapping[str, float]

    def steps_within(self, steps: float) -> float:
        last = steps if self.last is None else min(self.last, steps)
        return max(0.0, last - self.first + 1)


@dataclass(frozen=True)
class Trial:
    """Measurements of a few seconds of real steps.

    `step_seconds` are those of a full step in phase number `phase`; `shapes` counts the row counts
    that a process has met; `peak_bytes` is None where the system does not report it.
    """

    phase: int
    num_steps: int
    step_seconds: float
    evaluation_seconds: float
    shapes: int
    peak_bytes: int | None


@dataclass(frozen=True)
class Estimate:
    """The forecast of a run.

    `trial` is None where nothing was measured, for the reason `problem`; `shapes` is the number of
    row counts that a process meets in the run.
    """

    config: PretrainConfig
    model: BertModel
    machine: Machine
    phases: Sequence[Phase]
    rows_per_epoch: Sequence[int]
    memory: Memory
    shapes: int
    trial: Trial | None
    problem: str = ""

    @property
    def step_seconds(self) -> Sequence[float] | None:
        """The seconds per step of each phase here; None without a trial.

        They are scaled by operations from the phase that was timed.
        """
        if self.trial is None:
            return None
        timed = sum(self.phases[self.trial.phase].flops.values())
        return [
            self.trial.step_seconds * sum(phase.flops.values()) / timed for phase in self.phases
        ]

    @property
    def num_steps(self) -> float | None:
        """The number of steps; None if it depends on a missing trial."""
        if self.config.steps is not None:
            return float(self.config.steps)
        if self.step_seconds is None or self.trial is None:
            return None
        assert self.config.minutes is not None
        evaluations = (1 + self.config.evaluations.times) * self.trial.evaluation_seconds
        left = max(0.0, 60 * self.config.minutes - evaluations)
        steps = 0.0
        for phase, seconds in zip(self.phases, self.step_seconds, strict=True):
            longest = math.inf if phase.last is None else phase.last - phase.first + 1
            done = min(longest, left / seconds)
            steps += done
            left -= done * seconds
        return max(1.0, steps)

    @property
    def num_evaluations(self) -> int:
        steps = self.num_steps
        every = self.config.eval_every
        times = self.config.evaluations.times
        if steps is None or (self.config.steps is None and every is None):
            return 1 + times
        every = every or max(1, round(steps / times))
        return 1 + math.ceil(steps / every)

    def over_run(self, amounts: Sequence[float]) -> float | None:
        """Sum over all steps an amount per step of each phase."""
        steps = self.num_steps
        if steps is None:
            return None
        return sum(
            phase.steps_within(steps) * amount
            for phase, amount in zip(self.phases, amounts, strict=True)
        )

    @property
    def tokens(self) -> float | None:
        """The number of real tokens."""
        return self.over_run([phase.real.tokens for phase in self.phases])

    @property
    def epochs(self) -> float | None:
        """The number of passes through the corpus; None without one."""
        if not self.rows_per_epoch:
            return None
        return self.over_run(
            [
                phase.real.sequences / rows
                for phase, rows in zip(self.phases, self.rows_per_epoch, strict=True)
            ]
        )

    @property
    def flops(self) -> Mapping[str, float] | None:
        """The operations for the run's real tokens, by purpose."""
        if self.num_steps is None:
            return None
        kinds = self.phases[0].flops
        return {kind: self.over_run([x.flops[kind] for x in self.phases]) or 0.0 for kind in kinds}

    @property
    def seconds(self) -> float | None:
        """The duration of the run here, with evaluations."""
        if self.step_seconds is None or self.trial is None:
            return None
        steps = self.over_run(self.step_seconds)
        assert steps is not None
        return steps + self.num_evaluations * self.trial.evaluation_seconds

    @property
    def peak_bytes(self) -> float:
        """The peak memory, as measured in the trial, otherwise estimated."""
        if self.trial is None or self.trial.peak_bytes is None:
            return self.estimate
        further = (self.shapes - self.trial.shapes) * SHAPE_BYTES * self.memory.num_processes
        return self.trial.peak_bytes + further

    @property
    def estimate(self) -> float:
        """The memory of the steps, estimated without a trial."""
        return estimate_bytes(self.memory, self.machine, self.shapes)

    def seconds_on(self, other: Accelerator) -> tuple[float, float | None]:
        """Estimate seconds of a last-phase step and of the run elsewhere.

        Evaluations are not included.
        """
        speed = other.flops * other.efficiency
        run = self.flops
        return (
            sum(self.phases[-1].flops.values()) / speed,
            None if run is None else sum(run.values()) / speed,
        )


def forecast(job: PretrainJob, *, seconds: float, has_text: bool = True) -> Estimate:
    """Sample some batches of a job, time its steps, and forecast it.

    Args:
        seconds: duration of the timing; 0 measures nothing.
        has_text: whether the job's corpus is real, so that epochs have a meaning.

    Raises:
        BertsmithError: the job could not be run either.
    """
    job.training.check_length()
    said = job.training
    with computing_on(said) as machine:
        corpus = Corpus.open(job.corpus)
        config = resolve_pretraining(job, corpus, machine, is_timed=False)
        objective = build_objective(config, corpus)
        with skeleton():
            model = objective.new_model(config.model)
        phases = list(_phases(objective, model, machine))
        is_cpu = machine.device.type == "cpu"
        needed = memory(
            model,
            max((phase.largest for phase in phases), key=lambda work: work.looks),
            machine.precision,
            machine.num_processes,
            size=Layout.of(model.parameter_specs()).size,
            is_fused=not is_cpu,
            sums_gradients=not is_cpu
            or config.batch_size > machine.num_processes * config.micro_batch_size,
        )
        shapes = count_shapes(objective, phases, config.steps, machine)
        problem = _problem(estimate_bytes(needed, machine, shapes), machine, seconds)
        trial = None if problem else _try(config, objective, machine, phases, seconds)
        if trial is not None:
            config, trial = _with_evaluations(config, trial)
        rows_per_epoch = _rows_per_epoch(objective, phases) if has_text else ()
        estimate = Estimate(
            config, model, machine, phases, rows_per_epoch, needed, shapes, trial, problem
        )
        return replace(
            estimate, shapes=count_shapes(objective, phases, estimate.num_steps, machine)
        )


def _with_evaluations(config: PretrainConfig, trial: Trial) -> tuple[PretrainConfig, Trial]:
    """Plan the evaluations of a run in minutes; scale their time to its rows."""
    plan = config.evaluations
    if config.minutes is not None and plan.is_limited:
        row = trial.evaluation_seconds / plan.rows
        config = replace(config, evaluations=EvaluationPlan.of_seconds(60 * config.minutes, row))
    share = config.evaluations.rows / plan.rows
    return config, replace(trial, evaluation_seconds=share * trial.evaluation_seconds)


def count_shapes(
    objective: Pretraining, phases: Sequence[Phase], steps: float | None, machine: Machine
) -> int:
    """Count the distinct row counts of one process's products in a run."""
    longest = max(1, COUNTED_ROWS // objective.batch_size)
    return sum(
        _count_shapes(
            objective,
            phase.first,
            math.ceil(min(longest, phase.steps_within(steps or math.inf))),
            machine,
        )
        for phase in phases
    )


def _count_shapes(objective: Pretraining, first: int, num_steps: int, machine: Machine) -> int:
    return len(
        {
            rounded_up(batch.num_tokens)
            for step in range(first, first + num_steps)
            for batch in objective.micro_batches(step)[:: machine.num_processes]
        }
    )


def estimate_bytes(needed: Memory, machine: Machine, shapes: int) -> float:
    if machine.device.type != "cpu":
        return float(needed.everything)
    each = PROCESS_BYTES + shapes * SHAPE_BYTES + HELD_TWICE * needed.activations
    return needed.shared + CODE_BYTES + needed.num_processes * each


def _problem(estimate: float, machine: Machine, seconds: float) -> str:
    """Return the reason why nothing can be measured; empty if it can."""
    if seconds <= 0:
        return "not asked for"
    free = available_bytes()
    if machine.device.type == "cpu" and free is not None and estimate > free:
        return f"it needs about {estimate / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
    return ""


def _phases(objective: Pretraining, model: BertModel, machine: Machine) -> Iterator[Phase]:
    start = objective.start_steps
    for first, last in ([(1, start)] if start else []) + [(start + 1, None)]:
        yield _look_at(objective, model, machine, first, last)


def _look_at(
    objective: Pretraining, model: BertModel, machine: Machine, first: int, last: int | None
) -> Phase:
    """Count the work of a phase from its first steps."""
    rows = min(objective.batch_size, SAMPLED_ROWS)
    sampled = objective.resized(rows, objective.eval_rows)
    steps = [sampled.micro_batches(step) for step in range(first, first + SAMPLED_STEPS)]
    share = sum(longest_share(each, machine.num_processes) for each in steps)
    batches = [(batch, objective.counts(batch).get("mlm", 0)) for each in steps for batch in each]
    works = [real_work(*each) for each in batches]
    computed = works
    if machine.device.type == "cpu":
        computed = [computed_work(*each) for each in batches]
    scale = objective.batch_size / rows / SAMPLED_STEPS
    real = sum_work(works, scale)
    return Phase(
        first,
        last,
        real,
        sum_work(computed, scale),
        max(computed, key=lambda work: work.tokens),
        share * scale,
        flops_of(model, real),
    )


def _try(
    config: PretrainConfig,
    objective: Pretraining,
    machine: Machine,
    phases: Sequence[Phase],
    seconds: float,
) -> Trial:
    """Time steps of the longest phase, by all its processes."""
    phase = len(phases) - 1
    if config.steps is not None and phases[0].steps_within(config.steps) > (
        phases[-1].steps_within(config.steps)
    ):
        phase = 0
    rows = _trial_rows(objective, machine, phases[phase])
    eval_rows = min(objective.eval_rows, max(1, EVALUATION_TOKENS // config.pretraining.max_length))
    trial = objective.resized(rows, eval_rows)
    with drawing_from(config.seed):
        model = objective.new_model(config.model).to(machine.device)
    with timing_steps(
        trial, model, machine.precision, machine.num_processes, config.optim.optimizer
    ) as timer:
        timed = timer.time(phases[phase].first, seconds=seconds)
        evaluation = timer.time_evaluation()
        workers = [worker.process.pid or 0 for worker in timer.workers.workers]
        peak = resident_bytes([os.getpid(), *workers]) if machine.device.type == "cpu" else None
    return Trial(
        phase,
        timed.num_steps,
        timed.seconds(phases[phase].share),
        evaluation * objective.eval_rows / eval_rows,
        _count_shapes(trial, phases[phase].first, WARM_UP_STEPS + timed.num_steps, machine),
        peak,
    )


def _trial_rows(objective: Pretraining, machine: Machine, phase: Phase) -> int:
    """Choose the rows of a trial's steps: whole batches for every process."""
    if machine.device.type != "cpu":
        return objective.batch_size
    together = machine.num_processes * objective.micro_batch_size
    speeds = measured_products().value
    speed = ASSUMED_SHARE * 1e9 * max(speeds.bf16_gflops, speeds.fp32_gflops)
    seconds = sum(phase.flops.values()) * together / objective.batch_size / speed
    # Where the run sums gradients, so does the trial: the sums take memory.
    times = max(2, int(TRIAL_STEP_SECONDS / seconds))
    return min(objective.batch_size, times * together)


def _rows_per_epoch(objective: Pretraining, phases: Sequence[Phase]) -> list[int]:
    sources = [objective.start, objective.train][-len(phases) :]
    return [source.rows_per_epoch for source in sources]


def forecast_to_json(estimate: Estimate, others: Sequence[Accelerator] = ()) -> dict[str, Any]:
    """Return the forecast as plain JSON, in seconds, bytes and operations."""
    step = estimate.phases[-1]
    run_flops = estimate.flops
    steps = estimate.num_steps
    times = estimate.step_seconds
    needed = estimate.memory
    trial = estimate.trial
    return {
        "preset": estimate.config.preset or None,
        "chosen": "; ".join(estimate.config.notes),
        "vocab_size": estimate.model.config.vocab_size,
        "parameters": total(count_parameters(estimate.model)),
        "encoder_parameters": total(count_parameters(estimate.model), heads=False),
        "device": str(estimate.machine.device),
        "precision": estimate.machine.precision,
        "processes": estimate.machine.num_processes,
        "step": {
            "rows": estimate.config.batch_size,
            "tokens": step.real.tokens,
            "predicted": step.real.predicted,
            "flops": dict(step.flops),
            "filled_up": step.computed.tokens / step.real.tokens,
            "seconds": None if times is None else times[-1],
            "tokens_per_second": None if times is None else step.real.tokens / times[-1],
        },
        "run": {
            "steps": None if steps is None else round(steps),
            "tokens": estimate.tokens,
            "epochs": estimate.epochs,
            "flops": None if run_flops is None else dict(run_flops),
            "seconds": estimate.seconds,
            "evaluations": estimate.num_evaluations,
            "evaluation_seconds": None if trial is None else trial.evaluation_seconds,
        },
        "memory": {
            "weights": needed.weights,
            "optimizer": needed.optimizer,
            "gradients": needed.gradients,
            "activations": needed.num_processes * needed.activations,
            "rest": estimate.peak_bytes - needed.everything,
            "peak": estimate.peak_bytes,
            "estimate": estimate.estimate,
            "measured": None if trial is None else trial.peak_bytes,
        },
        "measured_steps": 0 if trial is None else trial.num_steps,
        "not_measured": estimate.problem,
        "elsewhere": [
            {
                "name": other.name,
                "flops": other.flops,
                "efficiency": other.efficiency,
                "step_seconds": estimate.seconds_on(other)[0],
                "seconds": estimate.seconds_on(other)[1],
            }
            for other in others
        ],
    }
