"""A series of fine-tuning runs, over seeds or over folds of the data.

Scores depend on chance: on the initial weights of the head, the order of the examples, and the
choice of those that are held out. So a series reports mean and standard deviation over several
runs, and keeps the best model. Each run has its own folder inside that of the series, and a stopped
series can be resumed.
"""

import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from bertsmith.config import to_jsonable
from bertsmith.errors import ConfigError, ExamplesError, option
from bertsmith.finetuning.averaging import is_averaged, move_members, score_average
from bertsmith.finetuning.folds import split
from bertsmith.finetuning.head_choice import HeadChoice
from bertsmith.finetuning.linear_member import (
    check_linear_member,
    fit_linear_member,
    has_linear_member,
)
from bertsmith.finetuning.notes import NOTES, notes_on
from bertsmith.finetuning.prepared_run import START_NOTE
from bertsmith.finetuning.resolve import sum_weights
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.run_files import check_run_out, file_sums
from bertsmith.finetuning.unlabelled_texts import UnlabelledTexts
from bertsmith.metrics.answers import INFINITE_SCORE
from bertsmith.metrics.names import format_score, score_name
from bertsmith.model.hub import CARD_FILE, find_checkpoint
from bertsmith.system.counts import count_noun
from bertsmith.system.files import write_json
from bertsmith.system.progress import WHOLE_SECONDS, Bar, progress_bar
from bertsmith.system.terminal import Say
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import Task, TaskDataset
from bertsmith.training.callback import Callback
from bertsmith.training.machine import computing_on
from bertsmith.training.model_card import write_card
from bertsmith.training.run_config import check_same, drop_none, same_fields
from bertsmith.training.run_folder import CONFIG, RunFolder, run_names
from bertsmith.training.run_machine import note_choices
from bertsmith.training.run_progress import RunProgress
from bertsmith.training.write_errors import naming_the_run

Kind = Literal["seed", "fold"]
Train = Callable[..., Any]
"""`finetune`, or another function with its arguments, whose result has the same fields."""

WEIGHTS = "model.safetensors"
"""File of a run with the weights, which are removed if the run is not the best."""
BEST_SCORE = "best_score"
"""Key, in the result of a run, of the score by which the run chose its weights."""
LINEAR_PART = "linear head"
"""Name in reports of the linear head that is a part of an average."""
MAX_RARE_LABELS = 8
"""Largest number of rare labels that a remark names."""


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (n - 1) of a score."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class SeriesResult:
    """The results of a series' runs, and the spread of their scores.

    Attributes:
        names: the names of the runs, in the order of `results`.
        best: the name of the run with the best score.
        metric: the name of the score by which runs are compared, such as accuracy.
        figures: the mean and deviation of each score, by its name; empty without eval examples.
        results: the result of each run as plain JSON.
    """

    out: Path
    kind: Kind
    names: tuple[str, ...]
    best: str
    metric: str
    figures: dict[str, Spread]
    results: tuple[dict[str, Any], ...]
    average: dict[str, Any] | None = None
    """Scores of the mean of all probabilities, without eval examples an empty dict; None if only
    the best model is kept."""
    linear_head: dict[str, Any] | None = None
    """Scores of the linear head that is a part of the average, without eval examples an empty dict;
    None if there is no such head."""
    choice: HeadChoice | None = None
    """The heads among which `--head auto` chose this average; None if the user asked for it."""

    def to_json(self) -> dict[str, Any]:
        return drop_none(to_jsonable(self))

    def with_notes(self, convert: Callable[[str], str]) -> Self:
        """Return a copy whose remarks on the runs are changed by `convert`."""
        results = tuple(
            {
                **result,
                "notes": [convert(note) for note in result["notes"]],
                START_NOTE: convert(result.get(START_NOTE, "")),
            }
            for result in self.results
        )
        return replace(self, results=results)

    def _score_line(self, name: str, scores: Mapping[str, Any], width: int) -> str:
        """Name a model and its score `metric`; without eval examples only the model.

        If the report of the model lacks this score, the line has the score that chose its weights.
        """
        score = scores.get(self.metric, scores.get(BEST_SCORE))
        if score is None:
            return name
        return f"{name:<{width}}  {score_name(self.metric)} {format_score(self.metric, score)}"

    def __str__(self) -> str:
        titles = {name: score_name(name) for name in self.figures}
        parts = () if self.linear_head is None else (LINEAR_PART,)
        width = max(len(name) for name in (*titles.values(), *self.names, *parts))
        lines = [
            f"{titles[name]:<{width}}  {format_score(name, spread.mean)} ± "
            f"{format_score(name, spread.deviation)}"
            for name, spread in self.figures.items()
        ]
        if lines:
            lines.append("")
        for name, result in zip(self.names, self.results, strict=True):
            scores = {BEST_SCORE: result.get(BEST_SCORE), **result["evaluation"]}
            mark = "   <- kept" if name == self.best and self.average is None else ""
            lines.append(f"{self._score_line(name, scores, width)}{mark}")
        location = f"model of the best in {self.out}"
        if self.average is not None:
            location = f"all models in {self.out}"
            lines += self._lines_on_average(self.average, width)
        spread = ", mean ± standard deviation" if self.figures else ""
        title = f"{len(self.names)} {self.kind}s{spread}; {location}"
        choice = [] if self.choice is None else [str(self.choice)]
        return "\n".join([*choice, title, *_notes_on_runs(self.results), "", *lines])

    def _lines_on_average(self, average: Mapping[str, Any], width: int) -> list[str]:
        """Return the lines on the linear head and the average, and on what the average costs."""
        lines = []
        num_models = len(self.names)
        models = f"of {num_models} models"
        if self.linear_head is not None:
            lines.append(self._score_line(LINEAR_PART, self.linear_head, width))
            models = f"of {num_models} fine-tuned models and of a linear head, which has half of "
            models += "the weight"
            num_models += 1
        return [
            *lines,
            f"{self._score_line('average', average, width)}   <- kept",
            "",
            f"average: the mean of the probabilities {models}; predictions take {num_models} times "
            "as long as those of one model",
        ]


