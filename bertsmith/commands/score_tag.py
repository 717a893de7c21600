"""`bertsmith score tag`: labelled words and predicted labels → scores."""

import json as json_module
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.data.tagged import TagColumns
from bertsmith.evaluation.score import score_tag_files


def main(
    gold: Path,
    predictions: Path,
    columns: Annotated[TagColumns, tyro.conf.arg(name="")] = TagColumns(),  # noqa: B008 - frozen
    json: bool = False,
) -> None:
    """Score labels of words by any system, without a model.

    Args:
        gold: Words with their right labels: CoNLL columns, CoNLL-U or .jsonl; also as .gz, .xz or
            .zst. The options below say how it is read.
        predictions: The same sentences with predicted labels, in any of these formats, as written
            by bertsmith predict --out; the label is in the last column. The labels may follow
            another scheme, unless --scheme says what both follow.
        json: Print one JSON object instead of text.
    """
    result = score_tag_files(gold, predictions, columns)
    print(json_module.dumps(result.to_json()) if json else result)
