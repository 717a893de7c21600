"""`bertsmith glue`: fine-tune a model to every task of the GLUE benchmark, and report the scores.

Each task is trained once per seed, in a run folder of its own. A complete run is not repeated, and
a stopped run resumes from its checkpoint. Models are scored on the development files, and each run
also chooses its best weights by these scores. This is usual, since the benchmark's test labels are
secret.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.config import to_jsonable
from bertsmith.data.columns import Columns
from bertsmith.data.glue import (
    GlueTask,
    GlueTaskFiles,
    Score,
    find_tasks,
    format_similarity,
    iter_test_examples,
    refusing_other_files,
    write_submission,
)
from bertsmith.errors import ConfigError, option
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.glue_settings import GlueSettings
from bertsmith.finetuning.prepared_run import START_NOTE
from bertsmith.finetuning.series import WEIGHTS, RunSeries, SeriesRun, check_finetuned
from bertsmith.metrics.names import score_name
from bertsmith.metrics.spread import spread
from bertsmith.pages.page import write_page
from bertsmith.pages.scale import Scale
from bertsmith.system.compute import Compute
from bertsmith.system.counts import count_noun
from bertsmith.system.files import write_json
from bertsmith.system.hardware import compute_settings
from bertsmith.system.paths import check_outside
from bertsmith.system.progress import WHOLE_SECONDS, progress_bar
from bertsmith.system.terminal import Say, align_columns
from bertsmith.tasks.catalog import task_named
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.training.callback import Callback

EPOCHS = 3.0
"""Number of passes over the examples by default, as in the paper (Devlin et al. 2019, section 4.1).
"""
METRICS = {"CoLA": "matthews_correlation", "STS-B": "pearson"}
"""Metrics by which weights are chosen, by task; for other tasks the accuracy."""
SHARED_SETTINGS = (
    "sample",
    "max_length",
    "steps",
    "batch_size",
    "learning_rate",
    "cls_attention",
    *(field.name for field in fields(Compute)),
)
"""Settings of the benchmark that each run takes over."""


@dataclass(frozen=True)
class GlueRun:
    """A run of one task with one seed.

    `scores` has the official scores by development file. MNLI has the files `MNLI-m` and `MNLI-mm`;
    for other tasks the name is that of the task. Correlations are from -1 to 1, other scores from 0
    to 1.
    """

    task: str
    seed: int
    folder: Path
    scores: dict[str, dict[Score, float]]
    seconds: float
    start_note: str = ""
    """Changes to the loaded weights before training; empty if none."""
    majority: float | None = None
    """Mean score of a method that always gives the most frequent training label; None for numbers.
    """

    @property
    def mean_score(self) -> float:
        """The mean of all scores, which the average over tasks uses."""
        values = [value for scores in self.scores.values() for value in scores.values()]
        return float(np.mean(values))


@dataclass(frozen=True)
class GlueReport:
    """All runs of the benchmark, by the names of their tasks.

    `submissions` are the files of predictions for the benchmark's server; there are none without
    test files.
    """

    out: Path
    runs: dict[str, list[GlueRun]]
    submissions: tuple[Path, ...]

    @property
    def averages(self) -> list[float]:
        """The mean over tasks, for each seed."""
        by_seed = zip(*self.runs.values(), strict=True)
        return [float(np.mean([run.mean_score for run in runs])) for runs in by_seed]

    def to_json(self) -> dict[str, Any]:
        return {
            "tasks": {name: _task_json(runs) for name, runs in self.runs.items()},
            "average": spread(self.averages),
            "submissions": [str(path) for path in self.submissions],
        }

    def __str__(self) -> str:
        num_seeds = len(self.averages)
        rows = [("task", "scores", "mean", "majority class", count_noun(num_seeds, "seed"))]
        for name, runs in self.runs.items():
            mean = _format_spread([run.mean_score for run in runs])
            duration = f"{sum(run.seconds for run in runs):.0f} s"
            rows.append((name, _format_scores(runs), mean, format_majority(runs), duration))
        if len(self.runs) > 1:
            rows.append(("average", "", _format_spread(self.averages), "", ""))
        lines = [*align_columns(rows, str.ljust), ""]
        notes = (run.start_note for runs in self.runs.values() for run in runs if run.start_note)
        lines += list(dict.fromkeys(notes))
        lines.append(
            "scores times 100, on the development files; the best weights were chosen by these "
            "scores, so they are slightly optimistic"
        )
        if self.submissions:
            names = ", ".join(path.name for path in self.submissions)
            lines.append(f"for a submission: {names} in {self.submissions[0].parent}")
        return "\n".join(lines)


def _task_json(runs: Sequence[GlueRun]) -> dict[str, Any]:
    """Return the scores of a task's runs, with mean and deviation over the seeds, as plain JSON."""
    return {
        "figure": spread([run.mean_score for run in runs]),
        "scores": {
            file: {score: spread(values) for score, values in scores.items()}
            for file, scores in _by_score(runs).items()
        },
        "runs": [to_jsonable(asdict(run)) for run in runs],
    }


