"""`bertsmith evaluate`: score a model.

A fine-tuned model is scored on labelled data, a pre-trained one on minimal pairs.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertsmith.commands.evaluate_flags import check_flags
from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.pair_evaluation import evaluate_pairs
from bertsmith.commands.settings.evaluate import Settings
from bertsmith.commands.system_scores import evaluate_system
from bertsmith.commands.task_flags import load_with_flags, parse_for_folder
from bertsmith.config import to_jsonable
from bertsmith.data.tables import check_delimiter
from bertsmith.data.text_files import name_source
from bertsmith.data.unknown_tokens import warn_unknown
from bertsmith.errors import ConfigError, option
from bertsmith.errors.model_kinds import ModelKindError
from bertsmith.evaluation.errors_file import write_misses
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.minimal_pairs import load_pair_scorer
from bertsmith.evaluation.page import ErrorSurvey, write_evaluation_page
from bertsmith.evaluation.stored_majority import StoredMajority
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.output_files import lock_outputs
from bertsmith.tasks.baseline import Baseline
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.predictor import OutcomeCallback, Predictor
from bertsmith.tasks.scoring import Evaluation
from bertsmith.tasks.task import Task


def main(words: Sequence[str], line: Sequence[str]) -> None:
    """Score a model and print its scores.

    The page is written after the scores are printed, so that they are not lost if it cannot be
    written.

    Args:
        words: the words after `bertsmith evaluate`.
        line: all words of the command line, from `bertsmith` on.
    """
    prog = " ".join(line[:2])
    try:
        settings, folder = parse_for_folder(Settings, words, prog)
    except ModelKindError as error:  # the model is no BERT, but for example a GPT or T5
        evaluate_system(error.kind.model_type, words, prog)
        return
    check_flags(settings)
    # For the name "-", in which `find_model` sees no model, `folder` is None; loading refuses it.
    model = folder or settings.model
    # These files are locked, and refused if one is the input or belongs to the model.
    outputs = {
        "--errors": settings.errors,
        "--page": settings.page,
        "--scores": settings.scores,
    }
    with lock_outputs(outputs, settings.data or settings.minimal_pairs, settings.model):
        if settings.data is not None:
            score_on_data(settings, model, settings.data)
        elif settings.minimal_pairs is not None:
            score_on_pairs(settings, model, settings.minimal_pairs)


def score_on_pairs(settings: Settings, model: Path | ModelFolder, path: Path) -> None:
    """Score a pre-trained model on a file of minimal pairs, and print its scores."""
    check_delimiter(settings.columns, path)
    scorer = load_pair_scorer(
        model,
        device=settings.device,
        precision=settings.precision,
        max_length=settings.max_length,
    )
    print_note(scorer.loaded.precision_note)

    def print_scores(result: Evaluation) -> None:
        print_result(settings, scorer, result, path, more_scores={})

    evaluate_pairs(settings, scorer, path, print_scores)


def print_result(
    settings: Settings,
    predictor: Predictor[Any],
    result: Evaluation,
    path: Path,
    more_scores: Mapping[str, float],
    baselines: Sequence[Baseline] = (),
) -> None:
    """Print scores and baselines; warn of many unknown tokens.

    Only with --json are the share of unknown tokens and `more_scores` printed, too.
    """
    unknown_rate = predictor.unknown_tokens.rate
    report = {**result.to_json(), "unknown_rate": unknown_rate, **more_scores}
    warn_unknown(unknown_rate, name_source(path))
    if settings.json:
        if baselines:
            report["baselines"] = to_jsonable(baselines)
        print_json(report)
        return
    scores, blank_line, details = str(result).partition("\n\n")
    print("\n".join([scores, *map(str, baselines)]) + blank_line + details)


def score_on_data(settings: Settings, model: Path | ModelFolder, data: Path) -> None:
    """Score a fine-tuned model on labelled data; print its scores and write --errors and --page."""
    check_delimiter(settings.columns, data)
    predictor = load_with_flags(settings, model)
    # The definition of a predictor is its task, such as text classification with its labels.
    task = with_separator(predictor.definition, settings.label_separator)
    predictor = predictor.with_definition(task)
    # Both receive every example with its outcome: `survey` collects errors and confidences,
    # `majority` counts how often the most frequent label of training is right, a baseline.
    survey = ErrorSurvey()
    majority = StoredMajority(task, predictor.loaded.folder.run)
    callbacks: list[OutcomeCallback] = [survey, majority]
    with ExitStack() as at_end, ExitStack() as stack:
        if settings.errors is not None:
            callbacks.append(stack.enter_context(write_misses(settings.errors)))
        result = evaluate(
            predictor, data, settings.columns, limit=settings.limit, callbacks=callbacks
        )
        more_scores = {}
        if survey.calibration.num_predictions:
            more_scores["expected_calibration_error"] = survey.calibration.error
        baselines = majority.baselines()
        # `at_end` closes after `stack`: if the errors cannot be written, the scores are printed
        # nevertheless.
        at_end.callback(print_result, settings, predictor, result, data, more_scores, baselines)
    if settings.page is not None:
        write_evaluation_page(
            settings.page,
            predictor,
            survey,
            result,
            baselines,
            model=settings.model,
            data=data,
        )


def with_separator(task: Task[Any, Any], separator: str | None) -> Task[Any, Any]:
    """Return a copy of the task that splits labels at `separator`; None returns the task itself.

    Raises:
        ConfigError: the model does not give a text several labels, or the separator is empty.
    """
    if separator is None:
        return task
    if not isinstance(task, MultiLabel):
        raise ConfigError(
            f"{option('label_separator')}: found '{separator}', but this model does not give a "
            "text several labels. Leave it out."
        )
    return replace(task, label_separator=separator)
