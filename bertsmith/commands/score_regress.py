"""`bertsmith score regress`: rows with numbers and predicted ones → scores."""

import json as json_module
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.data.examples import Columns
from bertsmith.evaluation.score import score_number_files


def main(
    gold: Path,
    predictions: Path,
    columns: Annotated[Columns, tyro.conf.arg(name="")] = Columns(),  # noqa: B008 - frozen
    json: bool = False,
) -> None:
    """Score numbers by any system, without a model.

    Args:
        gold: Rows with their right numbers: .csv, .tsv or .jsonl, also as .gz, .xz or .zst.
        predictions: One number for each row, in the same order: .txt with one on each line, or
            .csv, .tsv or .jsonl with a column 'prediction' or 'value', as written by bertsmith
            predict --out.
        json: Print one JSON object instead of text.
    """
    result = score_number_files(gold, predictions, columns)
    print(json_module.dumps(result.to_json()) if json else result)
