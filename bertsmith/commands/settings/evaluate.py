"""Options of `bertsmith evaluate`: each field is one, and its docstring is the help.

Only --help-all shows options whose type is `Advanced`.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.commands.first_word import defer_until_model_is_known
from bertsmith.data.windowing import LongTexts
from bertsmith.system.compute import Advanced, InferenceCompute


@dataclass(frozen=True)
class Settings(InferenceCompute):
    """Score a fine-tuned model on labelled data, or a pre-trained one on minimal pairs.

    The task is read from the folder. For a classifier, for example, the command prints the share of
    right labels (accuracy), the mean F1 of the classes (macro-F1), the scores of each class, and
    which classes were taken for which (confusion matrix).
    """

    model: tyro.conf.Positional[Path]
    """Folder of a fine-tuned model, or of a pre-trained one with --minimal-pairs."""
    data: Annotated[
        Path | None, tyro.conf.arg(help_behavior_hint="(required without --minimal-pairs)")
    ] = None
    """Labelled examples: .csv, .tsv, .jsonl, .json, .parquet or .xlsx, also as .gz, .xz or .zst; or
    in the format that the task was trained on."""
    minimal_pairs: Path | None = None
    """Minimal pairs, in place of --data: a file such as BLiMP's (.jsonl, .csv or .tsv) with a
    grammatical sentence (sentence_good) and an ungrammatical one (sentence_bad) in each row. The
    score is how often the model finds the first likelier, by pseudo-log-likelihood: the sum of the
    log-probabilities of the tokens, each masked in turn. A GPT or LSTM reads each token after those
    before it, an ELMo from both directions (the mean counts). With columns UID, linguistics_term
    and field, there are accuracies by group."""
    limit: int | None = None
    """Number of rows to read, from the first; of minimal pairs, this many of each UID. If pairs of
    texts have no scores, a sentence encoder is scored by search: a vector of each text is kept, and
    compared with those of all others. Ten times as many rows then take ten times the memory and a
    hundred times the comparisons."""
    max_length: int | None = None
    """Maximum length of texts in tokens. Default: as in training."""
    long_texts: Advanced[LongTexts | None] = None
    """Long texts, above the maximum length: read in overlapping windows (window), or cut. Default:
    as in training."""
    stride: Advanced[int | None] = None
    """Stride: the number of tokens that neighbouring windows share. Default: as in training."""
    label_separator: Advanced[str | None] = None
    """Separator between the labels of a text in --data, if a text can have several. Default: as in
    training."""
    errors: Path | None = None
    """Errors file, .jsonl or .csv, with every wrong answer: text, right answer, the model's answer,
    and its confidence; the most confident first. If answers are numbers (regress, embed), which are
    hardly ever exact, it has only the 100 rows with the largest errors, the largest first."""
    scores: Path | None = None
    """File to write, .jsonl, with each minimal pair and the scores of both sentences."""
    page: Path | None = None
    """HTML page to write: scores, confusion matrix, wrong answers with the words that decided them,
    calibration, score by length."""
    json: bool = False
    """Print one JSON object instead of text."""

    columns: tyro.conf.Suppress[Any] = None
    """Columns of the file. Which ones there are depends on the model's task, so they are filled in
    when `main` parses the line."""


# Which flags exist depends on the model's task. So `parse` returns the words of a line that names a
# model as they are, and `main` in commands/evaluate.py parses them, by `parse_for_folder`.
parse = partial(defer_until_model_is_known, Settings)
