"""Workers on several ranks: machines or GPUs. Rank 0 trains; the others compute what it asks for.

Each rank has its own `LocalWorkers` (its worker processes), so that it uses all cores of its
machine. Only rank 0 has the trainer, the run's folder and the display. Rank 0 sends the name of a
method of `LocalWorkers` and its arguments; every rank calls the method and answers. Each worker
process computes a *share* of a step: some of its micro-batches.
"""

import contextlib
import math
import pickle
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from bertsmith._version import __version__
from bertsmith.errors import ConfigError, TrainingError
from bertsmith.model.attention_paths import attention_paths
from bertsmith.model.meta_init import without_values
from bertsmith.model.shared import pickle_with_weights
from bertsmith.model.trainable import TrainableModel
from bertsmith.system.code_digest import digest_code
from bertsmith.system.hardware import (
    ComputeChoices,
    count_worker_processes,
    current_choices,
    keep_computing_as,
)
from bertsmith.system.threads import usable_threads
from bertsmith.training.interleave import interleave
from bertsmith.training.objective import HeldOutData
from bertsmith.training.workers.collective_exchange import CollectiveExchange
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.protocol import BatchSize, Figures
from bertsmith.training.workers.rank_errors import results_of, sendable
from bertsmith.training.workers.rank_group import RankGroup
from bertsmith.training.workers.rank_map import MAP, NEXT_ITEMS, MappedFunction
from bertsmith.training.workers.share import Plan

BUILD = "build"
BEGIN_RUN = "begin"
END_RUN = "end of run"
"""Names of the requests that rank 0 sends around those of a run, which are names of methods."""


@dataclass(frozen=True)
class RankRun:
    """The description of a run that rank 0 sends to the other ranks."""

    plan: Plan
    """The division of the run's steps into shares, with its objective, seed and optimizer."""
    skeleton: TrainableModel
    """The model without its values."""
    dtype: torch.dtype
    choices: ComputeChoices
    """The ways of computing, such as those of attention, which affect rounding."""
    facts: Mapping[str, Any]
    """Versions and data that must be the same on all ranks, by name."""
    held_out: HeldOutData[Any]
    """The eval data, of which each rank evaluates a part."""


class DistributedWorkers:
    """Workers of all ranks, for the trainer on rank 0.

    When this object is made, the other ranks build their workers at once. So a rank that cannot
    take part is refused before anything is written. Methods without a docstring are those of the
    protocol `Workers` (protocol.py).

    Args:
        model: rank 0's, with the fp32 weights, which are updated.
        dtype: the type that the model computes in, fp32 or bf16.
        plan: rank 0's; every rank has the same number of shares.
        num_processes: number of worker processes on rank 0.

    Raises:
        BertsmithError: a rank cannot take part, for example because it has another corpus.
    """

    def __init__(
        self,
        model: TrainableModel,
        dtype: torch.dtype,
        plan: Plan,
        ranks: RankGroup,
        *,
        num_processes: int | None = None,
    ) -> None:
        self.plan = replace(plan, num_ranks=ranks.num_ranks)
        self.ranks = ranks
        self.local = LocalWorkers(model, dtype, self.plan, num_processes=num_processes)
        self._model = model
        self._dtype = dtype
        self._compute_seconds = [0.0] * ranks.num_ranks
        """Seconds that each rank computed in the last step."""
        self._exchange_seconds_before = 0.0
        """Seconds that rank 0 had spent in exchanges before those of the last step."""
        self._build_others()

    def _build_others(self) -> None:
        """Let the other ranks check that they can take part, and build their workers."""
        is_bf16 = self._dtype == torch.bfloat16
        run = RankRun(
            self.plan,
            without_values(self._model),
            self._dtype,
            current_choices("bf16" if is_bf16 else "fp32", attention_paths()),
            shared_facts(self.plan),
            self.plan.objective.evaluation,
        )
        # Pickled here, so that a rank that cannot unpickle it can report that.
        self.ranks.broadcast((BUILD, self._model.device.type, pickle_with_weights(run)))
        self._answers(own=None)  # raises the error of a rank that cannot take part

    def __enter__(self) -> Self:
        self.ranks.broadcast((BEGIN_RUN,))
        self.local.exchange = new_exchange(self.ranks, self.local, self._model.device)
        self.local.__enter__()
        self.local.broadcast_state()
        return self

    def prepare(self, step: int) -> list[BatchSize]:
        return interleave(self._ask("prepare", step))

    def compute(self, step: int, counts: Mapping[str, int]) -> list[Figures]:
        answers = self._ask("compute_timed", step, counts)
        self._compute_seconds = [seconds for _, seconds in answers]
        self._exchange_seconds_before = self.local.exchange_seconds
        return interleave([figures for figures, _ in answers])

    def reduce_gradients(self) -> float:
        # Each rank answers with a list of sums for each of its shares. They are summed in the order
        # of ranges, so that the norm is the same for any number of ranks.
        squares = [sums for sums_of_rank in self._ask("square_sums") for sums in sums_of_rank]
        return math.sqrt(sum(map(sum, squares)))

    def step_timing(self, step_seconds: float) -> dict[str, float]:
        exchange_seconds = self.local.exchange_seconds - self._exchange_seconds_before
        slowest = max(self._compute_seconds)
        return {
            "exchange_fraction": exchange_seconds / step_seconds,
            "slowest_rank": self._compute_seconds.index(slowest),
            "slowest_rank_factor": slowest / mean(self._compute_seconds),
        }

    def update(self, step: int, rate: float, divisor: float) -> None:
        self._ask("update", step, rate, divisor)

    def evaluating(self) -> contextlib.AbstractContextManager[TrainableModel]:
        return self.local.evaluating()

    def evaluate(self) -> list[Any]:
        if self.plan.is_exact:  # dividing the data would change the last digits of metrics
            return self.local.evaluate()
        return self._ask("evaluate_part")

    def state_dict(self) -> Mapping[str, Tensor]:
        self._ask("gather_state")
        return self.local.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        self.local.load_state_dict(tensors)

    def _ask(self, name: str, *arguments: object) -> list[Any]:
        """Call a method of `LocalWorkers` on every rank; return their answers, by rank."""
        self.ranks.broadcast((name, *arguments))
        try:
            own = getattr(self.local, name)(*arguments)
        except BaseException:  # also a second Ctrl-C
            self.ranks.gather((None, None))  # the other ranks wait until all have answered
            raise
        return self._answers(own)

    def _answers(self, own: object) -> list[Any]:
        """Gather the answers of all ranks, `own` first; raise the error of a rank that failed.

        Every rank sends a pair: its error, or None, and its answer.
        """
        return results_of(self.ranks.gather((None, own)), self.ranks.hosts)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(TrainingError):  # the others may have ended
            self.ranks.broadcast((END_RUN,))
        self.local.__exit__(kind, error, traceback)


