"""Estimators for passages and prompts: answers to questions, and multiple choice."""

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

    X holds tuples of a question and its passage. y holds an answer for each question, a list of
    several answers, or None if the passage has no answer. An answer is a string, or a dict with
    `text` and `answer_start`. Rows and tables have the columns of SQuAD: question, context and
    answers. `predict` returns a string for each question, which is empty if the model finds no
    answer.
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
        """Return the answers of a question in the form of SQuAD, with their offsets."""
        plain_label = as_json(label)
        if isinstance(plain_label, dict) and isinstance(plain_label.get("text"), list):
            return {name: plain_label}  # `datasets` has texts and offsets as two lists
        if plain_label is None:
            plain_label = []
        elif not isinstance(plain_label, list):
            plain_label = [plain_label]
        passage = str(row.get("context"))
        answers = [
            answer
            if isinstance(answer, Mapping)
            else {"text": answer, "answer_start": _find_start(passage, str(answer))}
            for answer in plain_label
        ]
        return {name: answers} if answers else {name: answers, "is_impossible": True}

    def _convert_predictions(self, predictions: Iterator[Any]) -> list[str]:
        return [prediction.answer for prediction in predictions]


def _find_start(passage: str, answer: str) -> int:
    """Return the offset of an answer in a passage; 0 if the passage lacks it.

    The offset is that of the first occurrence as whole words. If there is none, it is that of the
    first occurrence inside words.

    >>> _find_start("An answer answers.", "answer"), _find_start("Answers.", "nswer")
    (3, 1)
    """
    whole_words = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", passage)
    return whole_words.start() if whole_words else max(0, passage.find(answer))


class MultipleChoice(Estimator):
    """Chooses one of several texts that fits a prompt.

    >>> chooser = MultipleChoice("runs/reviews-bert")  # doctest: +SKIP
    >>> chooser.fit([("The film was", ["good.", "table."])], [0])  # doctest: +SKIP

    X holds tuples of a prompt and a list of choices. y holds for each prompt the index of the right
    choice, counted from 0. `predict` returns such indices, int64 `[prompts]`.
    """

    task = Choose
    column_options: ClassVar[Mapping[str, str]] = {
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

        Arguments are as in `predict`.

        Raises:
            NotFittedError: the estimator is not fitted.
            InputError: an item of X is not a prompt with its choices.
        """
        options = {"batch_size": batch_size, "show_progress": show_progress}
        return [
            np.array(prediction.probabilities)
            for prediction in self._predictions(X, columns, **options)
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
                f"y: found '{label}'. Give the right choices as numbers counted from 0, as "
                "`predict` returns them."
            )
        prompt, choices = values
        if not isinstance(choices, list | tuple | np.ndarray):  # a string has characters as items
            raise InputError(
                f"X: found {name_type(choices)} in place of the choices of a prompt. Give tuples "
                "(prompt, list of choices)."
            )
        return {"prompt": prompt, "choices": list(choices), "label": label}

    def _convert_predictions(self, predictions: Iterator[Any]) -> NDArray[np.int64]:
        return np.fromiter((prediction.number for prediction in predictions), np.int64)
