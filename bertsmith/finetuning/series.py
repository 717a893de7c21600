"""A series of fine-tuning runs, over seeds or over folds of the data.

Scores depend on chance: the initial weights of the head, the order of the examples, the choice of
held-out ones. So the mean and the standard deviation over several runs are reported, and the best
model is kept. Each run has a folder of its own, and a stopped series can be resumed.
"""

import json
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertsmith.config import to_jsonable
from bertsmith.errors import ConfigError
from bertsmith.finetuning.run import (
    NOTES,
    START_NOTE,
    check_out,
    computing_as_begun,
    count_parts,
    finetune,
    notes_on,
)
from bertsmith.metrics.answers import ENDLESS
from bertsmith.system.files import sha256_file, write_json
from bertsmith.system.hardware import (
    compute_choices,
    compute_settings,
    select_device,
    select_precision,
)
from bertsmith.tasks.settings import FinetuneSettings
from bertsmith.tasks.task import Task, TaskDataset
from bertsmith.training.recorder import Callback
from bertsmith.training.run_folder import CHOICES, RunFolder, run_names

Kind = Literal["seed", "fold"]
Say = Callable[[str], object]
Train = Callable[..., Any]
"""`finetune`, or a function with its signature and the same fields in its result."""

WEIGHTS = "model.safetensors"
CHANGING = ("resume", "overwrite", "json", "threads", "out")
"""Settings that may differ when a series is resumed; its folder may have been renamed."""


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (n - 1) of a score."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Repeats:
    """The results of a series' runs, and the spread of scores."""

    out: Path
    kind: Kind
    names: tuple[str, ...]
    best: str
    metric: str
    figures: dict[str, Spread]
    results: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        return dict(to_jsonable(self))

    def _score(self, result: Mapping[str, Any]) -> float:
        """Return the eval score by `metric`, or else the best score."""
        score: float = result["evaluation"].get(self.metric, result["best_score"])
        return score

    def __str__(self) -> str:
        """Format a line for each score and for each run."""
        width = max(len(name) for name in (*self.figures, *self.names))
        lines = [
            f"{name:<{width}}  {spread.mean:.4f} ± {spread.deviation:.4f}"
            for name, spread in self.figures.items()
        ]
        lines += [""] + [
            f"{name:<{width}}  {self.metric} {self._score(result):.4f}"
            f"{'   <- kept' if name == self.best else ''}"
            for name, result in zip(self.names, self.results, strict=True)
        ]
        return "\n".join(
            [f"{len(self.names)} {self.kind}s, mean ± standard deviation; model of the best in "
             f"{self.out}", *notes_on_runs(self.results), "", *lines]
        )  # fmt: skip


def notes_on_runs(results: Sequence[dict[str, Any]]) -> list[str]:
    """List remarks on all runs' examples, and on their common start."""
    totals: dict[str, Any] = {name: sum(result[name] for result in results) for name in NOTES}
    totals["start_note"] = results[0].get(START_NOTE, "")
    totals["notes"] = list(dict.fromkeys(note for result in results for note in result["notes"]))
    *notes, chosen = notes_on(totals)
    counted = [f"counted over all {len(results)} runs:"] if any(map(totals.get, NOTES)) else []
    return [*counted, *notes, chosen]


@dataclass(frozen=True)
class Run:
    """One run of a series; `dataset` is None if read from files."""

    name: str
    settings: FinetuneSettings
    dataset: TaskDataset[Any] | None = None


def finetune_repeatedly(
    task_type: type[Task[Any, Any]],
    settings: FinetuneSettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume",
    say: Say = lambda line: None,
    *,
    train: Train = finetune,
) -> Repeats:
    """Fine-tune with several seeds or folds, and keep the best model.

    Earlier contents of the folder are kept until the first run has read and checked everything.

    Raises:
        ConfigError: other settings than those of the series to resume; and as `finetune`.
    """
    check_out(settings)
    with computing_as_begun(settings):
        return _finetune_repeatedly(task_type, settings, callbacks, resume_command, say, train)


def _finetune_repeatedly(
    task_type: type[Task[Any, Any]],
    settings: FinetuneSettings,
    callbacks: Sequence[Callback],
    resume_command: str,
    say: Say,
    train: Train,
) -> Repeats:
    kind: Kind = "seed" if settings.seeds is not None else "fold"
    runs = list(runs_of(task_type, settings, kind))
    folder = RunFolder(settings.out)
    series = describe(settings, kind)
    check_series(folder, settings, series)
    results: list[dict[str, Any]] = []
    with ExitStack() as stack:

        def take_folder() -> None:
            stack.enter_context(folder.held(lambda: check_series(folder, settings, series)))
            if not settings.resume:
                folder.begin()
                folder.write_run({**series, CHOICES: choices_of(settings)})

        if settings.resume:
            take_folder()
        for number, run in enumerate(runs, start=1):
            if number == 1 and not settings.resume:
                say(f"{run.name}, 1 of {len(runs)}")
                over = replace(run, settings=replace(run.settings, overwrite=settings.overwrite))
                begin = partial(train, before=take_folder)
                results.append(carry_out(task_type, over, callbacks, resume_command, begin))
            else:
                was = ": was done before" if is_done(run) else ""
                say(f"{run.name}, {number} of {len(runs)}{was}")
                results.append(finish(task_type, run, callbacks, resume_command, train))
            drop_worse(runs, results)
        return conclude(folder, settings, kind, runs, results)