def _notes_on_runs(results: Sequence[dict[str, Any]]) -> list[str]:
    """List notes on all runs together; counts are sums over the runs."""
    # `NOTES` has the sentence for each count of a result, such as `num_train_skipped`. `notes_on`
    # reads the counts and three other fields of a result, as if the totals were those of one run.
    totals: dict[str, Any] = {name: sum(result[name] for result in results) for name in NOTES}
    totals["start_note"] = results[0].get(START_NOTE, "")
    if not results[0]["evaluation"]:  # no run has eval examples
        totals["evaluation"] = None
    totals["notes"] = list(dict.fromkeys(note for result in results for note in result["notes"]))
    notes = notes_on(totals)
    if any(totals[name] for name in NOTES):
        notes.insert(0, f"counted over all {len(results)} runs:")
    return notes


@dataclass(frozen=True)
class SeriesRun:
    """One run of a series; `dataset` is None if the run reads its files itself."""

    name: str
    task_type: type[Task[Any, Any]]
    settings: FinetuneSettings
    dataset: TaskDataset[Any] | None = None

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.settings.out)

    @property
    def is_done(self) -> bool:
        """Whether the run has been scored."""
        return self.folder.run_path.exists() and "result" in self.folder.read_run()


def _best_score(run: SeriesRun) -> float:
    """Return the score by which a complete run chose its weights.

    Without eval examples there is none, and all runs count as equally good.
    """
    return run.folder.read_run()["result"].get(BEST_SCORE, 0.0)


