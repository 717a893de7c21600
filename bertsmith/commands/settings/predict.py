"""Options of `bertsmith predict`: each field is one, and its docstring is the help.

Only --help-all shows options whose type is `Advanced`.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tyro

from bertsmith.commands.first_word import defer_until_model_is_known
from bertsmith.data.windowing import LongTexts
from bertsmith.system.compute import Advanced, InferenceCompute


@dataclass(frozen=True)
class Settings(InferenceCompute):
    """Run a fine-tuned model on new texts.

    The task is read from the folder. A classifier, for example, prints a line for each text: its
    label, the model's confidence (0 to 1), and the text.
    """

    model: tyro.conf.Positional[Path]
    """Folder of a fine-tuned model."""
    text: tyro.conf.Positional[tuple[str, ...]] = ()
    """Texts, each in quotes; or - to read one text per line from standard input (questions as one
    JSON object per line)."""
    file: Path | None = None
    """Texts: .txt with one text per line, or .csv, .tsv, .jsonl, .json, .parquet or .xlsx; also as
    .gz, .xz or .zst; or in the format that the task was trained on. The columns are those of
    training if the file has them."""
    out: Path | None = None
    """Output file instead of lines: .csv, .tsv, .parquet or .xlsx with all columns of --file, the
    label and its probability; .jsonl with one JSON object per text, also with the probabilities of
    all labels. For labelled words, also CoNLL columns (.conll) or CoNLL-U (.conllu, with all lines
    of a CoNLL-U input); for questions, also one object from each question's id to its answer
    (.json). Files may be of any size."""
    page: Path | None = None
    """HTML page to write as well, with the first 1,000 texts; entities and answers are marked in
    them."""
    max_length: int | None = None
    """Maximum length of texts in tokens. Default: as in training."""
    long_texts: Advanced[LongTexts | None] = None
    """Long texts, above the maximum length: read in overlapping windows (window), or cut. Default:
    as in training."""
    stride: Advanced[int | None] = None
    """Stride: the number of tokens that neighbouring windows share. Default: as in training."""
    json: bool = False
    """Print one JSON object with all predictions instead of lines."""

    columns: tyro.conf.Suppress[Any] = None
    """Columns of the file. Which ones there are depends on the model's task, so they are filled in
    when `main` parses the line."""


# Which flags exist depends on the model's task. So `parse` returns the words of a line that names a
# model as they are, and `main` in commands/predict.py parses them, by `parse_for_folder`.
parse = partial(defer_until_model_is_known, Settings)