def choices_of(settings: FinetuneSettings) -> dict[str, Any] | None:
    """Return how the runs of a series compute; None on a GPU."""
    device = select_device(settings.device)
    if device.type != "cpu":
        return None
    with compute_settings(device, settings.threads):
        return asdict(compute_choices(select_precision(settings.precision, device)))


def runs_of(
    task_type: type[Task[Any, Any]], settings: FinetuneSettings, kind: Kind
) -> Iterator[Run]:
    """Yield the runs of a series."""
    held_out = settings.train if kind == "fold" else settings.eval
    alone = replace(settings, eval=held_out, seeds=None, folds=None, resume=False, overwrite=False)
    names = run_names(vars(settings), kind)
    runs = [replace(alone, out=RunFolder(settings.out).runs_dir / name) for name in names]
    if kind == "seed":
        for seed, (name, run) in enumerate(zip(names, runs, strict=True), start=settings.seed):
            yield Run(name, replace(run, seed=seed))
        return
    dataset = task_type.read(replace(alone, eval_limit=settings.limit))
    parts = split(dataset, len(names), settings.seed)
    yield from map(Run, names, runs, parts)


def split(dataset: TaskDataset[Any], num_folds: int, seed: int) -> list[TaskDataset[Any]]:
    """Divide the examples into folds with equal shares of each `Task.fold_stratum`.

    Returns a `TaskDataset` per fold, which holds out that fold. Examples of one unit
    (`Task.fold_group`), such as those with the same text, stay in one fold.

    Raises:
        ConfigError: fewer units than folds.
    """
    examples = dataset.train
    units = units_of(dataset, seed)
    if len(units) < num_folds:
        raise ConfigError(
            f"--folds: found {num_folds}; with {len(units)} different examples allowed is 2 to "
            f"{len(units)}."
        )
    strata = [str(dataset.task.fold_stratum(example)) for example in examples]
    fold_of = deal(units, strata, num_folds)
    return [
        replace(
            dataset,
            train=[example for i, example in enumerate(examples) if fold_of[i] != fold],
            held_out=[example for i, example in enumerate(examples) if fold_of[i] == fold],
        )
        for fold in range(num_folds)
    ]


def units_of(dataset: TaskDataset[Any], seed: int) -> list[list[int]]:
    """Group the indices of training examples by unit, in random order."""
    units: dict[Any, list[int]] = {}
    for place in np.random.default_rng(seed).permutation(len(dataset.train)).tolist():
        units.setdefault(dataset.task.fold_group(dataset.train[place]), []).append(place)
    return list(units.values())


def deal(units: Sequence[list[int]], strata: Sequence[str], num_folds: int) -> dict[int, int]:
    """Assign each index to a fold, so that strata are balanced.

    A unit goes to the fold that has least of its stratum so far; large units go first, so that
    small ones balance them.
    """
    fold_of: dict[int, int] = {}
    of_stratum = [Counter[str]() for _ in range(num_folds)]
    for unit in sorted(units, key=lambda unit: (strata[unit[0]], -len(unit))):
        stratum = strata[unit[0]]
        fold = min(
            range(num_folds),
            key=lambda fold: (of_stratum[fold][stratum], of_stratum[fold].total()),
        )
        of_stratum[fold].update(strata[place] for place in unit)
        fold_of.update(dict.fromkeys(unit, fold))
    return fold_of


def describe(settings: FinetuneSettings, kind: Kind) -> dict[str, Any]:
    """Build a series' entry in `run.json`: settings and hashes of its files."""
    plan = {name: value for name, value in to_jsonable(settings).items() if name not in CHANGING}
    # In place of threads, which change results only by the division of steps.
    plan["num_parts"] = count_parts(settings)
    files = [path for path in (settings.train, settings.eval) if path.is_file()]
    return {"series": plan, "kind": kind, "files": {str(file): sha256_file(file) for file in files}}


