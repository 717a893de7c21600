"""`bertsmith score choose`: prompts with choices and predicted ones → accuracy."""

import json as json_module
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.data.multiple_choice import ChoiceColumns
from bertsmith.evaluation.score import score_choice_files


def main(
    gold: Path,
    predictions: Path,
    columns: Annotated[ChoiceColumns, tyro.conf.arg(name="")] = ChoiceColumns(),  # noqa: B008 - frozen
    json: bool = False,
) -> None:
    """Score choices by any system, without a model.

    Args:
        gold: Prompts with their choices and the right one: .csv, .tsv or .jsonl, also as .gz, .xz
            or .zst.
        predictions: The number of a choice for each row, counted from 0, in the same order: .txt
            with one on each line, or .csv, .tsv or .jsonl with a column 'label' or 'prediction',
            as written by bertsmith predict --out.
        json: Print one JSON object instead of text.
    """
    result = score_choice_files(gold, predictions, columns)
    print(json_module.dumps(result.to_json()) if json else result)
