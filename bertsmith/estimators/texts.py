"""Estimators for texts and pairs of texts: classification and regression."""

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.columns import Columns
from bertsmith.data.encoded_texts import is_table, name_type
from bertsmith.data.examples import ExampleReader
from bertsmith.data.json_rows import CutText, as_json, describe_cut_label, plain_number
from bertsmith.data.label_values import LABEL_TYPES
from bertsmith.data.labels import label_array
from bertsmith.data.table_rows import Row, TableRows
from bertsmith.data.text_files import ExampleSource
from bertsmith.errors import InputError
from bertsmith.estimators.estimator import Estimator
from bertsmith.estimators.options import ClassifyOptions, RegressOptions
from bertsmith.estimators.rows import as_dense, as_values, matrix_names
from bertsmith.system.counts import count_noun
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.task import Task
from bertsmith.tasks.text_classification import Classify

_ONE_HOT_ADVICE = (
    " For rows of 0 and 1 with one 1 (one-hot) give the numbers of the classes, such as "
    "numpy.argmax(y, axis=1)."
)


class TextEstimator(Estimator):
    """The base of estimators whose items are texts, or pairs of texts as tuples."""

    column_options: ClassVar[Mapping[str, str]] = {
        "text": "text_column", "text_pair": "pair_column", "label": "label_column"
    }  # fmt: skip
    several_columns_advice: ClassVar[str]
    """End of the error message about labels in several columns, after their number."""

    def _source(self, X: Any, y: Any, columns: Mapping[str, Any]) -> ExampleSource:  # noqa: N803
        may_be_matrix = getattr(self, "multi_label", False)
        return super()._source(X, y if may_be_matrix else self._only_column(y), columns)

    def _only_column(self, labels: Any) -> Any:
        """Return the only column of a table or matrix; return labels in another form unchanged.

        Raises:
            InputError: the table or matrix has several columns.
        """
        names = matrix_names(labels) or ()
        if len(names) > 1:
            raise InputError(f"y: found {len(names):,} {self.several_columns_advice}")
        if len(names) != 1:
            return labels
        if is_table(labels):
            return [value for row in TableRows(labels) for value in row.values()]
        return as_dense(labels)[:, 0]

    def _row(self, item: Any, label: Any) -> Row:
        values = as_values(item)
        if not 1 <= len(values) <= 2:
            raise InputError(
                f"X: found an item of {len(values)} values. Give a text, or a tuple of two for a "
                "pair."
            )
        return {**dict(zip(("text", "text_pair"), values, strict=False)), "label": label}