def new_exchange(
    ranks: RankGroup, workers: LocalWorkers, device: torch.device
) -> CollectiveExchange:
    """Connect this rank's workers with those of the others; every rank calls this."""
    return CollectiveExchange(ranks.new_group(device), workers.plan, workers.layout)


def code_facts() -> dict[str, str]:
    """Collect the versions and the digest of the code that must be the same on all ranks."""
    return {
        "bertsmith": __version__,
        "torch": torch.__version__.partition("+")[0],
        "python": ".".join(platform.python_version_tuple()[:2]),
        "code digest": digest_code(),
    }


def shared_facts(plan: Plan) -> dict[str, Any]:
    """Collect the facts that must be the same on all ranks: code, and the objective's data."""
    return {**code_facts(), **plan.objective.identity()}


def serve_rank(ranks: RankGroup) -> int:
    """Compute what rank 0 asks for until rank 0 ends; return the exit code of rank 0.

    This is the main function of all ranks but rank 0.
    """
    mapped = MappedFunction(ranks)
    workers: LocalWorkers | None = None
    while True:
        name, *arguments = ranks.receive()
        if name == "end":  # sent when rank 0's command has ended (commands/on_ranks.py)
            code: int = arguments[0]
            return code
        if name == BUILD:
            workers = _build_workers(ranks, *arguments)
        elif name == BEGIN_RUN and workers is not None:
            _serve_run(ranks, workers)
            workers = None
        elif name == MAP:
            mapped.load(*arguments)
        elif name == NEXT_ITEMS:
            mapped.compute_item()


def _build_workers(ranks: RankGroup, device_type: str, pickled: bytes) -> LocalWorkers | None:
    """Build the workers of this rank for a run; if it cannot take part, tell rank 0 why."""
    try:
        workers = _check_and_build(ranks, device_type, pickled)
    except Exception as error:
        ranks.gather((sendable(error), None))
        return None
    ranks.gather((None, None))
    return workers


def _serve_run(ranks: RankGroup, workers: LocalWorkers) -> None:
    """Compute this rank's part of each step of one run, as rank 0 asks for it."""
    workers.exchange = new_exchange(ranks, workers, workers.model.device)
    with workers:
        workers.broadcast_state()
        for name, *arguments in _messages_of_run(ranks):
            try:
                answer = getattr(workers, name)(*arguments)
            except Exception as error:
                ranks.gather((sendable(error), None))
            else:
                ranks.gather((None, answer))


def _check_and_build(ranks: RankGroup, device_type: str, pickled: bytes) -> LocalWorkers:
    """Check that this rank can take part in a run, and build its workers.

    Raises:
        ConfigError: this rank has other data or versions than rank 0.
        CorpusError: the corpus is not at the same path as on rank 0.
    """
    device = torch.device(device_type)
    if device_type == "cuda":
        device = torch.device("cuda", ranks.local_rank)
        torch.cuda.set_device(device)  # before a teacher is unpickled, which goes there
    run: RankRun = pickle.loads(pickled)
    plan = replace(run.plan, rank=ranks.rank)
    check_facts(run.facts, shared_facts(plan))
    # Machines may have other numbers of cores; all other choices are those of rank 0.
    keep_computing_as(replace(run.choices, threads=usable_threads()))
    model = run.skeleton.to_empty(device=device)
    return LocalWorkers(
        model,
        run.dtype,
        plan,
        num_processes=count_worker_processes(device),
        held_out=run.held_out,
    )


def _messages_of_run(ranks: RankGroup) -> Iterator[Sequence[Any]]:
    """Yield the name of a method and its arguments for each request, until the run ends."""
    while (message := ranks.receive())[0] != END_RUN:
        yield message


def check_facts(expected: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse other code or data than rank 0 has.

    Raises:
        ConfigError: names what differs.
    """
    differing = [name for name in expected if own.get(name) != expected[name]]
    if differing:
        name = differing[0]
        raise ConfigError(
            f"has another {name} than rank 0: {own.get(name)!r}, not {expected[name]!r}. Give all "
            "ranks the same code, packages and data."
        )