def run_glue(
    settings: GlueSettings,
    callbacks: Sequence[Callback] = (),
    command: str = "the same command",
    tell: Say = lambda line: None,
) -> GlueReport:
    """Train and score every task found, once per seed.

    Raises:
        InputError: the folder has no task, or a file cannot be read.
        ConfigError: `out` has runs with other settings.
        Interrupted: the user asked to stop; the same call resumes.
    """
    # Refuses an output folder within one of the inputs.
    check_outside(settings.out, settings.model, settings.data)
    all_files = find_tasks(settings.data, settings.tasks)
    # Completes the runs of a task, and removes the weights of all but the best.
    series = RunSeries(callbacks, command, tell)
    runs: dict[str, list[GlueRun]] = {}
    submissions: list[Path] = []
    planned: dict[str, list[SeriesRun]] = {}
    work: dict[str, float] = {}  # of one run of each task, by `_estimate_work`
    total_work = 0.0
    for files_of_task in all_files:
        name = files_of_task.task.name
        planned[name] = list(_plan_runs(settings, files_of_task))
        work[name] = _estimate_work(settings, files_of_task)
        total_work += work[name] * sum(not run.is_done for run in planned[name])
    with (
        progress_bar("all tasks", total_work, interval=WHOLE_SECONDS) as bar,
        refusing_other_files(),
    ):
        for files_of_task in all_files:
            name = files_of_task.task.name
            # Runs that an earlier call has completed must have the same settings.
            for run in planned[name]:
                check_finetuned(run.settings)
            series.run(
                planned[name],
                bar,
                amount=work[name],
                after=partial(_record_scores, files_of_task, tell),
                score=partial(_mean_score, files_of_task.task),
            )
            runs[name] = [read_scores(files_of_task.task, run) for run in planned[name]]
            submissions += _predict_tests(files_of_task, runs[name], settings)
    report = GlueReport(settings.out, runs, tuple(submissions))
    write_json(settings.out / "glue.json", report.to_json())
    write_glue_page(settings.out / "glue.html", settings.model, report)
    return report


def write_glue_page(path: Path, model: Path, report: GlueReport) -> None:
    """Write the report as an HTML page."""
    rows = [
        (
            name,
            _format_scores(runs),
            spread([run.mean_score for run in runs]),
            format_majority(runs),
        )
        for name, runs in report.runs.items()
    ]
    if len(rows) > 1:
        rows.append(("average", "", spread(report.averages), ""))
    write_page(
        path,
        "finetuning/page.html",
        model=str(model),
        num_seeds=len(report.averages),
        rows=rows,
        scale=Scale(0, 1),
    )


def _plan_runs(settings: GlueSettings, files_of_task: GlueTaskFiles) -> Iterator[SeriesRun]:
    """Yield the runs of a task, one for each seed."""
    for seed in range(settings.seeds):
        run_settings = _run_settings(settings, files_of_task, seed)
        yield SeriesRun(
            f"{files_of_task.task.name}, seed {seed}",
            task_named(files_of_task.task.kind),
            run_settings,
        )


def _estimate_work(settings: GlueSettings, files_of_task: GlueTaskFiles) -> float:
    """Estimate the work of a run, relative to those of other tasks, for the progress bar.

    It is the size of the training file; if steps or examples are limited, all tasks are equal.
    """
    is_limited = settings.steps is not None or settings.sample is not None
    return 1.0 if is_limited else files_of_task.train.stat().st_size


def _run_settings(
    settings: GlueSettings, files_of_task: GlueTaskFiles, seed: int
) -> FinetuneSettings:
    """Build the settings of `finetune classify` or `finetune regress` for one run."""
    task = files_of_task.task
    # GLUE's tasks classify or give numbers; both kinds have the setting `sample`.
    has_length = settings.epochs is not None or settings.steps is not None
    settings_of: Any = task_named(task.kind).settings
    return settings_of(
        model=settings.model,
        train=files_of_task.train,
        # Of several development files, the first one chooses the best weights.
        eval=files_of_task.dev_files()[0][0],
        out=settings.out / task.name / f"seed-{seed}",
        columns=task.columns,
        metric=METRICS.get(task.name, "accuracy"),
        epochs=settings.epochs if has_length else EPOCHS,
        seed=seed,
        **{name: getattr(settings, name) for name in SHARED_SETTINGS},
    )


def _record_scores(files_of_task: GlueTaskFiles, tell: Say, run: SeriesRun) -> None:
    """Add the official scores of all development files to `run.json`, unless it has them."""
    facts = run.folder.read_run()
    if "glue" in facts:
        return
    # The run has scored the first file already.
    reports = {files_of_task.dev_files()[0][1]: facts["result"]["evaluation"]}
    for path, name in files_of_task.dev_files()[1:]:
        reports[name] = _score_file(run.settings, path, files_of_task.task.columns)
    scores = {
        name: select_official_scores(files_of_task.task, report) for name, report in reports.items()
    }
    recorded = {
        "scores": scores,
        "seconds": facts["summary"]["elapsed_seconds"],
        START_NOTE: facts["result"][START_NOTE],
        "majority": score_majority(files_of_task.task, facts["result"]),
    }
    run.folder.write_run({**facts, "glue": recorded})
    scored_run = read_scores(files_of_task.task, run)
    tell(f"{run.name}: {_format_scores([scored_run])}, {scored_run.seconds:.0f} s")


