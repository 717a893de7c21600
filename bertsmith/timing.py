"""A few real steps: an objective and a model go in, how long a step takes here comes out.

The steps are those of a run: by all its processes, with batches made ahead and weights updated.
They are timed in two parts, since the arithmetic of a step grows with its rows and the update of
the weights does not.
"""

import contextlib
import copy
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median

import torch

from bertsmith.accounting import Work, saved_activations
from bertsmith.data.batches import Batch
from bertsmith.hardware import Precision
from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.tasks.objective import Objective
from bertsmith.tasks.pretraining import Pretraining
from bertsmith.training.member import Plan
from bertsmith.training.optim import OptimSettings
from bertsmith.training.prefetch import Prefetcher
from bertsmith.training.team import Team
from bertsmith.training.trainer import DTYPES

RATE = 1e-6
"""So small a learning rate that the weights stay what they are."""

MAX_TOKENS = 32 * 128
"""Tokens that a process computes at once on a CPU where nothing else is said: twice as many train
tiny no faster, a quarter of them a sixth slower."""
MAX_KEPT = 512 * 10**6
"""Bytes of activations that it then keeps for the backward pass: 8 rows of 128 tokens of base in
bf16, 4 in fp32, but for a single row that needs more. A generator's come on top."""

TRIAL_ROWS = (2, 8, 32, 128)
"""Held-out rows that are timed, one number after the other."""

MIN_STEPS = 3
WARM_UP_STEPS = 3
"""The first steps prepare everything: machine code for each shape, memory, caches."""


@dataclass(frozen=True)
class Computing:
    """What a run computes on, in what, and by how many processes."""

    device: torch.device
    precision: Precision
    num_processes: int

    def rows_at_once(self, length: int, config: BertConfig | None = None) -> int:
        """The most rows of `length` tokens that a process computes at once, of a model of any shape
        or of this one."""
        if self.device.type != "cpu":
            return sys.maxsize
        rows = MAX_TOKENS // length
        if config is not None:
            row, width = Work(tokens=length, looks=length**2), DTYPES[self.precision].itemsize
            kept = saved_activations(config, row, width, is_fused=False)
            rows = min(rows, int(MAX_KEPT / kept))
        return max(1, rows)

    @contextlib.contextmanager
    def as_one_process(self) -> Iterator[None]:
        """In the block torch has the threads that one of the processes has."""
        before = torch.get_num_threads()
        torch.set_num_threads(max(1, before // self.num_processes))
        try:
            yield
        finally:
            torch.set_num_threads(before)


@dataclass(frozen=True)
class StepTime:
    """What steps took. `compute` are seconds of the gradients for a token of the process that has
    most of them, `update` seconds of a step; `tokens` are all real ones of a step, on average."""

    compute: float
    update: float
    tokens: float
    num_steps: int

    def seconds(self, share: float) -> float:
        """What a step takes in which no process has more than `share` tokens."""
        return share * self.compute + self.update


def longest_share(batches: Sequence[Batch], num_members: int) -> int:
    """Tokens of the process that has most of a step, whose batches are dealt out in turn."""
    sizes = [batch.num_tokens for batch in batches]
    return max(sum(sizes[member::num_members]) for member in range(num_members))


class StepTimer:
    """Times steps of `objective` by a team of `num_members` processes; use it as a context.

    Args:
        model: on its device; its weights hardly move.
    """

    def __init__(
        self, objective: Objective, model: BertModel, precision: Precision, num_members: int
    ) -> None:
        self.objective = objective
        plan = Plan(objective, OptimSettings(learning_rate=RATE), seed=0, num_members=num_members)
        self.team = Team(model, DTYPES[precision], plan)

    def __enter__(self) -> "StepTimer":
        self.team.__enter__()
        try:
            self.team.wait()
        except BaseException as error:
            self.team.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.team.__exit__(None, None, None)

    def time(self, first: int, *, seconds: float = 0.0, warm_up: int = WARM_UP_STEPS) -> StepTime:
        """Do steps from number `first` on, for so many seconds and at least `MIN_STEPS`.

        A team can be timed once, since its workers make their batches ahead.
        """
        self.team.train()
        compute: list[float] = []
        update: list[float] = []
        tokens: list[int] = []
        deadline = float("inf")
        with Prefetcher(self.objective.micro_batches, first) as batches:
            while len(compute) < warm_up + MIN_STEPS or time.perf_counter() < deadline:
                if len(compute) == warm_up:
                    deadline = time.perf_counter() + seconds
                began, micro_batches = time.perf_counter(), next(batches)
                computed = self._step(first + len(compute), micro_batches)
                share = longest_share(micro_batches, self.team.plan.num_members)
                compute.append((computed - began) / share)
                update.append(time.perf_counter() - computed)
                tokens.append(sum(batch.num_tokens for batch in micro_batches))
        timed = slice(warm_up, None)
        return StepTime(
            median(compute[timed]), median(update[timed]), mean(tokens[timed]), len(compute[timed])
        )

    def _step(self, step: int, micro_batches: Sequence[Batch]) -> float:
        """One step; when its gradients were there."""
        self.team.compute(step, micro_batches)
        computed = time.perf_counter()
        self.team.sum_gradients()
        self.team.update(step, RATE, 1.0)
        return computed

    def time_evaluation(self) -> float:
        """Seconds that the objective's held-out figures take once everything is prepared."""
        began = 0.0
        with self.team.measuring() as model, torch.inference_mode():
            for _ in range(2):
                began = time.perf_counter()
                self.objective.evaluate(model)
        return time.perf_counter() - began


def seconds_per_row(
    objective: Pretraining, model: BertModel, computing: Computing, at_most: float
) -> float:
    """Return how long a held-out row takes, by a few of them, read for about `at_most` seconds."""
    dtype = DTYPES[computing.precision]
    reading = model if dtype == torch.float32 else copy.deepcopy(model).to(dtype)
    was_training = reading.training
    reading.eval()
    seconds = 0.0
    with torch.inference_mode():
        objective.resized(objective.batch_size, 1).evaluate(reading)  # prepares everything
        for rows in TRIAL_ROWS:
            trial = objective.resized(objective.batch_size, rows)
            for _ in trial.held_out_batches(reading):
                pass
            began = time.perf_counter()
            trial.evaluate(reading)
            seconds = time.perf_counter() - began
            if seconds >= at_most:
                break
    reading.train(was_training)
    return seconds / rows
