"""`bertsmith score classify`: labelled rows and predicted labels → scores."""

import json as json_module
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.data.examples import Columns
from bertsmith.evaluation.score import score_class_files, score_label_set_files


def main(
    gold: Path,
    predictions: Path,
    columns: Annotated[Columns, tyro.conf.arg(name="")] = Columns(),  # noqa: B008 - frozen
    multi_label: bool = False,
    label_separator: str = ",",
    json: bool = False,
) -> None:
    """Score labels by any system, without a model.

    Args:
        gold: Rows with their right labels: .csv, .tsv or .jsonl, also as .gz, .xz or .zst.
        predictions: One label for each row, in the same order: .txt with one on each line, or .csv,
            .tsv or .jsonl with a column 'label' or 'prediction', as written by bertsmith predict
            --out.
        multi_label: Multi-label: a text may have several labels, or none.
        label_separator: Separator between the labels of a text, with --multi-label. A JSON list
            needs none.
        json: Print one JSON object instead of text.
    """
    result = (
        score_label_set_files(gold, predictions, columns, separator=label_separator)
        if multi_label
        else score_class_files(gold, predictions, columns)
    )
    print(json_module.dumps(result.to_json()) if json else result)
