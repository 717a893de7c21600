"""The runs of a comparison: each is pre-trained, evaluated, and fine-tuned on the tasks.

    OUT/RECIPE/seed-0/           a run folder of `bertsmith pretrain`
    └── TASK/                    a run folder of `bertsmith finetune`

The weights of a fine-tuned model are removed once it is scored. Complete runs are not
repeated, and stopped runs continue from their checkpoint. A failed run is recorded with its error;
the other runs go on, and the next call tries the failed run again.

All BERTs are evaluated by masked LM on the same held-out rows, the common rows
(comparison/common_eval.py). A recipe may train another system, such as a GPT, which has no masked
LM. Then all models are also evaluated by gaps: each predicts one missing token in windows of
held-out text (comparison/gap_evaluation.py).
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from bertsmith.comparison.common_eval import CommonEvaluation
from bertsmith.comparison.forecast import describe_duration
from bertsmith.comparison.gap_evaluation import (
    GapEvaluation,
    GapGuess,
    fill_gaps,
    read_sentence,
)
from bertsmith.comparison.recipes import AnyRecipe, ComparedTask, Comparison
from bertsmith.config import to_jsonable
from bertsmith.data.corpus import Corpus
from bertsmith.errors import BertsmithError, ConfigError, Interrupted, as_flags, option
from bertsmith.finetuning.series import WEIGHTS, RunSeries, SeriesRun, check_finetuned
from bertsmith.metrics.names import format_score, score_name
from bertsmith.model.bert import BertModel
from bertsmith.model.trainable import TrainableModel
from bertsmith.system.hardware import compute_settings
from bertsmith.system.progress import WHOLE_SECONDS, progress_bar
from bertsmith.system.terminal import Say
from bertsmith.training.callback import Callback
from bertsmith.training.journal import is_held_out, read_journal
from bertsmith.training.objective import Measure
from bertsmith.training.run_folder import RunFolder
from bertsmith.training.run_progress import RunProgress

RESULTS_KEY = "comparison"
"""Key of `run.json` under which the results of a finished run are stored: `figures` (the scores, as
earlier versions called them), `cost`, the number of common `rows`, and what was guessed at gaps."""

REPLACED_TERMS = ("mlm", "lm", "forward", "backward", "span", "rtd")
"""Terms of losses whose accuracies are left out. Common rows replace those of masked LM (mlm); gaps
those of a GPT or LSTM (lm), of an ELMo's two directions and of a T5's spans. Of replaced tokens
(rtd), only `rtd_auc` stays."""
COMMON_PREFIX = "common_"
"""Prefix of metrics on common rows during training, which are left out, too: the finished model is
measured on them anew."""
CURVE_METRICS = ("held_out_common_eval_loss", "held_out_common_gap_bits_per_byte")
"""Keys of the loss on common rows or gaps, of which curves are drawn, in a run's journal, which has
an entry for each evaluation. A run has one of the two."""

FAILURES = (BertsmithError, MemoryError, torch.OutOfMemoryError)
"""Errors that end one run, but not the others; any other error is a fault of bertsmith."""


@dataclass(frozen=True)
class EvalPoint:
    """An evaluation during training: tokens and minutes so far, and the loss on common rows."""

    tokens: int
    minutes: float
    loss: float
    """In nats; or in bits per byte, if systems beside BERT are compared."""


@dataclass
class RunResult:
    """The result of one recipe with one seed."""

    recipe: str
    seed: int
    scores: dict[str, float] = field(default_factory=dict)
    """Metrics by name: of masked LM on the common rows, of the run's other objectives on its own
    eval rows, and of the tasks."""
    cost: dict[str, float] = field(default_factory=dict)
    """Numbers of parameters, steps, tokens and minutes. The first finished run of each recipe also
    has the recipe's peak memory."""
    guesses: list[list[GapGuess]] = field(default_factory=list)
    """The likeliest tokens in the gap of each sentence of the comparison."""
    points: list[EvalPoint] = field(default_factory=list)
    """The evaluations during training, in order."""
    errors: list[str] = field(default_factory=list)
    """Messages of the parts of the run that failed."""

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        # comparison.json keeps the names that earlier versions gave to these two.
        fields["moments"] = fields.pop("points")
        fields["figures"] = fields.pop("scores")
        if not fields["guesses"]:
            del fields["guesses"]
        return fields


