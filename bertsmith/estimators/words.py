"""The estimator of words: a label for each."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Unpack

from bertsmith.data.label_values import LABEL_TYPES
from bertsmith.data.table_rows import Row
from bertsmith.data.tagged_objects import word_labels
from bertsmith.data.text_files import ExampleSource
from bertsmith.errors import InputError
from bertsmith.estimators.estimator import Estimator
from bertsmith.estimators.options import TagOptions
from bertsmith.tasks.token_classification import Tag


class TokenClassifier(Estimator):
    """Labels words, such as names or parts of speech.

    >>> tagger = TokenClassifier("runs/reviews-bert")  # doctest: +SKIP
    >>> tagger.fit([["Ada", "flew"]], [["B-PER", "O"]]).predict([["Ada", "flew"]])  # doctest: +SKIP
    [['B-PER', 'O']]

    X holds lists of words and y a list of labels for each; or X texts and y their entities, each
    as `{"start": 0, "end": 3, "label": "PER"}`. Texts are split into words to be predicted;
    `predictor_` gives entities with their places. Labels of words may be whole numbers, and are
    predicted as such, also by the saved model.
    """

    task = Tag
    labels_name: ClassVar[str] = "labels"
    names: ClassVar[Mapping[str, str]] = {"words": "word_column", "labels": "label_column"}

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[TagOptions]) -> None:
        super().__init__(model, **settings)

    def _row(self, item: Any, label: Any) -> Row:
        if label is None:
            raise InputError(
                f"y: found None for the words {item!r:.40}; allowed is a list of labels."
            )
        labels = list(label)
        if isinstance(item, str):
            if not all(isinstance(entity, Mapping | list | tuple) for entity in labels):
                raise InputError(
                    f"y: found labels of words for the text '{item[:40]}'. Give a list of words in "
                    "its place, or entities with their places."
                )
            return {"text": item, "entities": labels}
        return {"words": list(item), "labels": labels}

    def _look_at_labels(
        self, source: ExampleSource, y: Any, columns: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the type of labels that are numbers."""
        if isinstance(source, Path):
            return {}
        name = columns.get("label_column")
        kinds = {type(label).__name__ for row in source for label in word_labels(row, name)}
        (kind, *others) = sorted(kinds) or [""]
        return {"label_kind": kind} if kind in LABEL_TYPES and not others else {}

    def _answers(self, predictions: Iterator[Any]) -> list[list[Any]]:
        return [list(prediction.labels) for prediction in predictions]
