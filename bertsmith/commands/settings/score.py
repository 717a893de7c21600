"""Options of `bertsmith score`: each field is one, and its docstring is the help."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.evaluation.settings import ScoredTask, ScoreOptions


@dataclass(frozen=True)
class Settings:
    """Score the predictions of any system, without a model.

    GOLD has the right answers, PREDICTIONS those of the system. The task is recognized by the
    files. Scores equal those of scikit-learn, scipy and seqeval, and for questions those of
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
    """Task of the files. Default: recognized by them; if several tasks are possible, this option is
    needed."""
    options: ScoreOptions = field(default_factory=ScoreOptions)
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
