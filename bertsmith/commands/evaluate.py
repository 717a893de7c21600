"""`bertsmith evaluate`: score a model.

A fine-tuned model is scored on labelled data, a pre-trained one on minimal pairs.
"""

import json as json_module
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from bertsmith.commands.first_word import find_model, parse_with_columns
from bertsmith.commands.flags import tell
from bertsmith.commands.settings.evaluate import Settings
from bertsmith.commands.task_flags import load_as_told, parse_for_folder
from bertsmith.config import to_jsonable
from bertsmith.data.columns import Columns
from bertsmith.data.tables import check_delimiter
from bertsmith.data.text_files import name_source
from bertsmith.data.unknown_tokens import tell_unknown
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
from bertsmith.lineage.sentence_scores import SentenceScorer, reads_left_to_right
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.files import atomic_write, hold_outputs
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.pair_scores import MinimalPair, PairScores
from bertsmith.tasks.predictor import OutcomeCallback, Predictor
from bertsmith.tasks.scoring import Evaluation
from bertsmith.tasks.task import Task


def main(words: Sequence[str], line: Sequence[str]) -> None:
    """Score, print the scores, then write the page.

    So the scores are printed even if the page cannot be written.
    """
    named = find_model(Settings, words)
    if named is not None and reads_left_to_right(named):
        measure_left_to_right(words, " ".join(line[:2]))
        return
    settings, folder = parse_for_folder(Settings, words, " ".join(line[:2]))
    check_flags(settings)
    model = folder or settings.model
    outputs = {
        "--errors": settings.errors,
        "--page": settings.page,
        "--scores": settings.scores,
    }
    with hold_outputs(outputs, settings.data or settings.minimal_pairs, settings.model):
        if settings.data is not None:
            measure(settings, model, settings.data)
        elif settings.minimal_pairs is not None:
            measure_pairs(settings, model, settings.minimal_pairs)


def check_flags(settings: Settings) -> None:
    """Check that either --data or --minimal-pairs is given, and that the other flags apply to it.

    Raises:
        ConfigError: they are not, or do not.
    """
    are_pairs = settings.minimal_pairs is not None
    if are_pairs == bool(settings.data):
        subject = "Both --data and" if are_pairs else "Neither --data nor"
        raise ConfigError(
            f"{subject} --minimal-pairs is given. Give --data FILE to score a fine-tuned model, or "
            "--minimal-pairs FILE to score a pre-trained one."
        )
    flag = "--data"
    names = ["scores"]
    if are_pairs:
        flag = "--minimal-pairs"
        names = ["long_texts", "stride", "label_separator", "errors", "page"]
    unfit = [name for name in names if getattr(settings, name) is not None]
    if are_pairs and getattr(settings.columns, "label_column", None):
        unfit.append("label_column")
    if unfit:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in unfit)
        verb = "have" if len(unfit) > 1 else "has"
        raise ConfigError(f"{flags} {verb} no effect with {flag}. Leave out {flags}.")
    if settings.scores and settings.scores.suffix != ".jsonl":
        raise ConfigError(f"--scores: the name must end in .jsonl, and is '{settings.scores}'.")


def measure_left_to_right(words: Sequence[str], prog: str) -> None:
    """Score a GPT or LSTM on minimal pairs."""
    settings = parse_with_columns(Settings, Columns, words, prog)
    check_flags(settings)
    if settings.minimal_pairs is None:
        raise ConfigError(
            f"{settings.model}: a model that reads from left to right is scored with "
            "--minimal-pairs FILE. It is not fine-tuned for labels: leave out --data."
        )
    path = settings.minimal_pairs
    check_delimiter(settings.columns, path)
    scorer = SentenceScorer.load(settings.model, settings.device)
    with hold_outputs({"--scores": settings.scores}, path, settings.model), ExitStack() as stack:
        callbacks: list[PairCallback] = []
        if settings.scores is not None:
            file = stack.enter_context(atomic_write(settings.scores, "w"))
            callbacks.append(partial(write_scores, file))
        result = evaluate_minimal_pairs(
            scorer, path, settings.columns, limit=settings.limit, callbacks=callbacks
        )
    unknown_rate = scorer.num_unknown / max(1, scorer.num_tokens)
    tell_unknown(unknown_rate, name_source(path))
    report = {**result.to_json(), "unknown_rate": unknown_rate}
    print(json_module.dumps(report) if settings.json else result)


def measure_pairs(settings: Settings, model: Path | ModelFolder, path: Path) -> None:
    check_delimiter(settings.columns, path)
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
    """Print the result; warn of many unknown tokens."""
    unknown_rate = predictor.unknown_tokens.rate
    report = {**result.to_json(), "unknown_rate": unknown_rate, **more}
    tell_unknown(unknown_rate, name_source(path))
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
    check_delimiter(settings.columns, data)
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
    """Return a copy of the task that splits labels at `separator`; None leaves the task as it is.

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
        raise ConfigError(
            "--label-separator: found an empty text. Give the text between two labels, such as ','."
        )
    return replace(task, label_separator=separator)
