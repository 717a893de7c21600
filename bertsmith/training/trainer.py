"""The only training loop: a model and an objective go in, a trained model folder comes out.

An objective makes batches and computes losses; the loop knows no tasks, only loss terms. A step is
a function of the weights, the optimizer's state, the seed and the step's number: the objective
makes the batches of a step by its number, and dropout is seeded at every step. So a run that is
resumed from a checkpoint gives the same result as one that was never stopped. (In a run in minutes
the learning rate follows the clock, so the machine's speed affects the result.)

*Workers* compute the steps: a process for each core, on one machine or on several ranks (machines
or GPUs). A *share* is a part of a step: some of its micro-batches, which one worker computes.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertsmith.errors import (
    InputError,
    Interrupted,
    NotFiniteError,
    TrainingError,
    as_arguments,
    option,
    warn_once,
)
from bertsmith.model.attention_paths import describe_attention
from bertsmith.model.trainable import TrainableModel
from bertsmith.system.files import write_json
from bertsmith.system.hardware import count_worker_processes, describe_computing, describe_cores
from bertsmith.system.matrix_products import DTYPES
from bertsmith.system.progress import has_details
from bertsmith.system.stop_signal import StopSignal
from bertsmith.training.best_weights import BestWeights
from bertsmith.training.budget import EVALUATION_LIMIT, is_due
from bertsmith.training.callback import Callback, Status
from bertsmith.training.checkpoint import (
    Checkpoint,
    TrainingState,
    clear_leftovers,
    list_checkpoints,
    save_checkpoint,
)
from bertsmith.training.journal import cut_journal, is_held_out, read_journal
from bertsmith.training.machine import EXACT_SHARES
from bertsmith.training.objective import Measure, Objective
from bertsmith.training.optim import schedule
from bertsmith.training.recorder import Recorder, open_tracker
from bertsmith.training.run_config import RunConfig, build_identity, check_same
from bertsmith.training.run_folder import CONFIG, RunFolder
from bertsmith.training.run_machine import (
    PROCESSES,
    machine_facts,
    note_choices,
    warn_other_division,
    warn_other_processor,
)
from bertsmith.training.trackers.tracker import Tracker
from bertsmith.training.workers.distributed import DistributedWorkers
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.protocol import BatchSize, Workers, step_figures, total_counts
from bertsmith.training.workers.rank_group import RankGroup, joined_ranks
from bertsmith.training.workers.share import Plan
from bertsmith.training.write_errors import advice_for_writing

CHECKPOINT_SECONDS = 600.0
"""Time between two checkpoints if the user has set no interval in steps."""
SHOWN_ROW_CHARACTERS = 300
"""Most characters of the description of a step's rows in a message, about four lines."""


@dataclass(frozen=True)
class Summary:
    """Totals of a run, with its last step and its last evaluation.

    `tokens_per_second` counts real tokens per time of the steps; evaluations and checkpoints are in
    `elapsed_seconds` only. `data_wait_fraction`, 0 to 1, is the share of the steps' time in which
    the run waited for a batch.
    """

    steps: int
    elapsed_seconds: float
    real_tokens: int
    tokens_per_second: float
    data_wait_fraction: float
    last_step: Mapping[str, Any]
    """The journal entry of the last step: its losses, speed and so on."""
    held_out: Mapping[str, Any]
    """The journal entry of the last evaluation; empty if there was none."""