@dataclass(frozen=True)
class ComparisonContext:
    """The comparison that several runs belong to, and the callbacks that follow them."""

    comparison: Comparison
    callbacks: Sequence[Callback]
    command: str
    """The command line that continues a stopped comparison."""
    log: Say
    """Shows a line to the user."""

    def common_eval(self, num_rows: int, *, paired: bool = False) -> CommonEvaluation:
        held_out = Corpus.open(self.comparison.settings.corpus, "held_out")
        return CommonEvaluation(held_out, self.comparison.max_length, num_rows, paired)

    def gap_eval(self, num_rows: int) -> GapEvaluation:
        held_out = Corpus.open(self.comparison.settings.corpus, "held_out")
        return GapEvaluation(held_out, self.comparison.max_length, num_rows)

    def curve_measure(self) -> Measure:
        """Return the function that computes the metrics of each evaluation during training."""
        num_rows = self.comparison.eval_rows
        if self.comparison.has_other_systems:
            gaps = self.gap_eval(num_rows)
            return lambda model: add_prefix("held_out_common_", gaps(model))
        common = self.common_eval(num_rows)
        return lambda model: add_prefix("held_out_common_eval_", common(model))


def run_all(context: ComparisonContext) -> list[RunResult]:
    """Run every recipe with every seed and return the results, sorted by recipe and seed.

    All recipes run with the first seed, then with the next one. So a comparison that is stopped
    early has runs of each recipe.

    Raises:
        ConfigError: a folder holds a run with other settings.
        Interrupted: the user asked to stop; the same call continues where it stopped.
    """
    comparison = context.comparison
    runs = [(recipe, seed) for seed in range(comparison.num_seeds) for recipe in comparison.recipes]
    for recipe, seed in runs:
        _check_earlier(comparison, recipe, seed)
    pending = [run for run in runs if not _is_complete(comparison, *run)]
    if pending:
        context.log(describe_duration([recipe for recipe, _ in pending], len(comparison.tasks)))
    results = []
    with progress_bar("all runs", len(pending), interval=WHOLE_SECONDS) as bar:
        for number, (recipe, seed) in enumerate(runs, start=1):
            # The bar counts pending runs; a complete one does not move it.
            progress = RunProgress(bar, 1.0 if (recipe, seed) in pending else 0.0)
            results.append(_run_one(context, recipe, seed, f"{number} of {len(runs)}", progress))
            progress.end()
    order = [recipe.name for recipe in comparison.recipes]
    return sorted(results, key=lambda result: (order.index(result.recipe), result.seed))


def _is_complete(comparison: Comparison, recipe: AnyRecipe, seed: int) -> bool:
    folder = RunFolder(comparison.folder(recipe, seed))
    return (
        folder.run_path.exists()
        and RESULTS_KEY in folder.read_run()
        and all(
            # A SeriesRun is one fine-tuning run, which is done once it is scored.
            SeriesRun(task.name, task.task, task.settings_of_run(folder.path, seed)).is_done
            for task in comparison.tasks_of(recipe)
        )
    )


def _run_one(
    context: ComparisonContext, recipe: AnyRecipe, seed: int, position: str, progress: RunProgress
) -> RunResult:
    """Pre-train, evaluate and fine-tune on every task, or read recorded results.

    Args:
        position: the number of the run, such as "3 of 12", for messages.
        progress: moves the bar of all runs by this run's part. It moves only during pre-training,
            which takes most of the time.
    """
    result = RunResult(recipe.name, seed)
    name = f"{recipe.name}, seed {seed} ({position})"
    with _recording_failures(context, result, "pre-training"):
        with_progress = replace(context, callbacks=(*context.callbacks, progress))
        _pretrain_one(with_progress, recipe, seed, name, result)
    if result.errors:
        return result
    for task in context.comparison.tasks_of(recipe):
        with _recording_failures(context, result, task.name):
            result.scores[task.name] = _finetune_one(context, recipe, seed, task, name)
    return result


