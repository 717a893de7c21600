"""Time training steps on this machine, to plan a run.

The timed steps are as in a run, with all its processes, prefetched batches and weight updates.
Gradients and update are timed separately: the time for gradients is proportional to a step's
tokens, and the time for the update is not. A *share* is a part of a step: some of its
micro-batches, which one worker process computes.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean, median
from typing import Any, Protocol, Self

import torch

from bertsmith.data.batches import Batch
from bertsmith.model.bert import BertModel
from bertsmith.model.trainable import TrainableModel
from bertsmith.system.matrix_products import DTYPES, Precision
from bertsmith.system.progress import progress_bar, tracked
from bertsmith.training.machine import Machine
from bertsmith.training.objective import Objective
from bertsmith.training.settings import Optimizer, OptimSettings
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.protocol import BatchSize, total_counts
from bertsmith.training.workers.share import Plan, indices_by_process

RATE = 1e-6
"""A learning rate so small that the weights hardly change."""

TRIAL_ROWS = (2, 8, 32, 128)
"""Numbers of held-out rows that are timed, one after the other."""

MIN_STEPS = 3
"""Fewest steps that are timed."""
WARM_UP_STEPS = 3
"""First steps, which are not timed: they prepare memory, caches and machine code for each shape."""


@dataclass(frozen=True)
class StepTime:
    """Measured times of steps."""

    seconds_per_token: float
    """Seconds for gradients, per token of the worker process that has the most tokens."""
    update_seconds: float
    """Seconds for the update of the weights, per step."""
    tokens: float
    """Mean number of real tokens per step, of all worker processes together."""
    num_steps: int

    def seconds(self, busiest: float) -> float:
        """Compute the seconds of a step whose busiest worker process has `busiest` tokens.

        The other processes wait for it.
        """
        return busiest * self.seconds_per_token + self.update_seconds


def busiest_tokens(
    batches: Sequence[Batch] | Sequence[BatchSize], num_shares: int, num_processes: int
) -> int:
    """Count the real tokens of the worker process that has the most.

    `batches` are all micro-batches of a step, in order. They are dealt to the shares in turn, and
    each process computes some neighbouring shares (`indices_by_process`).
    """
    tokens = [batch.num_tokens for batch in batches]
    tokens_of_share = [sum(tokens[share::num_shares]) for share in range(num_shares)]
    return max(
        sum(tokens_of_share[share] for share in shares)
        for shares in indices_by_process(num_shares, num_processes)
    )


@contextmanager
def timing_steps(
    objective: Objective[Any, Any],
    model: BertModel,
    precision: Precision,
    num_shares: int,
    optimizer: Optimizer,
    num_processes: int | None = None,
    *,
    is_exact: bool = False,
) -> Iterator["StepTimer"]:
    """Start worker processes that can time steps of `objective` in the block.

    Args:
        objective: makes the batches and computes their losses.
        model: fp32, on its device; its weights hardly change.
        num_shares: number of shares of a step.
        num_processes: number of worker processes; None: one for each share.
        is_exact: whether steps are timed as with `--exact`, where each process has one thread.
    """
    optim = OptimSettings(optimizer=optimizer, learning_rate=RATE)
    plan = Plan(objective, optim, seed=0, num_shares=num_shares, is_exact=is_exact)
    with LocalWorkers(model, DTYPES[precision], plan, num_processes=num_processes) as workers:
        workers.wait()
        yield StepTimer(objective, workers)


@dataclass(frozen=True)
class StepTimer:
    """Timer of an objective's steps, once all worker processes are up."""

    objective: Objective[Any, Any]
    workers: LocalWorkers

    def time(self, first: int, *, seconds: float = 0.0, warm_up: int = WARM_UP_STEPS) -> StepTime:
        """Run and time steps from `first` on, for `seconds` but at least `MIN_STEPS`.

        This can be called only once, since worker processes prefetch their batches in order.
        """
        seconds_per_token: list[float] = []
        update_seconds: list[float] = []
        tokens: list[int] = []
        deadline = float("inf")
        min_steps = warm_up + MIN_STEPS
        started = time.perf_counter()
        with progress_bar("timing steps", 1) as bar:
            while len(update_seconds) < min_steps or time.perf_counter() < deadline:
                step = first + len(update_seconds)
                began = time.perf_counter()
                if len(update_seconds) == warm_up:
                    deadline = began + seconds
                # Timing ends when both steps and time are enough, so the bar shows the smaller of
                # their shares. Until the warm-up ends, the deadline is infinite and its share 0.
                share_of_steps = len(update_seconds) / min_steps
                share_of_time = (began - started) / (deadline - started)
                bar.move(min(share_of_steps, share_of_time, 1))
                sizes = self.workers.prepare(step)
                self.workers.compute(step, total_counts(sizes))
                computed = time.perf_counter()
                self.workers.reduce_gradients()
                self.workers.update(step, RATE, divisor=1.0)
                num_shares = self.workers.plan.num_shares
                busiest = busiest_tokens(sizes, num_shares, self.workers.num_processes)
                seconds_per_token.append((computed - began) / busiest)
                update_seconds.append(time.perf_counter() - computed)
                tokens.append(sum(size.num_tokens for size in sizes))
        return StepTime(
            seconds_per_token=median(seconds_per_token[warm_up:]),
            update_seconds=median(update_seconds[warm_up:]),
            tokens=mean(tokens[warm_up:]),
            num_steps=len(update_seconds) - warm_up,
        )

    def time_evaluation(self) -> float:
        """Measure the seconds of an evaluation after a warm-up."""
        began = 0.0
        for _ in tracked(range(2), "timing evaluations"):  # the second time counts
            began = time.perf_counter()
            self.objective.evaluation.combine(self.workers.evaluate())
        return time.perf_counter() - began


class SizedObjective(Protocol):
    """An objective whose number of eval rows can be chosen."""

    batch_size: int

    def resized(self, batch_size: int, eval_rows: int) -> Self: ...
    def held_out_batches(self, model: Any) -> Iterable[Any]: ...
    def evaluate(self, model: Any) -> Mapping[str, float]: ...


def seconds_per_row(
    objective: SizedObjective, model: TrainableModel, machine: Machine, at_most: float
) -> float:
    """Measure the seconds of evaluating a held-out row.

    More and more rows are evaluated, until that takes `at_most` seconds. The model is converted to
    the precision in which the run computes, in place.
    """
    trial_model = model.to(DTYPES[machine.precision]).eval()
    fp32_names = {spec.name for spec in model.parameter_specs() if spec.fp32_only}
    for name, parameter in trial_model.named_parameters():
        if name in fp32_names:
            parameter.data = parameter.data.float()
    seconds = 0.0
    with torch.inference_mode():
        objective.resized(objective.batch_size, 1).evaluate(trial_model)  # prepares everything
        for rows in TRIAL_ROWS:
            trial = objective.resized(objective.batch_size, rows)
            for _ in trial.held_out_batches(trial_model):  # makes the batches, which is not timed
                pass
            began = time.perf_counter()
            trial.evaluate(trial_model)
            seconds = time.perf_counter() - began
            if seconds >= at_most:
                break
    return seconds / rows
