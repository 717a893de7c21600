"""The worker processes of a run on one machine, which compute its steps together.

A small model's matrix products are too short to divide among cores: in each of the hundreds of
operations of a step, all cores would wait for the slowest. Threads with a batch each would wait for
the interpreter's lock. So each core has a process. It computes its *share* of a step, some of the
step's micro-batches, with the whole model, and then updates its range of the weights. Weights,
gradients and the optimizer's state are flat arrays in shared memory. For BERT-tiny with a
vocabulary of 8,000, two threads processed 1.3 times as many tokens a second as one; two processes
process twice as many.
"""

import contextlib
import math
import mmap
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Self

import torch
from torch import Tensor

from bertsmith.errors import TrainingError, option
from bertsmith.model.attention_paths import attention_paths
from bertsmith.model.meta_init import without_values
from bertsmith.model.shared import SharedFile, map_file
from bertsmith.model.trainable import TrainableModel
from bertsmith.system.hardware import ComputeChoices, current_choices, keep_computing_as
from bertsmith.system.held_signals import signals_held_back
from bertsmith.system.own_modules import import_modules, imported_modules
from bertsmith.system.process_options import configure_process
from bertsmith.system.processes import to_sendable, without_script
from bertsmith.system.stop_signal import SIGNALS
from bertsmith.system.threads import set_own_threads
from bertsmith.training.flat_parameters import GradientCollector, Layout, Storage, use_arrays
from bertsmith.training.interleave import interleave
from bertsmith.training.objective import HeldOutData
from bertsmith.training.optim import buffers_of, update_rules
from bertsmith.training.update_rules.rule import rule_for
from bertsmith.training.workers.exchange import Exchange
from bertsmith.training.workers.protocol import BatchSize, Figures
from bertsmith.training.workers.share import Plan, Share, indices_by_process, to_figures

STOP_SECONDS = 10.0
"""Seconds that a worker may take to end after it was asked to."""