def check_series(folder: RunFolder, settings: FinetuneSettings, series: Mapping[str, Any]) -> None:
    """Check that a series can begin, or resume, in the folder."""
    check_out(settings)
    if settings.resume:
        check_same(folder, series)
        return
    earlier = folder.series_runs()
    for name in run_names(series["series"], series["kind"]):
        if (path := folder.runs_dir / name).exists() and path not in earlier:
            raise ConfigError(
                f"{path}: stands where a run of this series would be, and {folder.run_path} knows "
                "nothing of it. Choose another --out, or remove it."
            )


def check_same(folder: RunFolder, series: Mapping[str, Any]) -> None:
    """Refuse to resume a series with other settings or examples."""
    run, plan = folder.read_run(), series["series"]
    before = run["series"]
    differing = [name for name in plan if before.get(name) != plan[name]]
    if differing == ["num_parts"]:
        raise ConfigError(
            f"{folder.path}: cannot be resumed with other --threads: each step was divided "
            f"into {before.get('num_parts')} parts, and would now be divided into "
            f"{plan['num_parts']}. Give the same --threads, or begin a new series in another "
            "--out."
        )
    if differing:
        raise ConfigError(
            f"{folder.path}: cannot be resumed with another {', '.join(differing)}. Give the "
            "same settings, or begin a new series in another --out."
        )
    for file, digest in series["files"].items():
        if run.get("files", {}).get(file, digest) != digest:
            raise ConfigError(
                f"{folder.path}: cannot be resumed, as {file} holds something else than when the "
                "series began. Restore it, or begin a new series in another --out."
            )


def is_done(run: Run) -> bool:
    """Return whether a run has been scored."""
    folder = RunFolder(run.settings.out)
    return folder.run_path.exists() and "result" in folder.read_run()


def finish(
    task_type: type[Task[Any, Any]],
    run: Run,
    callbacks: Sequence[Callback],
    resume_command: str,
    train: Train = finetune,
) -> dict[str, Any]:
    """Return the result of a run, after completing it if necessary."""
    folder = RunFolder(run.settings.out)
    if is_done(run):
        result: dict[str, Any] = folder.read_run()["result"]
        return result
    if folder.run_path.exists():
        run = replace(run, settings=replace(run.settings, resume=True))
    return carry_out(task_type, run, callbacks, resume_command, train)


def carry_out(
    task_type: type[Task[Any, Any]],
    run: Run,
    callbacks: Sequence[Callback],
    resume_command: str,
    train: Train,
) -> dict[str, Any]:
    """Train, and return the result as plain JSON."""
    result = train(task_type, run.settings, callbacks, resume_command, dataset=run.dataset)
    return dict(json.loads(json.dumps(result.to_json())))


def drop_worse(runs: Sequence[Run], results: Sequence[dict[str, Any]]) -> None:
    """Delete the weights of all runs so far but the best."""
    best = best_of(results)
    for place in range(len(results)):
        if place != best:
            (runs[place].settings.out / WEIGHTS).unlink(missing_ok=True)


def best_of(results: Sequence[dict[str, Any]]) -> int:
    """Return the index of the best score; the first of equals."""
    return max(range(len(results)), key=lambda place: (results[place]["best_score"], -place))


def conclude(
    folder: RunFolder,
    settings: FinetuneSettings,
    kind: Kind,
    runs: Sequence[Run],
    results: Sequence[dict[str, Any]],
) -> Repeats:
    """Move the best model to the series' folder; write the result."""
    best = best_of(results)
    source = runs[best].settings.out
    for path in source.iterdir():
        if path.is_file() and path.name not in (folder.run_path.name, WEIGHTS):
            shutil.copy2(path, folder.path / path.name)
        elif path.is_dir() and path.name != "checkpoints":
            shutil.copytree(path, folder.path / path.name, dirs_exist_ok=True)
    if (source / WEIGHTS).exists():  # else they were moved, and a stop came in between
        (source / WEIGHTS).replace(folder.path / WEIGHTS)
    repeats = Repeats(
        out=settings.out,
        kind=kind,
        names=tuple(run.name for run in runs),
        best=runs[best].name,
        metric=settings.figure,
        figures=spreads([result["evaluation"] for result in results]),
        results=tuple(results),
    )
    write_json(folder.repeats_path, repeats.to_json())
    folder.write_run({**folder.read_run(), "summary": repeats.to_json()})
    folder.finish()
    return repeats


def spreads(evaluations: Sequence[dict[str, Any]]) -> dict[str, Spread]:
    """Compute mean and deviation of every score that all evaluations have.

    A score that is unbounded in one of them, such as a threshold, is left out.
    """
    names = [
        name
        for name in evaluations[0]
        if all(isinstance(e.get(name), float) and abs(e[name]) < ENDLESS for e in evaluations)
    ]
    columns = {name: [evaluation[name] for evaluation in evaluations] for name in names}
    return {
        name: Spread(statistics.fmean(values), statistics.stdev(values) if values[1:] else 0.0)
        for name, values in columns.items()
    }