@dataclass(frozen=True)
class RunSeries:
    """Trainer of several runs; only the best run keeps its weights, unless `keeps_all`.

    `say` receives a line at the beginning of each run. `train` is the function that trains a model.
    """

    callbacks: Sequence[Callback] = ()
    resume_command: str = "the same call with resume=True"
    say: Say = lambda line: None
    train: Train = finetune
    keeps_all: bool = False

    def run(
        self,
        runs: Sequence[SeriesRun],
        bar: Bar,
        *,
        amount: float = 1.0,
        begin: Callable[[], object] | None = None,
        after: Callable[[SeriesRun], object] = lambda run: None,
        score: Callable[[SeriesRun], float] = _best_score,
    ) -> list[dict[str, Any]]:
        """Finish all runs and return their results.

        Args:
            bar: shows the progress of all runs.
            amount: the work of one run, in the unit of the bar.
            begin: for a new series, the function that locks and clears its folder. It is called
                once the input of the first run is checked, and before anything is written. None if
                the series is resumed, or needs no such function.
            after: called with each complete run, while the run still has its weights.
            score: returns the score by which runs are compared; called after `after`.
        """
        results: list[dict[str, Any]] = []
        best: SeriesRun | None = None
        for number, run in enumerate(runs, start=1):
            # What lies in the folder of a new series' first run is of an earlier series.
            is_new = begin is not None and number == 1
            was_done = run.is_done and not is_new
            remark = ": was done before" if was_done else ""
            self.say(f"{run.name}, {number} of {len(runs)}{remark}")
            progress = RunProgress(bar, 0.0 if was_done else amount)
            results.append(self.finish(run, begin if is_new else None, [progress]))
            after(run)
            progress.end()
            if best is None:
                best = run
                continue
            worse = run
            if score(run) > score(best):
                best, worse = run, best
            if not self.keeps_all:
                (worse.settings.out / WEIGHTS).unlink(missing_ok=True)
        return results

    def finish(
        self,
        run: SeriesRun,
        begin: Callable[[], object] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> dict[str, Any]:
        """Complete a run if necessary, and return its result as plain JSON.

        With `begin`, the run is trained even if its folder has a complete run: one of an earlier
        series, which `begin` removes.
        """
        if begin is not None or not run.is_done:
            is_begun = begin is None and run.folder.run_path.exists()
            self.train(
                run.task_type,
                replace(run.settings, resume=is_begun),
                (*self.callbacks, *callbacks),
                self.resume_command,
                dataset=run.dataset,
                begin_series=begin,
            )
        return run.folder.read_run()["result"]


def finetune_repeatedly(
    task_type: type[Task[Any, Any]],
    settings: FinetuneSettings,
    callbacks: Sequence[Callback] = (),
    resume_command: str = "the same call with resume=True",
    say: Say = lambda line: None,
    *,
    train: Train = finetune,
    dataset: TaskDataset[Any] | None = None,
    unlabelled: UnlabelledTexts | None = None,
) -> SeriesResult:
    """Fine-tune with several seeds or folds, and keep the best model.

    Earlier contents of the folder are kept until the first run has checked all its input.

    Args:
        train: the function that trains each model.
        dataset: the examples; by default those of the settings' files. Folds are always taken from
            the file.
        unlabelled: the texts of the settings' corpus, if they have been read before.

    Raises:
        ConfigError: the series to resume has other settings; or as `finetune`.
    """
    check_run_out(settings)
    if has_linear_member(settings):
        check_linear_member(settings, dataset or task_type.read(settings))
    folder = RunFolder(settings.out)
    kind: Kind = "seed" if settings.seeds is not None else "fold"
    resumed = folder if settings.resume else None
    # `stack` holds the lock of the folder from the call of `lock_folder` to the end of the block.
    with (
        computing_on(settings, resumed) as machine,
        naming_the_run(folder, resume_command),
        ExitStack() as stack,
    ):
        runs = list(_plan_runs(task_type, settings, dataset, kind, say))
        # With a teacher, `train` is another function, and all models have the teacher's labels.
        are_samples = settings.sample is not None and dataset is None
        if is_averaged(settings) and are_samples and train is finetune:
            _check_labels_of_samples(runs)
        facts = _describe(settings, kind)
        _check_series(folder, settings, facts)

        def lock_folder() -> None:
            # `held` calls the check again once it has the lock: another process may have used the
            # folder in the meantime.
            stack.enter_context(folder.held(lambda: _check_series(folder, settings, facts)))
            if not settings.resume:
                folder.begin()
                # With the choices, such as the precision, a resumed series computes the same.
                folder.write_run(facts | note_choices(machine.device, machine.precision))

        if settings.resume:
            lock_folder()
        pending = [run for run in runs if not (settings.resume and run.is_done)]
        with progress_bar("all runs", len(pending), interval=WHOLE_SECONDS) as bar:
            keeps_all = is_averaged(settings)
            series = RunSeries(callbacks, resume_command, say, train, keeps_all=keeps_all)
            results = series.run(runs, bar, begin=None if settings.resume else lock_folder)
        return _write_result(
            folder, task_type, settings, kind, runs, results, dataset=dataset, unlabelled=unlabelled
        )


def _plan_runs(
    task_type: type[Task[Any, Any]],
    settings: FinetuneSettings,
    dataset: TaskDataset[Any] | None,
    kind: Kind,
    say: Say,
) -> Iterator[SeriesRun]:
    """List the runs of a series; for folds, read the file of examples and divide it."""
    held_out = settings.train if kind == "fold" else settings.eval
    one_run = replace(settings.for_one_run(), eval=held_out)
    # The names, such as seed-0 or fold-1, follow from the number of seeds or folds. `run_names`
    # reads it from the settings in the form that run.json stores.
    names = run_names(same_fields(settings), kind)
    runs = [replace(one_run, out=RunFolder(settings.out).runs_dir / name) for name in names]
    if kind == "seed":
        for seed, (name, run) in enumerate(zip(names, runs, strict=True), start=settings.seed):
            yield SeriesRun(name, task_type, replace(run, seed=seed), dataset)
        return
    dataset = task_type.read(one_run, sources=(settings.train, None))  # None: no eval examples
    folds = split(dataset, len(names), settings.seed)
    _check_folds(folds, settings)
    if note := note_rare_labels(dataset, len(folds)):
        say(note)
    for name, run, fold in zip(names, runs, folds, strict=True):
        yield SeriesRun(name, task_type, run, fold)


def _check_labels_of_samples(runs: Sequence[SeriesRun]) -> None:
    """Check that the samples of all seeds have the same labels, since the models are averaged.

    Raises:
        ConfigError: a sample lacks a label that another one has.
    """
    labels_of_runs = [run.task_type.read(run.settings).task.labels for run in runs]
    all_labels = sorted({label for labels in labels_of_runs for label in labels})
    for run, labels in zip(runs, labels_of_runs, strict=True):
        if missing := [label for label in all_labels if label not in labels]:
            raise ConfigError(
                f"{option('sample', run.settings.sample)}: each seed draws other rows, and those "
                f"of {run.name} lack the label '{missing[0]}', so the models would not have the "
                f"same labels, and {option('average', True)} could not average them. Give a "
                "larger number, or leave it out."
            )


def _check_folds(folds: Sequence[TaskDataset[Any]], settings: FinetuneSettings) -> None:
    """Check that enough examples are left to learn from while each fold is held out.

    Raises:
        ExamplesError: while one of them is held out, too few are left.
    """
    for number, fold in enumerate(folds, start=1):
        try:
            fold.task.check_train(fold.train, settings)
        except ExamplesError as error:
            raise ExamplesError(
                f"{option('folds', len(folds))}: while fold {number} is held out, the other rows "
                f"are not enough to learn from. {error.message}"
            ) from None


def note_rare_labels(dataset: TaskDataset[Any], num_folds: int) -> str | None:
    """Describe the labels with fewer groups of examples than folds; None if there is none.

    The examples of a group, such as those with the same text, stay in one fold (`Task.fold_keys`).
    So some folds have no example of such a rare label to score. A label whose examples are all in
    one group is not learned while that group is held out.
    """
    task = dataset.task
    groups = {
        (label, task.fold_keys(example)[0])
        for example in dataset.train
        for label in task.labels_of(example)
    }
    counts = Counter(label for label, _ in groups)
    rare = sorted(label for label, count in counts.items() if count < num_folds)
    if not rare:
        return None
    shown = ", ".join(f"'{label}' has {counts[label]}" for label in rare[:MAX_RARE_LABELS])
    num_more = len(rare) - MAX_RARE_LABELS
    more = f", and {num_more:,} more have too few" if num_more > 0 else ""
    than_folds = f"fewer {task.group_nouns} than the {num_folds} folds, so some"
    labels_have = count_noun(len(rare), f"label has {than_folds}", f"labels have {than_folds}")
    labels = "it" if len(rare) == 1 else "all of them"
    return f"{labels_have} cannot learn or score {labels}: {shown}{more}"


def _describe(settings: FinetuneSettings, kind: Kind) -> dict[str, Any]:
    """Build a series' entry in `run.json`: settings and hashes of its files."""
    series = {**same_fields(settings), **_weights_of(settings)}
    return {"series": series, "kind": kind, "files": file_sums(settings)}


def _weights_of(settings: FinetuneSettings) -> dict[str, str]:
    """Return the entry of a run's configuration that depends on the model's weights."""
    return {"weights_sha256": sum_weights(settings, find_checkpoint(settings.model))}


def _check_series(folder: RunFolder, settings: FinetuneSettings, series: Mapping[str, Any]) -> None:
    """Check that a series can be resumed, or that a new one replaces only runs of a series.

    Args:
        series: the entries of run.json that `_describe` builds.

    Raises:
        ConfigError: the series cannot be resumed, or a folder that it would replace is no run of an
            earlier series.
    """
    check_run_out(settings)
    if settings.resume:
        run = folder.read_run()
        check_same(folder.path, run["series"], series["series"])
        _check_files(folder.path, run, series["files"])
        return
    earlier = folder.series_runs()
    for name in run_names(series["series"], series["kind"]):
        if (path := folder.runs_dir / name).exists() and path not in earlier:
            raise ConfigError(
                f"{path}: found where a run of this series would be, and {folder.run_path} does "
                f"not list it. Choose another {option('out')}, or remove it."
            )


def _check_files(out: Path, run: Mapping[str, Any], sums: Mapping[str, str]) -> None:
    """Check that the files of examples, with their checksums `sums`, have not changed since."""
    for file, digest in sums.items():
        if run.get("files", {}).get(file, digest) != digest:
            raise ConfigError(
                f"{out}: cannot be resumed: {file} has changed. Restore it, or begin anew in "
                f"another {option('out')}."
            )


def check_finetuned(settings: FinetuneSettings) -> None:
    """Refuse an earlier run in the folder that has other settings."""
    folder = RunFolder(settings.out)
    if not folder.run_path.exists():
        return
    run = folder.read_run()
    expected = same_fields(settings)
    del expected["model"]  # its weights are compared below, since the folder may have been moved
    check_same(folder.path, {name: run["settings"].get(name) for name in expected}, expected)
    weights = _weights_of(settings)
    check_same(folder.path, {name: run[CONFIG].get(name) for name in weights}, weights)
    _check_files(folder.path, run, file_sums(settings))


def _write_result(
    folder: RunFolder,
    task_type: type[Task[Any, Any]],
    settings: FinetuneSettings,
    kind: Kind,
    runs: Sequence[SeriesRun],
    results: Sequence[dict[str, Any]],
    *,
    dataset: TaskDataset[Any] | None,
    unlabelled: UnlabelledTexts | None,
) -> SeriesResult:
    """Move the models that are kept to the folder of the series, and write the result."""
    best = max(runs, key=_best_score)
    # Everything but weights, run.json and card is copied, so that the run stays complete. The
    # folder of the series has a run.json and a card of its own.
    source = best.settings.out
    for path in source.iterdir():
        if path.is_file() and path.name not in (folder.run_path.name, WEIGHTS, CARD_FILE):
            shutil.copy2(path, folder.path / path.name)
        elif path.is_dir() and path.name != "checkpoints":
            shutil.copytree(path, folder.path / path.name, dirs_exist_ok=True)
    if (source / WEIGHTS).exists():  # otherwise an earlier call moved them and was then stopped
        (source / WEIGHTS).replace(folder.path / WEIGHTS)
    average = linear_head = None
    if has_linear_member(settings):
        labels = results[0]["labels"]
        linear_head = fit_linear_member(
            task_type, settings, labels, dataset=dataset, unlabelled=unlabelled
        )
    if is_averaged(settings):
        others = [run.settings.out for run in runs if run is not best]
        move_members(folder.path, others, has_linear=linear_head is not None)
        average = score_average(settings, dataset or task_type.read(settings))
    result = SeriesResult(
        out=settings.out,
        kind=kind,
        names=tuple(run.name for run in runs),
        best=best.name,
        metric=settings.score_key,
        figures=spreads([result["evaluation"] for result in results]),
        results=tuple(results),
        average=average,
        linear_head=linear_head,
    )
    write_json(folder.repeats_path, result.to_json())
    write_card(folder.path, {**RunFolder(source).read_run(), "repeats": result.to_json()})
    folder.write_run({**folder.read_run(), "summary": result.to_json()})
    folder.finish()
    return result


def spreads(evaluations: Sequence[dict[str, Any]]) -> dict[str, Spread]:
    """Compute mean and deviation of every score that all evaluations have.

    A score that is infinite in an evaluation, such as a threshold that no answer reaches, is left
    out.
    """
    result = {}
    for name in evaluations[0]:
        values = [evaluation.get(name) for evaluation in evaluations]
        scores = [value for value in values if isinstance(value, float)]
        if len(scores) == len(values) and all(abs(score) < INFINITE_SCORE for score in scores):
            result[name] = Spread(statistics.fmean(scores), statistics.stdev(scores))
    return result
