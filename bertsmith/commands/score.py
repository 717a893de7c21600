"""`bertsmith score`: gold data and predictions of any system → scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.commands.flags import parse, print_report
from bertsmith.evaluation.score_task import ScoredTask, ScoreOptions, find_task, score


@dataclass(frozen=True)
class Settings:
    """Score predictions of any system, without a model.

    GOLD holds the right answers, PREDICTIONS those of the system. The command finds the task from
    the files. Scores equal those of scikit-learn, scipy and seqeval, and for questions those of
    the official scorers: SQuAD 1.1; SQuAD 2.0 if a question has no answer or --no-answer-probs is
    given; CMRC 2018 in Chinese.
    """

    gold: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="GOLD")]
    """Right answers. Questions: .json in SQuAD's format or .jsonl. Texts with labels or numbers,
    and prompts with choices: .csv, .tsv or .jsonl. Labelled words: CoNLL columns, CoNLL-U or
    .jsonl. All also as .gz, .xz or .zst."""
    predictions: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PREDICTIONS")]
    """Predictions, such as bertsmith predict --out writes. Questions: .json, one object from each
    question's id to the answer (empty where there is none), or .jsonl. Labels, numbers and choices
    (counted from 0): one for each row, in the same order: .txt with one on each line, or .csv, .tsv
    or .jsonl with a column 'prediction' or 'label', of numbers also 'value'. Words: the same
    sentences, the label in the last column."""
    task: ScoredTask | None = None
    """Task of the files. Default: found from them; where several are possible, the command asks for
    this option."""
    options: ScoreOptions = field(default_factory=ScoreOptions)
    json: bool = False
    """Print one JSON object instead of text."""


def main(args: Sequence[str], prog: str) -> None:
    settings = parse(Settings, args, prog)
    gold, predictions, options = settings.gold, settings.predictions, settings.options
    task = settings.task or find_task(gold, predictions, options)
    print_report(score(task, gold, predictions, options), settings.json)