class LocalWorkers:
    """Worker processes of this machine, as a context that starts and ends them.

    The process that trains is one of the workers. Until all others are up, which takes seconds, it
    also computes their shares; this does not change the result. It computes everything if it may
    not start processes (inside a `multiprocessing.Pool`). Batches are made ahead only for its own
    shares, not for those that it computes in place of other processes. Methods without a docstring
    are those of the protocol `Workers` (protocol.py).

    Args:
        model: has the fp32 weights, which are updated; its parameters become views of the arrays.
        dtype: the type that the model computes in, fp32 or bf16.
        plan: the division of steps into shares.
        num_processes: number of worker processes; by default one for each share.
        held_out: the eval data; by default that of the plan's objective.

    Raises:
        ConfigError: the shared memory exceeds the system's limit on file sizes (`ulimit -f`).
    """

    def __init__(
        self,
        model: TrainableModel,
        dtype: torch.dtype,
        plan: Plan,
        *,
        num_processes: int | None = None,
        held_out: HeldOutData[Any] | None = None,
    ) -> None:
        self.plan = plan
        self.model = model
        self.compute_model = model
        """The model that computes: `model`, or in bf16 a copy of it, made below."""
        self.layout = Layout.of(model.parameter_specs(), plan.num_ranks)
        self.exchange: Exchange | None = None
        """Exchange with the other ranks, which compute other micro-batches of the same steps; None
        on a single rank. `distributed.py` sets it when the run begins."""
        self.exchange_seconds = 0.0
        """Seconds spent in exchanges so far; on a GPU, which computes asynchronously, only the time
        to begin them."""
        self._held_out = held_out
        self.num_processes = min(num_processes or plan.num_shares, plan.num_shares)
        device = model.device
        self._storage = Storage(self.layout.size, plan.num_shares, dtype, buffers_of(plan.optim))
        num_bytes = self._storage.num_bytes
        # Other processes map the same file. A single process needs no file.
        self._file = SharedFile(num_bytes) if self.num_processes > 1 else None
        if self._file is not None:
            memory = self._file.map()
        elif device.type == "cpu":
            # mmap makes pages of zeros when they are first used; torch.zeros would write them all.
            memory = torch.frombuffer(mmap.mmap(-1, num_bytes), dtype=torch.uint8)
        else:
            memory = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
        self.arrays = self._storage.arrays_in(memory)
        views = self.layout.views(self.arrays.weights)
        for name, parameter in model.named_parameters():
            views[name].copy_(parameter.data)
        # `use_arrays` makes the parameters of a model views of `compute_weights`. The given model
        # gets the fp32 weights themselves. In bf16 a second model computes, with their bf16 copy.
        use_arrays(model, self.layout, replace(self.arrays, compute_weights=self.arrays.weights))
        if dtype != torch.float32:
            self.arrays.compute_weights.copy_(self.arrays.weights)
            # Copied without its values: a copy with values would be freed at once, but this process
            # would keep its memory.
            self.compute_model = without_values(model).to(dtype).to_empty(device=device)
            use_arrays(self.compute_model, self.layout, self.arrays)
        self.compute_model.train()
        self._collector = GradientCollector(self.compute_model, self.layout)
        self._shares = [
            Share(index, plan, self.compute_model, self.arrays, self.layout, self._collector)
            for index in range(plan.num_shares)
        ]
        self.processes: list[_WorkerProcess] = []
        """The worker processes besides this one."""
        self._threads_before = torch.get_num_threads()
        self.is_complete = self.num_processes == 1
        """Whether all worker processes are up and compute their own shares."""

    def __enter__(self) -> Self:
        for index in self._indices_by_process[0]:
            self._shares[index].is_prefetching = True
        self._threads_before = torch.get_num_threads()
        # With --exact a process has one thread, so that its sums have one order.
        threads_per_process = (
            1 if self.plan.is_exact else self._threads_before // self.num_processes
        )
        set_own_threads(max(1, threads_per_process))
        if self._file is not None:
            is_bf16 = self._storage.dtype == torch.bfloat16
            choices = current_choices("bf16" if is_bf16 else "fp32", attention_paths())
            setup = _WorkerSetup(self._file.path, self.layout, self._storage, choices)
            job = pickle.dumps((setup, self.plan, without_values(self.compute_model)))
            may_start_processes = not multiprocessing.current_process().daemon
            indices_of_others = self._indices_by_process[1:] if may_start_processes else []
            try:
                for number, indices in enumerate(indices_of_others, start=1):
                    self.processes.append(_WorkerProcess(number, indices, job))
            except BaseException as error:
                self.__exit__(type(error), error, error.__traceback__)
                raise
        return self

    def __exit__(self, *problem: object) -> None:
        for process in self.processes:
            process.stop(takes_part=self.is_complete)
        set_own_threads(self._threads_before)
        if self._file is not None:
            self._file.close()
        for share in self._shares:
            share.close()
        self._collector.close()

    def wait(self) -> None:
        """Wait until all worker processes are up."""
        if not self.is_complete:
            for process in self.processes:
                process.wait()
            self._poll_processes()

    def prepare(self, step: int) -> list[BatchSize]:
        # Only here, at the beginning of a step, may the other processes begin to take part.
        self._poll_processes()
        self._send("prepare", step)
        return interleave([*(share.prepare(step) for share in self._own_shares), *self._receive()])

    def compute(self, step: int, counts: Mapping[str, int]) -> list[Figures]:
        self._send("compute", step, counts)
        # Numbers are read at the end, since reading waits for the device to finish all its work.
        terms = [share.compute(step, counts) for share in self._own_shares]
        return interleave([*map(to_figures, terms), *self._receive()])

    def compute_timed(self, step: int, counts: Mapping[str, int]) -> tuple[list[Figures], float]:
        """Compute gradients as `compute` does; return its result and the seconds that it took."""
        started_at = time.perf_counter()
        figures = self.compute(step, counts)
        return figures, time.perf_counter() - started_at

    def reduce_gradients(self) -> float:
        return math.sqrt(sum(map(sum, self.square_sums())))

    def square_sums(self) -> list[list[float]]:
        """Sum the gradients of this rank's ranges over all shares and ranks.

        Returns:
            For each share, the sums of squares of the chunks of its range; on a GPU their total.
        """
        if self.exchange is not None:
            # Each share has a row of gradients. They are summed into the first row, which then gets
            # the sum over all ranks. Exact sums need all shares in one order, so `reduce` adds
            # them one by one.
            if not self.plan.is_exact:
                self._call_all("sum_shares")
            with self._exchanging():
                self.exchange.reduce(self.arrays.gradients)
            # The first row has the sum of all rows now, so the others must not be added again.
            self._call_all("keep_sum")
        self._send("sum_gradients")
        squares = [_to_numbers(share.sum_gradients()) for share in self._own_shares]
        return [*squares, *self._receive()]

    def update(self, step: int, rate: float, divisor: float) -> None:
        self._call_all("update", step, rate, divisor)
        if self.exchange is not None:
            with self._exchanging():
                self.exchange.all_gather(self.arrays.weights)
            self._copy_weights()

    def step_timing(self, step_seconds: float) -> dict[str, float]:
        return {}

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[TrainableModel]:
        """Yield the model in eval mode, within the block.

        Unless sums must be exact, torch may also use the cores of the other processes.
        """
        threads = torch.get_num_threads()
        self.compute_model.eval()
        if not self.plan.is_exact:  # the number of cores changes the last digits
            set_own_threads(self._threads_before)
        try:
            yield self.compute_model
        finally:
            set_own_threads(threads)
            self.compute_model.train()

    def evaluate(self) -> list[Any]:
        return [self.evaluate_part()]

    def evaluate_part(self) -> Any:
        """Evaluate this rank's part of the eval data, or all of it if sums are exact."""
        part, num_parts = self.plan.rank, self.plan.num_ranks
        if self.plan.is_exact:
            part, num_parts = 0, 1
        held_out = self._held_out or self.plan.objective.evaluation
        with self.evaluating() as model, torch.inference_mode():
            return held_out.evaluate_part(model, part, num_parts)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the optimizer's state, named `<buffer>/<parameter>`.

        The tensors are views of the arrays: fp32, in the shapes of the parameters.
        """
        rules = update_rules(self.plan.optim)
        specs = [slot.spec for slot in self.layout.slots]
        buffers_by_parameter = {spec.name: rule_for(spec, rules).buffers for spec in specs}
        return {
            f"{buffer}/{name}": view
            for buffer, array in self.arrays.buffers.items()
            for name, view in self.layout.views(array).items()
            if buffer in buffers_by_parameter[name]
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        for name, view in self.state_dict().items():
            view.copy_(tensors[name])

    def broadcast_state(self) -> None:
        """Copy the weights and the optimizer's state of rank 0 to the other ranks."""
        if self.exchange is not None:
            for array in (self.arrays.weights, *self.arrays.buffers.values()):
                self.exchange.broadcast(array)
            self._copy_weights()

    def gather_state(self) -> None:
        """Complete the optimizer's state, of which each rank has updated its own range."""
        if self.exchange is not None:
            for array in self.arrays.buffers.values():
                self.exchange.all_gather(array)

    @property
    def _own_shares(self) -> list[Share]:
        """The shares that this process computes."""
        if self.processes and self.is_complete:
            return [self._shares[index] for index in self._indices_by_process[0]]
        return self._shares

    @property
    def _indices_by_process(self) -> list[range]:
        """The indices of the shares of each worker process; the first is this process."""
        return indices_by_process(self.plan.num_shares, self.num_processes)

    def _poll_processes(self) -> None:
        """Let the other processes compute their shares, once all of them are up."""
        if not self.is_complete and all(process.has_answered for process in self.processes):
            self.is_complete = True
            self._receive()  # the answer with which each process says that it is up, or its error

    def _call_all(self, name: str, *arguments: object) -> None:
        """Call a method of `Share` that returns nothing, for every share."""
        self._send(name, *arguments)
        for share in self._own_shares:
            getattr(share, name)(*arguments)
        self._receive()

    def _send(self, *message: object) -> None:
        if self.is_complete:
            for process in self.processes:
                process.send(message)

    def _receive(self) -> list[Any]:
        """Receive the answers of the other processes, one for each of their shares."""
        if not self.is_complete:
            return []
        return [answer for process in self.processes for answer in process.receive()]

    @contextlib.contextmanager
    def _exchanging(self) -> Iterator[None]:
        """Add the time of the block to `exchange_seconds`."""
        started_at = time.perf_counter()
        yield
        self.exchange_seconds += time.perf_counter() - started_at

    def _copy_weights(self) -> None:
        if self.arrays.compute_weights is not self.arrays.weights:
            self.arrays.compute_weights.copy_(self.arrays.weights)


