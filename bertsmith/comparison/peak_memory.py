"""Peak memory of a recipe's training, measured in a process of its own.

The process of a comparison has trained other recipes before, and libraries keep the memory of that.
So a new process trains the recipe for a few steps, on the CPU, and reports its peak. It computes as
the run did, but with one thread, so that one process holds everything. With more threads there
would be several processes, each with gradients of its own, and how many depends on the computer.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.comparison.recipes import AnyRecipe
from bertsmith.comparison.runs import FAILURES, RESULTS_KEY, ComparisonContext, RunResult
from bertsmith.errors import BertsmithError, Interrupted, as_flags
from bertsmith.system.hardware import ComputeChoices, computing_as, select_device
from bertsmith.system.memory import own_peak_bytes
from bertsmith.system.process_options import configure_process
from bertsmith.system.processes import run_in_new_process
from bertsmith.system.temporary_folder import temporary_folder
from bertsmith.training.run_folder import RunFolder

STEPS = 20
"""Number of steps that the process trains."""
MEMORY_NOTE = (
    f"Peak memory is that of a process of its own, which trains {STEPS} steps with one thread and "
    "ends; the code of its libraries counts, too. A dash: not measured, or unknown on this system."
)
PEAK_MEMORY_KEY = "memory_bytes"
"""Key of the peak memory in `comparison` of a `run.json`, and in a run's cost."""


@dataclass(frozen=True)
class MemoryTrial:
    """A recipe to train for a few steps, and how its full run computes."""

    recipe: AnyRecipe
    choices: ComputeChoices | None
    """The precision and other choices of the full run; None if it ran on a GPU."""
    out: Path
    """The folder of the run, which this process removes: the other one may be killed."""


def add_peak_memory(context: ComparisonContext, results: Sequence[RunResult]) -> None:
    """Add the peak memory of each recipe to the cost of its first finished run.

    The memory is measured once, if the settings ask for it, and stored in that run's `run.json`. A
    failure is only logged, since all other results are complete.
    """
    for recipe in context.comparison.recipes:
        trained = [result for result in results if result.recipe == recipe.name and result.cost]
        if not trained:
            continue
        result = trained[0]
        try:
            peak = _stored_peak(context, recipe, result.seed)
        except Interrupted:
            raise
        except FAILURES as error:
            message = error.message if isinstance(error, BertsmithError) else str(error)
            context.log(f"{recipe.name}: peak memory not measured: {as_flags(message)}")
            continue
        if peak is not None:
            result.cost[PEAK_MEMORY_KEY] = peak


def _stored_peak(context: ComparisonContext, recipe: AnyRecipe, seed: int) -> int | None:
    """Return the peak memory that a finished run's folder stores; if it has none, measure it."""
    folder = RunFolder(context.comparison.folder(recipe, seed))
    record = folder.read_run()
    stored: int | None = record[RESULTS_KEY].get(PEAK_MEMORY_KEY)
    is_on_cpu = select_device(recipe.training.device).type == "cpu"
    if stored is None and is_on_cpu and context.comparison.settings.measure_memory:
        context.log(f"{recipe.name}: measuring peak memory")
        stored = measure_peak_memory(recipe.with_seed(seed), folder)
        if stored is not None:
            folder.write_run(
                {**record, RESULTS_KEY: {**record[RESULTS_KEY], PEAK_MEMORY_KEY: stored}}
            )
    return stored


def measure_peak_memory(recipe: AnyRecipe, finished: RunFolder) -> int | None:
    """Return the peak memory of training in bytes, with the code of libraries; None if unknown.

    Args:
        finished: the folder of a run of the recipe; the trial computes by its choices.

    Raises:
        BertsmithError: the trial failed, or its process was ended from outside.
    """
    short = recipe.shortened(STEPS).with_training(threads=1, report_to=None)
    with temporary_folder() as folder:
        trial = MemoryTrial(short, finished.read_choices(), folder / "run")
        return run_in_new_process(_train_and_count, trial)


def _train_and_count(trial: MemoryTrial) -> int | None:
    """Train in this process, and return the most memory that it has held."""
    configure_process()
    choices = None if trial.choices is None else replace(trial.choices, threads=1)
    with warnings.catch_warnings(), computing_as(choices):
        warnings.simplefilter("ignore")  # the full run has shown them
        trial.recipe.train(
            RunFolder(trial.out),
            callbacks=(),
            resume_command="",
            measure=lambda model: {},  # no further metrics
        )
    return own_peak_bytes()
