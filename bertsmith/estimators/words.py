"""The estimator that labels each word of a sentence."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Unpack

from bertsmith.data.encoded_texts import name_type
from bertsmith.data.label_values import LABEL_TYPES
from bertsmith.data.table_rows import Row
from bertsmith.data.tagged_objects import word_labels
from bertsmith.data.text_files import ExampleSource
from bertsmith.errors import InputError
from bertsmith.estimators.estimator import Estimator
from bertsmith.estimators.options import TagOptions
from bertsmith.tasks.token_classification import Tag


class TokenClassifier(Estimator):
    """Labels each word of a sentence, for example with its part of speech or as part of a name.

    >>> tagger = TokenClassifier("runs/reviews-bert")  # doctest: +SKIP
    >>> tagger.fit([["Ada", "flew"]], [["B-PER", "O"]]).predict([["Ada", "flew"]])  # doctest: +SKIP
    [['B-PER', 'O']]

    X holds a list of words for each sentence, and y a list of labels, one for each word. Or X holds
    texts, and y for each text a list of entities such as `{"start": 0, "end": 3, "label": "PER"}`.
    `predict` returns a list of labels for each sentence; it splits texts into words. `predictor_`
    returns entities with their start and end. Labels of words may be whole numbers, and are then
    predicted as whole numbers, also after the model was saved and loaded.
    """

    task = Tag
    labels_name: ClassVar[str] = "labels"
    column_options: ClassVar[Mapping[str, str]] = {
        "words": "word_column", "labels": "label_column"
    }  # fmt: skip

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[TagOptions]) -> None:
        super().__init__(model, **settings)

    def _row(self, item: Any, label: Any) -> Row:
        if label is None:
            raise InputError(
                f"y: found None for the words {item!r:.40}. Give a list of labels, one for each "
                "word."
            )
        if isinstance(label, str | Mapping) or not isinstance(label, Iterable):
            raise InputError(
                f"y: found {name_type(label)} for the words {item!r:.40}. Give a list of labels, "
                "one for each word."
            )
        if isinstance(item, Mapping) or not isinstance(item, Iterable):
            raise InputError(
                f"X: found {name_type(item)}. Give a list of words for each sentence, or a text "
                "with entities."
            )
        labels = list(label)
        if isinstance(item, str):
            if not all(isinstance(entity, Mapping | list | tuple) for entity in labels):
                raise InputError(
                    f"y: found labels of words for the text '{item[:40]}'. Give a list of words "
                    "instead of the text, or entities with start, end and label."
                )
            return {"text": item, "entities": labels}
        return {"words": list(item), "labels": labels}

    def _describe_labels(
        self, source: ExampleSource, y: Any, columns: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the type of the labels if all are numbers of one type."""
        if isinstance(source, Path):
            return {}
        name = columns.get("label_column")
        kinds = {type(label).__name__ for row in source for label in word_labels(row, name)}
        if len(kinds) != 1:
            return {}
        (kind,) = kinds
        return {"label_kind": kind} if kind in LABEL_TYPES else {}

    def _convert_predictions(self, predictions: Iterator[Any]) -> list[list[Any]]:
        return [list(prediction.labels) for prediction in predictions]