class Trainer:
    """Trains `model` on `objective` and writes the run's folder.

    Call `begin` or `resume`, then `run`; or `recall` for a run that is finished.

    Args:
        model: fp32, on its device; it is trained in place.
        objective: makes batches and losses; must be picklable if there are several processes.
        config: all settings of the run, each with its final value.
        save: writes the model's folder; it is called for each checkpoint and at the end.
        callbacks: receive every journal entry, and may end the run.
        resume_command: the command line that resumes an interrupted run.
        clock: returns the time in seconds, by which a run in minutes is measured.
        workers: compute the steps; by default the worker processes of this machine, or of all
            ranks that it has joined.
        report_to: name of a tracker (`training/trackers/`) that also gets the metrics.
        is_exact: whether sums have the same order for any number of processes and ranks.
        measure: computes further metrics of evaluations, from a model in evaluation mode.
    """

    def __init__(
        self,
        model: TrainableModel,
        objective: Objective[Any, Any],
        folder: RunFolder,
        config: RunConfig,
        *,
        save: Callable[[Path], None],
        callbacks: Sequence[Callback] = (),
        resume_command: str = f"the same command with {option('resume', True)}",
        clock: Callable[[], float] = time.monotonic,
        workers: Workers | None = None,
        report_to: str | None = None,
        is_exact: bool = False,
        measure: Measure | None = None,
    ) -> None:
        self.model = model
        self.objective = objective
        self.folder = folder
        self.config = config
        self.callbacks = callbacks
        self.resume_command = resume_command
        self.report_to = report_to
        self.measure = measure
        self.best = BestWeights(config.best) if config.best else None
        self._clock = clock
        self._save = save
        self.budget = config.budget
        self.device = model.device
        ranks = joined_ranks()
        num_ranks = 1 if ranks is None else ranks.num_ranks
        self.workers = workers or self._new_workers(ranks, is_exact=is_exact)
        self.state = TrainingState(identity=build_identity(config, objective.identity()))
        attention = describe_attention(self.device, config.precision)
        num_processes = math.ceil(config.num_shares / num_ranks)  # on this rank, one per share
        if is_exact:
            num_processes = min(num_processes, count_worker_processes(self.device))
        computing = describe_computing(
            self.device, config.precision, num_processes, attention, is_exact=is_exact
        )
        self.computing = as_arguments("\n".join([computing, *config.notes]))
        """Details of how the run computes, and the notes of its configuration; for run.json."""
        hardware = describe_cores(self.device, config.precision, num_ranks)
        if ranks is not None:
            hardware += f" A rank that is silent for {ranks.silence_seconds:g} s ends the run."
        if has_details():
            hardware = f"{hardware}\ncomputing {computing}"
        self.shown_computing = "\n".join([hardware, *config.notes])
        """The hardware of the run and the same notes; for callbacks, such as a display."""
        self._tracker: Tracker | None = None
        self._clock_zero = 0.0
        """Time of the clock at which the run would have begun if it had never been stopped."""
        self._checkpointed_at = 0.0
        self._checkpointed_step = 0
        self._last_step: dict[str, Any] = {}
        self._last_evaluation: dict[str, Any] = {}
        self.is_stop_requested = False
        """Whether the user asked to stop after the last step had begun, so the run is complete."""
        self._is_ended_by_callback = False

    def _new_workers(self, ranks: RankGroup | None, *, is_exact: bool) -> Workers:
        """Make the workers of this machine, or of all ranks that it has joined."""
        config = self.config
        num_ranks = 1 if ranks is None else ranks.num_ranks
        all_shares = EXACT_SHARES if is_exact else config.num_shares
        shares_per_rank = math.ceil(all_shares / num_ranks)
        plan = Plan(self.objective, config.optim, config.seed, shares_per_rank, is_exact=is_exact)
        dtype = DTYPES[config.precision]
        # With --exact, 12 shares are divided among a process for each core.
        num_processes = count_worker_processes(self.device) if is_exact else None
        if ranks is None:
            return LocalWorkers(self.model, dtype, plan, num_processes=num_processes)
        return DistributedWorkers(self.model, dtype, plan, ranks, num_processes=num_processes)

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Clear the folder for a new run and write `run.json` with `facts`.

        Raises:
            ConfigError: another process trains in the folder, or the tracker cannot begin; the
                folder is then as it was.
        """
        with contextlib.ExitStack() as stack:
            if self.report_to is not None:
                tracker = open_tracker(self.report_to, self.folder.path, self.state.identity)
                self._tracker = stack.enter_context(tracker)
            self._write_beginning(facts)
            stack.pop_all()  # `run` closes the tracker

    def _write_beginning(self, facts: Mapping[str, Any]) -> None:
        """Put an earlier run in the folder aside, and write `run.json` of this one."""
        self.folder.begin()
        own_facts = {
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
            **machine_facts(self.device),
            "computing": self.computing,
            "precision": self.config.precision,
            PROCESSES: self.config.num_shares,
            **note_choices(self.device, self.config.precision),
        }
        self.folder.write_run({**facts, **own_facts, CONFIG: self.state.identity})

    def resume(self, checkpoint: Checkpoint | None) -> None:
        """Continue from a checkpoint, whose weights the model already has; None begins again.

        Raises:
            ConfigError: settings differ from those of the run, or another process uses the folder.
            CheckpointError: run.json or the journal is damaged.
        """
        run = self._check_same()
        warn_other_processor(self.folder.path, run, self.device)
        warn_other_division(self.folder.path, run, self.config.num_shares)
        with self.folder.locked():  # another process that trains here needs these files
            clear_leftovers(self.folder.checkpoints_dir)
            if checkpoint is not None:
                self.state = checkpoint.state
                self.workers.load_state_dict(checkpoint.tensors)
                if self.best is not None:
                    self.best.load_state_tensors(checkpoint.tensors, self.device)
                self.budget.reserve = self.state.last_evaluation_seconds
            # A run that begins again at step 0 also repeats the evaluation before the first step,
            # so no entry remains.
            last_step = self.state.step if self.state.step > 0 else -1
            entries = cut_journal(self.folder.journal_path, last_step)
            if self.state.step and not entries:
                consequence = (
                    "The model is not affected."
                    if self.best is None
                    else "The best weights are now chosen only from evaluations after them."
                )
                warn_once(
                    f"{self.folder.journal_path}: the entries of the steps up to "
                    f"{self.state.step:,} are missing, so the journal and the curves begin after "
                    f"them. {consequence}"
                )
            for entry in entries:  # `best` has its weights from the checkpoint, its score from here
                self._remember(entry)

    def recall(self) -> Summary:
        """Return the summary of a finished run, and replay its journal into `best`.

        Raises:
            ConfigError: settings differ from those of the run.
            CheckpointError: run.json or the journal is damaged.
        """
        run = self._check_same()
        for entry in read_journal(self.folder.journal_path):
            self._remember(entry)
        self.folder.finish()
        return Summary(**{field.name: run["summary"][field.name] for field in fields(Summary)})

    def _check_same(self) -> dict[str, Any]:
        run = self.folder.read_run()
        check_same(self.folder.path, run[CONFIG], self.state.identity)
        return run

    def run(self) -> Summary:
        """Train to the end of the budget and write the final model.

        Raises:
            Interrupted: Ctrl-C, SIGTERM or SIGHUP; a checkpoint was written, unless a second signal
                stopped the run at once.
            TrainingError: loss or gradient is not finite; nothing was updated with it.
            InputError: the disk is full; earlier checkpoints are intact.
            ConfigError: another process trains in the folder.
        """
        with self.folder.locked():
            self._clock_zero = self._clock() - self.state.elapsed_seconds
            self._checkpointed_at = self._clock()
            for callback in self.callbacks:
                callback.begin(self.shown_computing)
            first = self.state.step + 1
            if self._tracker is None and self.report_to is not None:
                # The run is resumed. In a new run, `begin` has opened the tracker already.
                config = self.folder.read_run()[CONFIG]
                self._tracker = open_tracker(self.report_to, self.folder.path, config)
            with (
                StopSignal() as stop,
                Recorder(self.folder, first, self._tracker) as self._recorder,
                self.workers,
            ):
                try:
                    # A new head would only be scored at random, so a run that keeps its best
                    # weights usually has no evaluation before its first step.
                    if self.state.step == 0 and (
                        self.best is None or self.best.settings.from_start
                    ):
                        self._evaluate()
                    self._loop(stop)
                    if self._last_evaluation.get("step") != self.state.step:
                        self._evaluate()
                except KeyboardInterrupt:  # of a second signal: the first one only sets `stop`
                    if not stop.requested:
                        raise
                    raise self._interrupt_at_once() from None
                # The last checkpoint of a run has its last weights. With `best`, the model gets
                # other weights now, and only the journal is written.
                if self.best is None and self._checkpointed_step != self.state.step:
                    self._checkpoint()
                else:
                    with self._writing():
                        self._recorder.sync()
            self.is_stop_requested = stop.requested
            if self.best is not None:
                self.best.restore(self.model)
            self._save(self.folder.path)
            summary = self._summary()
            self.folder.write_run({**self.folder.read_run(), "summary": asdict(summary)})
            self.folder.finish()
            return summary

    def _loop(self, stop: StopSignal) -> None:
        """Make steps, evaluations and checkpoints until the budget is used up.

        The run ends earlier if a signal, a callback or the patience of early stopping ends it.
        """
        step_seconds = 0.0
        progress = self.budget.progress(self.state.step, self._elapsed())
        while not self.budget.is_done(self.state.step, self._elapsed(), step_seconds):
            if stop.requested:
                stop.ignore_more()
                raise self._save_and_interrupt()
            started_at = self._clock()
            sizes = self.workers.prepare(self.state.step + 1)
            waited = self._clock() - started_at
            entry = self._step(sizes, started_at - self._clock_zero)
            step_seconds = self._clock() - started_at
            self.state.real_tokens += entry["real_tokens"]
            self.state.step_seconds += step_seconds
            self.state.data_wait_seconds += waited
            entry["tokens_per_second"] = entry["real_tokens"] / step_seconds
            self._record({**entry, **self.workers.step_timing(step_seconds)})
            before = progress
            progress = self.budget.progress(self.state.step, self._elapsed())
            if self._is_evaluation_due(before, progress):
                self._evaluate()
            is_patience_over = self.best is not None and self.best.is_exhausted
            if self._is_ended_by_callback or is_patience_over:
                return
            if self._is_checkpoint_due():
                self._checkpoint()

    def _step(self, sizes: Sequence[BatchSize], began: float) -> dict[str, Any]:
        """Compute losses and gradients, update weights; return the journal entry without times.

        Args:
            sizes: the sizes of the step's micro-batches, which the workers have prepared.
            began: seconds of the run at which the step began.
        """
        step = self.state.step + 1
        if change := self.objective.describe_change(step):
            for callback in self.callbacks:
                callback.change(step, change)
        counts = total_counts(sizes)  # predictions by loss term, over all micro-batches
        figures = step_figures(counts, self.workers.compute(step, counts))
        norm = self.workers.reduce_gradients()
        if not (math.isfinite(figures["loss"]) and math.isfinite(norm)):
            raise self._report_failure(step, figures, norm)
        # Taken at the middle of a step, the rate is not zero in the first or the last.
        optim = self.config.optim
        progress = self.budget.progress_at_middle(step, began, self._elapsed())
        rate = optim.peak_rate * schedule(progress, optim)
        limit = optim.max_grad_norm
        # Gradient clipping; a limit of 0 turns it off.
        self.workers.update(step, rate, divisor=norm / limit if 0 < limit < norm else 1.0)
        self.state.step = step
        return {
            "step": step,
            **figures,
            "gradient_norm": norm,
            "learning_rate": rate,
            "real_tokens": sum(size.num_tokens for size in sizes),
        }

    def _evaluate(self) -> None:
        """Evaluate the model, record its metrics, and keep its weights if they are the best."""
        started_at = self._clock()
        figures = self.objective.evaluation.combine(self.workers.evaluate())
        if self.measure is not None:
            with self.workers.evaluating() as model, torch.inference_mode():
                figures = {**figures, **self.measure(model)}
        seconds = self._clock() - started_at
        self.state.evaluation_seconds += seconds
        # A run in minutes ends earlier by this time, so that its last evaluation fits, too.
        self.state.last_evaluation_seconds = self.budget.reserve = seconds
        _check_finite(self.state.step, figures)
        if figures:
            self._record({"step": self.state.step, **figures})
            # In `_record`, `best` has compared this evaluation with those before. `best.step` is
            # now this step if this evaluation is the best one.
            if self.best is not None and self.best.step == self.state.step:
                self.best.keep(self.model)

    def _record(self, entry: dict[str, Any]) -> None:
        """Write an entry to the journal and pass it to the callbacks, one of which may end the run.

        The elapsed time is added to the entry.
        """
        entry["elapsed_seconds"] = self._elapsed()
        progress = self.budget.progress(self.state.step, entry["elapsed_seconds"])
        status = Status(
            progress=progress,
            elapsed_seconds=entry["elapsed_seconds"],
            data_wait_fraction=self.state.data_wait_fraction,
        )
        with self._writing():
            self._recorder.write(entry)
        answers = [callback.write(entry, status) for callback in self.callbacks]
        # Only True ends the run. A method may return another value without meaning it.
        self._is_ended_by_callback |= any(
            isinstance(answer, bool | np.bool_) and answer for answer in answers
        )
        self._remember(entry)

    def _remember(self, entry: dict[str, Any]) -> None:
        """Keep an entry for the summary, and let `best` judge an evaluation."""
        if is_held_out(entry):
            self._last_evaluation = entry
            if self.best is not None:
                self.best.consider(entry)
        else:
            self._last_step = entry

    def _checkpoint(self) -> Path | None:
        """Save the current state of the run; None if no checkpoints are kept."""
        self._checkpointed_at, self._checkpointed_step = self._clock(), self.state.step
        self.state.elapsed_seconds = self._elapsed()
        with self._writing():
            self._recorder.sync()
            if self.config.keep == 0:
                return None
            tensors = dict(self.workers.state_dict())
            if self.best is not None:
                tensors |= self.best.state_tensors()
            folder = self.folder.checkpoints_dir
            return save_checkpoint(folder, self._save, tensors, self.state, self.config.keep)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn an error of writing in the block into one that says how to continue the run.

        Raises:
            InputError: the block raised an InputError or an OSError.
        """
        try:
            yield
        except (InputError, OSError) as error:
            cause = error.__cause__ or error
            raise InputError(
                f"{self.folder.checkpoints_dir}: step {self.state.step} could not be saved "
                f"({getattr(cause, 'strerror', None) or cause}); earlier checkpoints are as they "
                f"were. {advice_for_writing(cause)}, then continue with: {self.resume_command}"
            ) from error

    def _is_evaluation_due(self, before: float, progress: float) -> bool:
        """Return whether to evaluate after a step in which the progress rose from `before`."""
        # With a number of steps, or an interval in steps, evaluations come at multiples of steps.
        step, every, plan = self.state.step, self.config.eval_every, self.config.evaluations
        if every is None and self.budget.steps is not None:
            every = plan.interval(self.budget.steps)
        if every is not None:
            return is_due(step - 1, step, every)
        # In a run in minutes they come at equal shares of its time, if they are not too slow.
        assert self.budget.seconds is not None
        # This evaluation and the one at the end will each take about as long as the last one.
        all_seconds = self.state.evaluation_seconds + 2 * self.budget.reserve
        is_affordable = all_seconds <= EVALUATION_LIMIT * self.budget.seconds
        is_affordable |= not plan.is_limited
        return is_affordable and is_due(before, progress, 1 / plan.times)

    def _is_checkpoint_due(self) -> bool:
        step, every = self.state.step, self.config.checkpoint_every
        if every is not None:
            return is_due(step - 1, step, every)
        return self._clock() - self._checkpointed_at >= CHECKPOINT_SECONDS

    def _elapsed(self) -> float:
        """Return the seconds that the run has taken, without the time when it was stopped."""
        return self._clock() - self._clock_zero

    def _save_and_interrupt(self) -> Interrupted:
        """Save a checkpoint after the first signal, and build the error that ends the run."""
        checkpoint = self._checkpoint()
        if checkpoint is None:
            return Interrupted(f"{self.folder.path}: stopped at step {self.state.step}.")
        return Interrupted(
            f"{self.folder.path}: stopped after step {self.state.step}, saved in {checkpoint}. "
            f"Continue with: {self.resume_command}"
        )

    def _interrupt_at_once(self) -> Interrupted:
        """Build the error for a second signal, which stopped the run without saving."""
        checkpoints = list_checkpoints(self.folder.checkpoints_dir)
        start = f"{checkpoints[-1].name}, its last checkpoint" if checkpoints else "its beginning"
        return Interrupted(
            f"{self.folder.path}: stopped at once, without saving step {self.state.step}. "
            f"Continue from {start}, with: {self.resume_command}"
        )

    def _report_failure(
        self, step: int, figures: Mapping[str, float], norm: float
    ) -> NotFiniteError:
        """Write the facts of a step with a NaN or infinite loss to a file; build the error."""
        rows = self.objective.describe(step)
        path = self.folder.failure_path
        # As text, since JSON has no NaN or infinity.
        as_text = {name: f"{value:.6g}" for name, value in figures.items()}
        write_json(path, {"step": step, **as_text, "gradient_norm": f"{norm:.6g}", "rows": rows})
        shown_rows = rows
        if len(rows) > SHOWN_ROW_CHARACTERS:
            shown_rows = f"{rows[:SHOWN_ROW_CHARACTERS]} …"
        losses = ", ".join(f"{name} {text}" for name, text in as_text.items() if "loss" in name)
        return NotFiniteError(
            f"step {step}: {losses}, gradient norm {norm:.6g}; allowed are finite numbers. "
            "Nothing was updated with them.",
            shown_rows,
            f"Try a lower learning rate or {option('precision', 'fp32')}, or look at these texts.",
            path,
        )

    def _summary(self) -> Summary:
        state = self.state
        return Summary(
            steps=state.step,
            elapsed_seconds=self._elapsed(),
            real_tokens=state.real_tokens,
            tokens_per_second=state.real_tokens / max(1e-9, state.step_seconds),
            data_wait_fraction=state.data_wait_fraction,
            last_step=self._last_step,
            held_out=self._last_evaluation,
        )


def _check_finite(step: int, figures: Mapping[str, float]) -> None:
    """Raise TrainingError if an eval metric is NaN or infinite, as the weights are then useless."""
    for name, value in figures.items():
        if not math.isfinite(value):
            raise TrainingError(
                f"after step {step}: {name} is {value}; allowed are finite numbers. Checkpoints "
                "before it are as they were. Try a lower learning rate or "
                f"{option('precision', 'fp32')}."
            )