@contextlib.contextmanager
def _recording_failures(context: ComparisonContext, result: RunResult, part: str) -> Iterator[None]:
    """Record a failure of the block in `result` instead of raising it.

    Args:
        part: the part of the run that the block does, such as "pre-training", for the message.
    """
    try:
        yield
    except Interrupted:
        raise
    except FAILURES as error:
        message = error.message if isinstance(error, BertsmithError) else str(error)
        reason = as_flags(message) or type(error).__name__
        result.errors.append(f"{result.recipe}, seed {result.seed}: {part} failed: {reason}")
        context.log(result.errors[-1])


def _pretrain_one(
    context: ComparisonContext, recipe: AnyRecipe, seed: int, name: str, result: RunResult
) -> None:
    """Finish a pre-training run if needed and add its evaluation to `result`.

    Args:
        name: the run as messages call it: recipe, seed and number.
    """
    comparison = context.comparison
    folder = RunFolder(comparison.folder(recipe, seed))
    seeded = recipe.with_seed(seed)
    stored = folder.read_run().get(RESULTS_KEY) if folder.run_path.exists() else None
    if stored is not None:
        context.log(f"{name}: pre-trained already")
    else:
        context.log(f"{name}: pre-training")
        stored = _train_and_measure(context, seeded, folder)
        folder.write_run({**folder.read_run(), RESULTS_KEY: stored})
        folder.remove_checkpoints()
        scores = _format_scores(stored["figures"])
        context.log(f"{name}: {scores or 'not measured, as no document is held out'}")
    result.scores.update(stored["figures"])
    result.cost.update(stored["cost"])
    result.points.extend(_read_points(folder))
    if stored.get("sentences", []) != list(comparison.sentences):  # changed since the run
        stored = {**stored, **_fill_gaps_anew(comparison, seeded, folder)}
        folder.write_run({**folder.read_run(), RESULTS_KEY: stored})
    for guesses in stored.get("guesses", ()):  # one list for each sentence
        result.guesses.append([GapGuess(**guess) for guess in guesses])


def _train_and_measure(
    context: ComparisonContext, recipe: AnyRecipe, folder: RunFolder
) -> dict[str, Any]:
    """Finish a run's training if needed and return the metrics and the cost of the run.

    The saved model is evaluated in fp32. The rows of a BERT are of one segment, as without next
    sentence prediction, and of two segments, as with it.
    """
    if not folder.is_pretrained:
        recipe.train(folder, context.callbacks, context.command, context.curve_measure())
    summary = folder.read_run()["summary"]
    scores: dict[str, float] = {}
    with compute_settings(recipe.training) as (device, _), torch.inference_mode():
        model = recipe.load(folder.path).to(device)
        if isinstance(model, BertModel):
            for prefix, paired in (("one_segment_", False), ("two_segments_", True)):
                common = context.common_eval(context.comparison.final_rows, paired=paired)
                scores |= add_prefix(prefix, common(model))
        if context.comparison.has_other_systems:
            scores |= context.gap_eval(context.comparison.final_rows)(model)
        guesses = _fill_gaps(context.comparison, model)
    cost = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": summary["steps"],
        "tokens": summary["real_tokens"],
        "minutes": summary["elapsed_seconds"] / 60,
    }
    scores |= objective_scores(summary["held_out"])
    results = {"rows": _common_rows(context.comparison), "figures": scores, "cost": cost}
    return {**results, **guesses} if guesses["sentences"] else results


def _fill_gaps_anew(comparison: Comparison, recipe: AnyRecipe, folder: RunFolder) -> dict[str, Any]:
    """Let a finished model fill the gaps of sentences that were changed after its run."""
    with compute_settings(recipe.training) as (device, _), torch.inference_mode():
        return _fill_gaps(comparison, recipe.load(folder.path).to(device))


def _fill_gaps(comparison: Comparison, model: TrainableModel) -> dict[str, Any]:
    """Return the comparison's sentences, and the likeliest tokens for their gaps, as JSON."""
    tokenizer = Corpus.open(comparison.settings.corpus).tokenizer()
    gaps = [read_sentence(tokenizer, sentence) for sentence in comparison.sentences]
    guesses = fill_gaps(model, tokenizer, gaps)
    return {"sentences": list(comparison.sentences), "guesses": to_jsonable(guesses)}