class TextClassifier(TextEstimator):
    """Classifies texts, or pairs of texts; with `multi_label`, a text may have several labels.

    >>> classifier = TextClassifier("runs/reviews-bert", epochs=3)  # doctest: +SKIP
    >>> classifier.fit(texts, labels).predict(["A gripping story."])  # doctest: +SKIP
    array(['positive'], dtype='<U8')

    Labels may be strings, numbers or booleans. `predict` returns them with the type that they had
    in y, also after the model was saved and loaded; labels from a file are strings. With
    `multi_label`, y holds a list of labels for each text, and `predict` returns a list of tuples of
    labels; or y is a table or matrix of 0 and 1, and `predict` returns an int64 array
    `[texts, classes]` of 0 and 1.

    Attributes:
        classes_: the labels, `[classes]`, in the order of the columns of `predict_proba`: sorted,
            or in the order of the columns of y if y is a table or matrix.
    """

    task = Classify
    kind: ClassVar[Literal["classifier"]] = "classifier"
    several_columns_advice = (
        "columns, where one label is needed for each text. For rows of 0 and 1 with one 1 "
        "(one-hot) give the numbers of the classes, such as numpy.argmax(y, axis=1); pass "
        "multi_label=True where a text has any number of labels."
    )

    multi_label: bool

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[ClassifyOptions]) -> None:
        super().__init__(model, **settings)

    def predict_proba(
        self,
        X: Any,  # noqa: N803
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
        **columns: Any,
    ) -> NDArray[np.float64]:
        """Compute the probability of each class, fp64 `[texts, classes]`.

        Arguments are as in `predict`.

        Raises:
            NotFittedError: the estimator is not fitted.
            InputError: an item of X cannot be read; the message names its position.
        """
        options = {"batch_size": batch_size, "show_progress": show_progress}
        predictions = self._predictions(X, columns, **options)
        labels = self.classes_.tolist()
        rows = (
            [prediction.probabilities.get(label, 0.0) for label in labels]
            for prediction in predictions
        )
        return np.fromiter(rows, dtype=(np.float64, (len(labels),)))

    def _convert_predictions(self, predictions: Iterator[Any]) -> Any:
        labels = self.classes_.tolist()
        if not self._is_multi_label:
            index_of_label = {label: index for index, label in enumerate(labels)}
            indices = (index_of_label[prediction.label] for prediction in predictions)
            return self.classes_[np.fromiter(indices, np.int64)]
        if not self._is_matrix:
            return [prediction.labels for prediction in predictions]
        rows = ([label in prediction.labels for label in labels] for prediction in predictions)
        return np.fromiter(rows, dtype=(np.int64, (len(labels),)))

    def _row(self, item: Any, label: Any) -> Row:
        if self.multi_label and isinstance(label, Set | tuple):
            label = sorted(label, key=str)  # the order of a set differs from run to run
        return super()._row(item, label)

    def _describe_labels(
        self, source: ExampleSource, y: Any, columns: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the type of the labels, or the names of the columns of a label matrix.

        Raises:
            InputError: the labels are of several types, or lists although `multi_label` is not set.
        """
        if isinstance(source, Path):
            return {}
        names = matrix_names(y) if self.multi_label else None
        if names is not None:
            return {"label_columns": tuple(names)}
        labels = _labels_of(source, columns, self.multi_label)
        # The types are compared, not the labels: True, 1 and 1.0 are equal.
        kinds = sorted({type(label).__name__ for label in labels})
        if len(kinds) > 1:
            raise InputError(
                f"y: found labels of several kinds ({', '.join(kinds)}). Give labels of one kind, "
                "such as strings."
            )
        return {"label_kind": kinds[0]} if kinds and kinds[0] in LABEL_TYPES else {}

    @classmethod
    def _parameters_of(cls, definition: Task[Any, Any]) -> Mapping[str, Any]:
        if not isinstance(definition, MultiLabel):
            return {}
        names = ("threshold", "label_separator")
        return {"multi_label": True, **{name: getattr(definition, name) for name in names}}

    def _set_fitted_attributes(self) -> None:
        definition: Any = self._fitted.definition
        self._is_multi_label = isinstance(definition, MultiLabel)
        # `label_columns` names the columns of a label matrix. `label_values` are the labels with
        # the type that they had in y.
        columns = definition.label_columns if self._is_multi_label else None
        self._is_matrix = columns is not None
        self.classes_ = label_array(columns or sorted(definition.label_values))


def _is_one_hot(values: Any) -> bool:
    """Return whether one of the values is 1 and all others are 0."""
    return sorted(values, key=str) == [0] * (len(values) - 1) + [1]


def _labels_of(
    source: Iterable[Mapping[str, Any]], columns: Mapping[str, Any], is_multi_label: bool
) -> Iterator[Any]:
    """Yield the labels of rows as plain Python values; rows without labels are left out.

    Raises:
        InputError: a label has half of a surrogate pair (half a character), is a dict, or is a list
            although `is_multi_label` is not set; or a list of labels has None or a list in it.
    """
    first_row = list(islice(source, 1))  # `source` can be read again from its beginning
    reader = ExampleReader(first_row, Columns(**{**columns, "skip_incomplete": True}))
    with suppress(InputError):  # the task's reader raises this error later, with more context
        next(iter(reader), None)  # the first row decides in which columns the labels are
    label_column, *other_columns = reader.names.get("label", ("label",))
    if other_columns:  # each label has a column of 0 and 1, so no column holds labels
        return
    # A value is a label, None for a missing one, or a list of labels.
    for index, row in enumerate(source):
        cells = {str(key): value for key, value in row.items()}
        # A plain Python value in place of one of numpy, pandas or `decimal`
        value = plain_number(as_json(cells.get(label_column)))
        is_list = isinstance(value, list | Set)
        labels = value if is_list and is_multi_label else [value]
        for label in labels:
            if isinstance(label, CutText):
                raise InputError(f"y[{index}]: {describe_cut_label(str(label.original))}")
            is_nested = (
                is_list and is_multi_label and (label is None or isinstance(label, list | Set))
            )
            if is_nested or isinstance(label, Mapping):
                raise InputError(
                    f"y[{index}]: found {name_type(label)}. Give a string, a number or a boolean "
                    "as a label."
                )
        if is_list and is_multi_label:
            yield from labels
        elif is_list:
            raise InputError(
                f"y[{index}]: found {name_type(value)}. Pass multi_label=True where a text has "
                f"any number of labels.{_ONE_HOT_ADVICE if _is_one_hot(value) else ''}"
            )
        elif value is not None:
            yield value


class TextRegressor(TextEstimator):
    """Predicts a number for each text, or pair of texts.

    >>> regressor = TextRegressor("runs/reviews-bert").fit(texts, stars)  # doctest: +SKIP
    >>> regressor.predict(["A gripping story."])  # doctest: +SKIP
    array([4.3])
    """

    task = Regress
    kind: ClassVar[Literal["regressor"]] = "regressor"
    several_columns_advice = (
        "numbers for each text, where one is needed. Give one column, such as y[:, 0] of an array."
    )

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[RegressOptions]) -> None:
        super().__init__(model, **settings)

    def _convert_predictions(self, predictions: Iterator[Any]) -> NDArray[np.float64]:
        return np.fromiter((prediction.value for prediction in predictions), np.float64)

    def _row(self, item: Any, label: Any) -> Row:
        if isinstance(label, list | tuple | np.ndarray) and np.ndim(label):
            count = count_noun(len(label), "number")
            raise InputError(
                f"y: found a list of {count} for a text. Give one number for each text."
            )
        return super()._row(item, label)
