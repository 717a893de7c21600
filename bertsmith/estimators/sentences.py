"""The estimator of vectors, whose cosines say how alike texts are."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_texts import Text, name_type
from bertsmith.data.table_rows import Row
from bertsmith.errors import InputError
from bertsmith.estimators.estimator import Estimator
from bertsmith.estimators.options import EmbedOptions
from bertsmith.estimators.rows import as_values
from bertsmith.tasks.sentence_embedding import Embed


class SentenceEncoder(Estimator):
    """Turns texts into vectors that are near for texts that belong together.

    >>> encoder = SentenceEncoder("runs/reviews-bert")  # doctest: +SKIP
    >>> encoder.fit([("Who flew?", "Ada flew.")]).encode(["Who flies?"])  # doctest: +SKIP

    X holds tuples of two texts that belong together, further ones being texts that do not; with y,
    a number for each pair says how alike the two are. Predictions are the cosines of pairs.
    """

    task = Embed
    labels_name: ClassVar[str] = "score"
    names: ClassVar[Mapping[str, str]] = {
        "anchor": "text_column", "positive": "pair_column", "negatives": "negative_columns",
        "score": "label_column",
    }  # fmt: skip
    needs_labels: ClassVar[bool] = False

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[EmbedOptions]) -> None:
        super().__init__(model, **settings)

    def encode(
        self,
        texts: str | Iterable[Text],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> NDArray[np.float32]:
        """Compute the vector of one text, `[hidden]`, or those of several, `[texts, hidden]`."""
        return self._fitted.encode(texts, batch_size=batch_size, show_progress=show_progress)

    def transform(self, X: Iterable[Text]) -> NDArray[np.float32]:  # noqa: N803
        """Compute the vectors of texts, fp32 `[texts, hidden]`, as a step of a pipeline."""
        return self.encode(X)

    def similarity(self, a: Any, b: Any) -> Any:
        """Compute the cosines of texts or vectors, as `Predictor.similarity` does."""
        return self._fitted.similarity(a, b)

    def _row(self, item: Any, label: Any) -> Row:
        values = as_values(item)
        if len(values) < 2:
            raise InputError(
                f"X: found {name_type(item)}. Give tuples of texts that belong together."
            )
        row: Row = {"anchor": values[0], "positive": values[1]}
        if values[2:]:
            row["negatives"] = list(values[2:])
        return row if label is None else {**row, "score": label}

    def _answers(self, predictions: Iterator[Any]) -> NDArray[np.float64]:
        return np.fromiter((prediction.cosine for prediction in predictions), np.float64)