def add_prefix(prefix: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """Put a prefix before the name of each metric."""
    return {f"{prefix}{name}": value for name, value in metrics.items()}


def _common_rows(comparison: Comparison) -> dict[str, int]:
    """Return the number and length of the final eval rows, as `run.json` stores them."""
    return {"final_rows": comparison.final_rows, "max_length": comparison.max_length}


def objective_scores(held_out: Mapping[str, Any]) -> dict[str, float]:
    """Select the scores of objectives other than masked LM, on the run's own eval rows.

    The scores are accuracies. For replaced tokens the score is the area under the ROC curve: most
    tokens are not replaced, so that always answering "original" would have a high accuracy.
    """
    names = [name.removeprefix("held_out_") for name in held_out]
    replaced = {f"{term}_accuracy" for term in REPLACED_TERMS}
    selected = [
        name
        for name in names
        if name.endswith("_accuracy")
        and name not in replaced
        and not name.startswith(COMMON_PREFIX)
    ]
    selected += [name for name in names if name == "rtd_auc"]
    return {name: held_out[f"held_out_{name}"] for name in selected}


def _read_points(folder: RunFolder) -> list[EvalPoint]:
    """Read the evaluations after the first step from a run's journal."""
    tokens = 0
    points = []
    for entry in read_journal(folder.journal_path):
        tokens += entry.get("real_tokens", 0)
        losses = [entry[name] for name in CURVE_METRICS if name in entry]
        if is_held_out(entry) and tokens and losses:
            points.append(EvalPoint(tokens, entry["elapsed_seconds"] / 60, losses[0]))
    return points


def _finetune_one(
    context: ComparisonContext, recipe: AnyRecipe, seed: int, task: ComparedTask, name: str
) -> float:
    """Return the task's score, after finishing its fine-tuning if needed."""
    settings = task.settings_of_run(context.comparison.folder(recipe, seed), seed)
    run = SeriesRun(f"{name}: {task.name}", task.task, settings)
    context.log(f"{run.name}, scored already" if run.is_done else run.name)
    score = float(RunSeries(context.callbacks, context.command).finish(run)["best_score"])
    (settings.out / WEIGHTS).unlink(missing_ok=True)
    return score


def _check_earlier(comparison: Comparison, recipe: AnyRecipe, seed: int) -> None:
    """Refuse earlier runs in the same folders whose settings differ.

    Raises:
        ConfigError: settings differ; the message names them and the file.
    """
    folder = RunFolder(comparison.folder(recipe, seed))
    if folder.run_path.exists():
        recipe.with_seed(seed).check_earlier(folder)
        _check_rows(folder, comparison)
    for task in comparison.tasks_of(recipe):
        check_finetuned(task.settings_of_run(folder.path, seed))


def _check_rows(folder: RunFolder, comparison: Comparison) -> None:
    """Check that a finished run was measured on the rows, and by the metrics, of this comparison.

    Raises:
        ConfigError: it was not.
    """
    expected = _common_rows(comparison)
    results = folder.read_run().get(RESULTS_KEY, {})
    rows = results.get("rows", expected)
    if rows != expected:
        raise ConfigError(
            f"{folder.run_path}: measured on {rows['final_rows']} rows of {rows['max_length']} "
            f"tokens, but this comparison has {expected['final_rows']} rows of "
            f"{expected['max_length']} (the shortest max_length of all recipes). Choose another "
            f"{option('out')}."
        )
    scores = results.get("figures", {})
    has_gaps = "gap_accuracy" in scores
    # A BERT with a masked-LM head has the metrics of gaps if, and only if, the comparison has
    # another system. Only such a BERT has a loss on rows of one segment.
    if "one_segment_loss" in scores and has_gaps != comparison.has_other_systems:
        raise ConfigError(
            f"{folder.run_path}: measured {'with' if has_gaps else 'without'} systems beside BERT, "
            f"but this comparison has {'none' if has_gaps else 'some'}, so its curve has another "
            f"unit. Choose another {option('out')}."
        )


def _format_scores(scores: Mapping[str, float]) -> str:
    return ", ".join(
        f"{score_name(name)} {format_score(name, value, decimals=3)}"
        for name, value in scores.items()
    )
