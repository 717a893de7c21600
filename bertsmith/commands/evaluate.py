"""`bertsmith evaluate`: a model and labelled data, or minimal pairs → its scores."""

import json as json_module
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

import tyro

from bertsmith.commands.flags import tell
from bertsmith.commands.task_flags import load_as_told, parse_for_folder
from bertsmith.config import to_jsonable
from bertsmith.data.text_files import place_name
from bertsmith.data.unknown_tokens import tell_unknown
from bertsmith.data.windowing import LongTexts
from bertsmith.errors import ConfigError
from bertsmith.evaluation.errors_file import write_misses
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.minimal_pairs import (
    PairCallback,
    evaluate_minimal_pairs,
    load_pair_scorer,
)
from bertsmith.evaluation.page import ErrorSurvey, write_evaluation_page
from bertsmith.evaluation.stored_majority import StoredMajority
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.compute import Advanced, InferenceCompute
from bertsmith.system.files import atomic_write, hold_outputs
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.minimal_pairs import MinimalPair, PairScores
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.predictor import OutcomeCallback, Predictor
from bertsmith.tasks.scoring import Evaluation
from bertsmith.tasks.task import Task


@dataclass(frozen=True)
class Settings(InferenceCompute):
    """Score a fine-tuned model on labelled data, or a pre-trained one on minimal pairs.

    The folder tells which task the model was trained for. Of a classifier, for example, you see the
    share of right labels (accuracy), the mean F1 of the classes (macro-F1), how well each class was
    recognized, and which classes were taken for which (confusion matrix).
    """

    model: tyro.conf.Positional[Path]
    """Folder of a fine-tuned model; with --minimal-pairs of a pre-trained one."""
    data: Annotated[
        Path | None, tyro.conf.arg(help_behavior_hint="(required without --minimal-pairs)")
    ] = None
    """Labelled examples: .csv, .tsv or .jsonl, also as .gz, .xz or .zst; or what the task was
    trained with."""
    minimal_pairs: Path | None = None
    """Minimal pairs, in place of --data: a file such as BLiMP's (.jsonl, .csv or .tsv) with a
    grammatical sentence (sentence_good) and an ungrammatical one (sentence_bad) in each row. You
    see how often the model finds the first likelier, by pseudo-log-likelihood: the sum of the
    log-probabilities of the tokens, each masked in turn. Columns UID, linguistics_term and field
    give accuracies by group."""
    limit: int | None = None
    """Number of rows to take, from the first; of minimal pairs, from the first of each UID. Pairs
    of texts without scores are evaluated by search, which holds a vector of each text and compares
    every one with all: ten times as many rows take ten times the memory and a hundred times the
    comparisons."""
    max_length: int | None = None
    """Maximum length of texts in tokens. Default: as in training."""
    long_texts: Advanced[LongTexts | None] = None
    """Long texts, above the maximum length: read in windows that overlap (window), or cut. Default:
    as in training."""
    stride: Advanced[int | None] = None
    """Stride: the number of tokens that neighbouring windows share. Default: as in training."""
    label_separator: Advanced[str | None] = None
    """Separator between the labels of a text in --data, where the model gives several. Default: as
    in training."""
    errors: Path | None = None
    """Errors file, .jsonl or .csv, for every wrong answer: text, right answer, the model's, and how
    sure it was; the most confident first. Where answers are numbers (regress, embed), it has the
    100 rows that are farthest off, the farthest first."""
    scores: Path | None = None
    """File of minimal pairs (.jsonl), each with the scores of both sentences."""
    page: Path | None = None
    """HTML page to write: scores, confusion matrix, wrong answers with the words that decided,
    calibration, score by length."""
    json: bool = False
    """Print one JSON object instead of text."""

    columns: tyro.conf.Suppress[Any] = None
    """Columns of the file."""


def main(args: Sequence[str], prog: str) -> None:
    """Score and print, then write the page.

    Scores are seen even if the page cannot be written.
    """
    settings, folder = parse_for_folder(Settings, args, prog)
    check_flags(settings)
    model = folder or settings.model
    outputs = {
        "--errors": settings.errors,
        "--page": settings.page,
        "--scores": settings.scores,
    }
    with hold_outputs(outputs, settings.data or settings.minimal_pairs):
        if settings.data is not None:
            measure(settings, model, settings.data)
        elif settings.minimal_pairs is not None:
            measure_pairs(settings, model, settings.minimal_pairs)