def score_majority(task: GlueTask, result: Mapping[str, Any]) -> float | None:
    """Return the mean official score of the majority class; None for a task without classes."""
    rows = [row for row in result.get("baselines", ()) if row["key"] == "majority"]
    if not rows:
        return None
    accuracy = rows[0]["scores"]["accuracy"]
    # F1 of the label 1. If it is the answer, its recall is 1 and its precision is the accuracy;
    # otherwise it is never predicted, and its F1 is 0.
    f1 = 2 * accuracy / (1 + accuracy) if rows[0]["answer"] == "1" else 0.0
    scores = {"accuracy": accuracy, "f1": f1, "matthews_correlation": 0.0}
    return float(np.mean([scores[name] for name in task.scores]))


def format_majority(runs: Sequence[GlueRun]) -> str:
    """Format the mean score of the majority class, times 100; empty for a task without classes."""
    scores = [run.majority for run in runs if run.majority is not None]
    return f"{100 * float(np.mean(scores)):.1f}" if scores else ""


def _mean_score(task: GlueTask, run: SeriesRun) -> float:
    return read_scores(task, run).mean_score


def read_scores(task: GlueTask, run: SeriesRun) -> GlueRun:
    """Read the scores of a complete run from its `run.json`."""
    recorded = run.folder.read_run()["glue"]
    settings = run.settings
    return GlueRun(
        task.name,
        settings.seed,
        settings.out,
        recorded["scores"],
        recorded["seconds"],
        start_note=recorded.get(START_NOTE, ""),
        majority=recorded.get("majority"),
    )


def _score_file(settings: FinetuneSettings, path: Path, columns: Columns) -> dict[str, Any]:
    with compute_settings(settings):
        predictor = load_predictor(
            settings.out, device=settings.device, precision=settings.precision
        )
        return evaluate(predictor, path, columns).to_json()


def select_official_scores(task: GlueTask, report: dict[str, Any]) -> dict[Score, float]:
    """Select the benchmark's official scores from an evaluation."""
    scores = dict(report)
    for class_scores in report.get("classes", ()):
        if class_scores["label"] == "1":
            scores["f1"] = class_scores["f1"]
    return {score: scores[score] for score in task.scores}


def _predict_tests(
    files_of_task: GlueTaskFiles, runs: Sequence[GlueRun], settings: GlueSettings
) -> list[Path]:
    """Predict the test files with the best run, and return the paths of the submissions."""
    best = max(runs, key=lambda run: run.mean_score)
    files = files_of_task.test_files()
    if files and not (best.folder / WEIGHTS).exists():
        raise ConfigError(
            f"{best.folder}: its weights were removed, since another seed was better. Give "
            f"the same {option('seeds')} as before, or another {option('out')}."
        )
    return [
        _predict_test(
            files_of_task.task, best, path, settings.out / "submission" / f"{name}.tsv", settings
        )
        for path, name in files
    ]


def _predict_test(
    task: GlueTask, run: GlueRun, path: Path, out: Path, settings: GlueSettings
) -> Path:
    """Predict a test file and write a submission, unless it is up to date."""
    newest = max(file.stat().st_mtime_ns for file in (path, run.folder / WEIGHTS))
    if out.exists() and out.stat().st_mtime_ns >= newest:
        return out
    with compute_settings(settings):
        predictor = load_predictor(run.folder, device=settings.device, precision=settings.precision)
        pairs = predictor.iter_predictions(iter_test_examples(path, task.test_columns))
        format_answer = format_similarity if task.kind == "regress" else str
        # The label of a test example is its row's index, by which a submission names the row.
        rows = (
            (str(example.label), format_answer(prediction.answer)) for example, prediction in pairs
        )
        write_submission(out, rows)
    return out


def _by_score(runs: Sequence[GlueRun]) -> dict[str, dict[Score, list[float]]]:
    """Return the scores of all runs by file and by name, in the order of the runs."""
    return {
        file: {score: [run.scores[file][score] for run in runs] for score in scores}
        for file, scores in runs[0].scores.items()
    }


def _format_spread(values: Sequence[float]) -> str:
    """Format mean ± standard deviation, times 100."""
    mean_and_sd = spread(values)
    sd = "" if mean_and_sd["sd"] is None else f" ± {100 * mean_and_sd['sd']:.1f}"
    return f"{100 * mean_and_sd['mean']:.1f}{sd}"


def _format_scores(runs: Sequence[GlueRun]) -> str:
    scores_by_file = _by_score(runs)
    shown = []
    for file, scores in scores_by_file.items():
        prefix = f"{file} " if len(scores_by_file) > 1 else ""
        shown += [
            f"{prefix}{score_name(score)} {_format_spread(values)}"
            for score, values in scores.items()
        ]
    return ", ".join(shown)
