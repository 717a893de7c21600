"""Estimators of passages and prompts: answers to questions, and multiple choice."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_texts import name_type
from bertsmith.data.json_rows import as_json
from bertsmith.data.table_rows import Row
from bertsmith.errors import InputError
from bertsmith.estimators.estimator import Estimator
from bertsmith.estimators.options import AnswerOptions, ChooseOptions
from bertsmith.estimators.rows import as_values
from bertsmith.tasks.multiple_choice import Choose
from bertsmith.tasks.question_answering import Answer


class QuestionAnswerer(Estimator):
    """Finds the answers to questions in passages.

    >>> answerer = QuestionAnswerer("runs/reviews-bert")  # doctest: +SKIP
    >>> answerer.fit([("Who flew?", "Ada flew.")], ["Ada"])  # doctest: +SKIP

    X holds tuples of a question and its passage; y an answer for each, several as a list, or None
    where the passage has none. An answer is a string, or a dict with `text` and `answer_start`.
    Rows and tables have the columns of SQuAD: question, context and answers. Predictions are
    strings, empty where there is no answer.
    """

    task = Answer
    labels_name: ClassVar[str] = "answers"

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[AnswerOptions]) -> None:
        super().__init__(model, **settings)

    def _row(self, item: Any, label: Any) -> Row:
        values = as_values(item)
        if len(values) != 2:
            raise InputError(f"X: found {name_type(item)}. Give tuples (question, passage).")
        row = dict(zip(("question", "context"), values, strict=True))
        return {**row, **self._label_cells(row, label, self.labels_name)}

    def _label_cells(self, row: Mapping[str, Any], label: Any, name: str) -> Row:
        value = as_json(label)
        if isinstance(value, dict) and isinstance(value.get("text"), list):
            return {name: value}  # the two lists of `datasets`
        if value is None:
            value = []
        elif not isinstance(value, list):
            value = [value]
        passage = str(row.get("context"))
        answers = [
            one
            if isinstance(one, Mapping)
            else {"text": one, "answer_start": _find_start(passage, str(one))}
            for one in value
        ]
        return {name: answers} if answers else {name: answers, "is_impossible": True}

    def _answers(self, predictions: Iterator[Any]) -> list[str]:
        return [prediction.answer for prediction in predictions]


def _find_start(passage: str, answer: str) -> int:
    """Find an answer: first as whole words, else within them; 0 where it is not."""
    whole = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", passage)
    return whole.start() if whole else max(0, passage.find(answer))


class MultipleChoice(Estimator):
    """Chooses what fits a prompt.

    >>> chooser = MultipleChoice("runs/reviews-bert")  # doctest: +SKIP
    >>> chooser.fit([("The film was", ["good.", "table."])], [0])  # doctest: +SKIP

    X holds tuples of a prompt and a list of choices, y the place of the right one, counted from 0.
    """

    task = Choose
    names: ClassVar[Mapping[str, str]] = {
        "prompt": "text_column", "choices": "choice_columns", "label": "label_column"
    }  # fmt: skip

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[ChooseOptions]) -> None:
        super().__init__(model, **settings)

    def predict_proba(
        self,
        X: Any,  # noqa: N803
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
        **columns: Any,
    ) -> list[NDArray[np.float64]]:
        """Compute the probability of each choice: for each prompt of X an array, fp64 `[choices]`.

        Raises:
            NotFittedError: it was not fitted.
            InputError: an item of X is not as `fit` takes them.
        """
        how = {"batch_size": batch_size, "show_progress": show_progress}
        return [
            np.array(prediction.probabilities)
            for prediction in self._predictions(X, columns, **how)
        ]

    def _source(self, X: Any, y: Any, columns: Mapping[str, Any]) -> Any:  # noqa: N803
        if y is not None and columns.get("first_label"):
            raise InputError(
                f"first_label: found {columns['first_label']} beside y. `predict` counts choices "
                "from 0, and so must y: give y - 1, and leave first_label out."
            )
        return super()._source(X, y, columns)

    def _row(self, item: Any, label: Any) -> Row:
        values = as_values(item)
        if len(values) != 2:
            raise InputError(f"X: found {name_type(item)}. Give tuples (prompt, list of choices).")
        if isinstance(label, str):
            raise InputError(
                f"y: found '{label}'. Give the places of the right choices as numbers, counted "
                "from 0, which is what `predict` returns."
            )
        return {"prompt": values[0], "choices": list(values[1]), "label": label}

    def _answers(self, predictions: Iterator[Any]) -> NDArray[np.int64]:
        return np.fromiter((prediction.number for prediction in predictions), np.int64)