def check_flags(settings: Settings) -> None:
    """Raise ConfigError unless there is one file, with flags that apply to it."""
    are_pairs = settings.minimal_pairs is not None
    if are_pairs == bool(settings.data):
        raise ConfigError(
            f"Give {'only one of them' if are_pairs else 'one of them'}: --data FILE to score a "
            "fine-tuned model, or --minimal-pairs FILE for a pre-trained one."
        )
    flag, names = "--data", ["scores"]
    if are_pairs:
        flag = "--minimal-pairs"
        names = ["long_texts", "stride", "label_separator", "errors", "page"]
    unfit = [name for name in names if getattr(settings, name) is not None]
    if are_pairs and getattr(settings.columns, "label_column", None):
        unfit.append("label_column")
    if unfit:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in unfit)
        verb = "have" if len(unfit) > 1 else "has"
        raise ConfigError(f"{given} {verb} no effect with {flag}. Leave out {given}.")
    if settings.scores and settings.scores.suffix != ".jsonl":
        raise ConfigError(
            f"--scores: found '{settings.scores}'; allowed are names that end in .jsonl."
        )


def measure_pairs(settings: Settings, model: Path | ModelFolder, path: Path) -> None:
    scorer = load_pair_scorer(
        model,
        device=settings.device,
        precision=settings.precision,
        max_length=settings.max_length,
    )
    tell(scorer.loaded.precision_note)
    with ExitStack() as stack:
        callbacks: list[PairCallback] = []
        if settings.scores is not None:
            file = stack.enter_context(atomic_write(settings.scores, "w"))
            callbacks.append(partial(write_scores, file))
        result = evaluate_minimal_pairs(
            scorer, path, settings.columns, limit=settings.limit, callbacks=callbacks
        )
    print_result(settings, scorer, result, path, {})


def print_result(
    settings: Settings,
    predictor: Predictor[Any],
    result: Evaluation,
    path: Path,
    more: Mapping[str, float],
    baselines: Sequence[Baseline] = (),
) -> None:
    """Print the result, and beside it the share of unknown tokens."""
    unknown_rate = predictor.unknown_tokens.rate
    report = {**result.to_json(), "unknown_rate": unknown_rate, **more}
    tell_unknown(unknown_rate, place_name(path))
    if settings.json:
        if baselines:
            report["baselines"] = to_jsonable(baselines)
        print(json_module.dumps(report))
        return
    scores, blank_line, details = str(result).partition("\n\n")
    print("\n".join([scores, *map(str, baselines)]) + blank_line + details)


def write_scores(file: IO[str], pairs: Sequence[MinimalPair], scores: Sequence[PairScores]) -> None:
    for pair, score in zip(pairs, scores, strict=True):
        row = pair.to_json() | score.to_json()
        file.write(json_module.dumps(row, ensure_ascii=False) + "\n")


def measure(settings: Settings, model: Path | ModelFolder, data: Path) -> None:
    predictor = load_as_told(settings, model)
    predictor = predictor.with_definition(
        with_separator(predictor.definition, settings.label_separator)
    )
    survey = ErrorSurvey()
    majority = StoredMajority(predictor.definition, predictor.loaded.folder.run)
    callbacks: list[OutcomeCallback] = [survey, majority]
    with ExitStack() as stack:
        if settings.errors is not None:
            callbacks.append(stack.enter_context(write_misses(settings.errors)))
        result = evaluate(
            predictor, data, settings.columns, limit=settings.limit, callbacks=callbacks
        )
    more = {}
    if survey.calibration.num_predictions:
        more["expected_calibration_error"] = survey.calibration.error
    print_result(settings, predictor, result, data, more, majority.baselines())
    if settings.page is not None:
        write_evaluation_page(
            settings.page,
            predictor,
            survey,
            result,
            majority.baselines(),
            model=settings.model,
            data=data,
        )


def with_separator(task: Task[Any, Any], separator: str | None) -> Task[Any, Any]:
    """Return a copy that reads several labels between separators of the data's own, if given.

    Raises:
        ConfigError: the model does not give a text several labels, or the separator is empty.
    """
    if separator is None:
        return task
    if not isinstance(task, MultiLabel):
        raise ConfigError(
            f"--label-separator: found '{separator}', but this model does not give a text "
            "several labels. Leave it out."
        )
    if not separator:
        raise ConfigError("--label-separator: found ''; allowed is text, such as ','. Give one.")
    return replace(task, label_separator=separator)