def _to_numbers(squares: Tensor) -> list[float]:
    """Return the sum of squares of each chunk of a range; on a GPU their total.

    Reading numbers from a GPU is slow.
    """
    return squares.tolist() if squares.device.type == "cpu" else [squares.sum().item()]


@dataclass(frozen=True)
class _WorkerSetup:
    """Shared memory and choices that let a worker process compute as the main process does."""

    shared_path: str
    layout: Layout
    storage: Storage
    choices: ComputeChoices


class _WorkerProcess:
    """A worker process other than the main one, and the pipe to it, as the main process sees them.

    Args:
        number: counts the other processes from 1; it is part of the process's name.
        indices: the shares that the process computes.
        job: pickled `_WorkerSetup`, `Plan` and model without values.
    """

    def __init__(self, number: int, indices: range, job: bytes) -> None:
        # Forking a process that has threads can deadlock, so workers start afresh everywhere.
        spawn = multiprocessing.get_context("spawn")
        self.connection, worker_end = spawn.Pipe()
        args = indices, worker_end, imported_modules()
        self.process = spawn.Process(
            target=_work, args=args, name=f"bertsmith-{number}", daemon=True
        )
        # A stop signal must not end the process before `_work` ignores it. A script without a guard
        # (`__name__ == "__main__"`) is hidden, since the process would run it again.
        with signals_held_back(), without_script():
            self.process.start()
        worker_end.close()
        # A pipe buffers little, and the worker reads only after it has imported torch, so a thread
        # sends the job while this process goes on.
        self._sender = threading.Thread(target=self._send_job, args=(job,), daemon=True)
        self._sender.start()

    def _send_job(self, job: bytes) -> None:
        try:
            self.connection.send_bytes(job)
        except OSError:  # `receive` then reports that the worker has ended
            self.process.kill()

    @property
    def has_answered(self) -> bool:
        """Whether an answer is waiting, or the process has died."""
        return self.connection.poll() or not self.process.is_alive()

    def wait(self) -> None:
        """Wait for an answer, or for the end of the process."""
        ready = multiprocessing.connection.wait([self.connection, self.process.sentinel])
        if self.connection not in ready:
            # The sentinel may be ready shortly before is_alive() turns false.
            self.process.join(STOP_SECONDS)

    def send(self, message: object) -> None:
        try:
            self.connection.send(message)
        except OSError as error:
            raise self._lost() from error

    def receive(self) -> Any:
        """Receive the answer to a message; raise the worker's error if there was one."""
        try:
            error, answer = self.connection.recv()
        except (EOFError, OSError) as lost:
            raise self._lost() from lost
        if error is not None:
            raise error
        return answer

    def _lost(self) -> TrainingError:
        self.process.join(STOP_SECONDS)
        return TrainingError(
            f"a worker process ended (exit code {self.process.exitcode}), perhaps because the "
            "memory was full, or because a script trains outside of 'if __name__ == "
            f'"__main__"\'. Earlier checkpoints are as they were. Continue with '
            f"{option('resume', True)} and fewer {option('threads')}, or when more memory is free; "
            "smaller batches need a new run."
        )

    def stop(self, *, takes_part: bool) -> None:
        """End the process: close its pipe if it already takes part in the run, else kill it."""
        if not takes_part:  # closing the pipe would end it only once it has started, in seconds
            self.process.kill()
        self._sender.join(STOP_SECONDS)
        self.connection.close()
        self.process.join(STOP_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _work(indices: range, connection: Connection, modules: tuple[str, ...]) -> None:
    """Answer requests until the pipe closes: the main function of a worker process.

    Args:
        indices: the shares that the process computes.
        modules: names of the user's modules to import, which may add families, tasks or losses.
    """
    for number in SIGNALS:  # Ctrl-C goes to all processes; the main one decides when to end
        signal.signal(number, signal.SIG_IGN)
    configure_process()
    with contextlib.suppress(EOFError, OSError):  # the pipe is closed
        try:
            import_modules(modules)
            shares = _build_shares(indices, connection.recv_bytes())
            connection.send((None, []))
            _serve(shares, connection)
        except Exception as error:
            connection.send((to_sendable(error), None))
    os._exit(0)  # skip torch's teardown (0.3 s)


def _build_shares(indices: range, job: bytes) -> list[Share]:
    """Build the shares that this worker process computes, on the shared arrays."""
    setup: _WorkerSetup
    plan: Plan
    setup, plan, skeleton = pickle.loads(job)
    keep_computing_as(setup.choices)
    layout, storage = setup.layout, setup.storage
    arrays = storage.arrays_in(map_file(setup.shared_path, storage.num_bytes))
    model = skeleton.to_empty(device="cpu")
    use_arrays(model, layout, arrays)
    collector = GradientCollector(model, layout)
    shares = [Share(index, plan, model, arrays, layout, collector) for index in indices]
    for share in shares:
        share.is_prefetching = True
    return shares


def _serve(shares: Sequence[Share], connection: Connection) -> None:
    """Call the methods of `Share` that the main process asks for, until it closes the pipe."""
    with contextlib.ExitStack() as stack:
        for share in shares:
            stack.enter_context(contextlib.closing(share))
        while True:
            name, *arguments = connection.recv()
            connection.send((None, [_answer(share, name, arguments) for share in shares]))


def _answer(share: Share, name: str, arguments: Sequence[Any]) -> object:
    """Call a method of a share; convert tensors of the result to numbers."""
    answer = getattr(share, name)(*arguments)
    if name == "compute":
        return to_figures(answer)
    if name == "sum_gradients":
        return answer.tolist()
    return answer
