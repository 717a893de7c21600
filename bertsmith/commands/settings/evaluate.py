"""Settings of `bertsmith evaluate`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.commands.first_word import parse_unless_model
from bertsmith.data.windowing import LongTexts
from bertsmith.system.compute import Advanced, InferenceCompute


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


parse = partial(parse_unless_model, Settings)
