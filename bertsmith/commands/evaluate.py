"""`bertsmith evaluate`: a fine-tuned model and labelled data → its scores."""

import json as json_module
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from bertsmith.commands.flags import tell
from bertsmith.commands.task_flags import parse_for_folder
from bertsmith.data.text_files import place_name
from bertsmith.data.unknown_tokens import tell_unknown
from bertsmith.data.windows import LongTexts
from bertsmith.evaluation.errors_file import write_misses
from bertsmith.evaluation.evaluate import OutcomeCallback, evaluate
from bertsmith.evaluation.precision_agreement import SAMPLED_FROM, agreement_with_fp32
from bertsmith.reports.evaluation import Survey, write_page
from bertsmith.system.compute import InferenceCompute
from bertsmith.system.files import hold_outputs
from bertsmith.tasks.auto import CHUNK_CHARS, load_predictor
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.scoring import Evaluation, Outcome
from bertsmith.tasks.task import Task


@dataclass(frozen=True)
class Settings(InferenceCompute):
    """Score a fine-tuned model on labelled data.

    The folder tells which task the model was trained for. Of a classifier, for example, you see the
    share of right labels (accuracy), the mean F1 of the classes (macro-F1), how well each class was
    recognized, and which classes were taken for which (confusion matrix).
    """

    model: tyro.conf.Positional[Path]
    """Folder of a fine-tuned model."""
    data: Path
    """Labelled examples: .csv, .tsv or .jsonl, also as .gz, .xz or .zst; or what the task was
    trained with."""
    limit: int | None = None
    """Number of rows to take, from the first. Pairs of texts without scores are evaluated by
    search, which holds a vector of each text and compares every one with all: ten times as many
    rows take ten times the memory and a hundred times the comparisons."""
    max_length: int | None = None
    """Maximum length of texts in tokens. Default: as in training."""
    long_texts: LongTexts | None = None
    """Long texts, above the maximum length: read in windows that overlap (window), or cut. Default:
    as in training."""
    stride: int | None = None
    """Stride: the number of tokens that neighbouring windows share. Default: as in training."""
    errors: Path | None = None
    """Errors file, .jsonl or .csv, for every wrong answer: text, right answer, the model's, and how
    sure it was; the most confident first. Where answers are numbers (regress, embed), it has the
    100 rows that are farthest off, the farthest first."""
    report: Path | None = None
    """HTML page to write: confusion matrix, calibration, score by length."""
    json: bool = False
    """Print one JSON object instead of text."""

    columns: tyro.conf.Suppress[Any] = None
    """Columns of the file."""


def main(args: Sequence[str], prog: str) -> None:
    """Score and print, then write the page.

    Scores are seen even if the page cannot be written.
    """
    settings = parse_for_folder(Settings, args, prog)
    outputs = {"--errors": settings.errors, "--report": settings.report}
    with hold_outputs(outputs, settings.data):
        measure(settings)


def measure(settings: Settings) -> None:
    """Score the model, print the result, and write the page."""
    predictor = load_predictor(
        settings.model,
        device=settings.device,
        precision=settings.precision,
        max_length=settings.max_length,
        long_texts=settings.long_texts,
        stride=settings.stride,
    )
    task = predictor.definition.with_columns(settings.columns)
    predictor = predictor.with_definition(task)
    tell(predictor.loaded.precision_note)
    survey, sample = Survey(), Sample()
    result = score(predictor, settings, [survey, sample])
    unknown_rate = predictor.unknown_tokens.rate
    report = {**result.to_json(), "unknown_rate": unknown_rate}
    tell_unknown(unknown_rate, place_name(settings.data))
    if survey.calibration.num_predictions:
        report["expected_calibration_error"] = survey.calibration.error
    precision = predictor.loaded.precision
    if precision != "fp32":
        agreement = agreement_with_fp32(predictor, sample.examples)
        report[f"{agreement.name}_beside_fp32"] = agreement.figures
        tell(agreement.sentence(precision))
    print(json_module.dumps(report) if settings.json else result)
    if settings.report is not None:
        write_page(
            settings.report, task.name, survey, result,
            model=settings.model, data=settings.data,
        )  # fmt: skip


class Sample:
    """The first examples that pass, kept for a second look: standard input is read once."""

    def __init__(self) -> None:
        self.examples: list[Any] = []

    def see(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        """Keep the first `SAMPLED_FROM` examples, fewer of long ones."""
        if sum(example.num_chars for example in self.examples) < CHUNK_CHARS:
            self.examples += examples[: SAMPLED_FROM - len(self.examples)]


def score(
    predictor: Predictor[Task[Any, Any]], settings: Settings, callbacks: Sequence[OutcomeCallback]
) -> Evaluation:
    """Compute the scores; `--errors` is written on the way."""
    with ExitStack() as stack:
        if settings.errors is not None:
            misses = stack.enter_context(write_misses(settings.errors))
            callbacks = [*callbacks, misses]
        return evaluate(
            predictor, settings.data, settings.columns, limit=settings.limit, callbacks=callbacks
        )
