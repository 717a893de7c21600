"""The estimator of vectors, whose cosines say how alike texts are."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_texts import Text, check_no_pair, is_table, name_type
from bertsmith.data.table_rows import Row, TableRows
from bertsmith.errors import InputError, warn_once
from bertsmith.estimators.estimator import Estimator
from bertsmith.estimators.options import EmbedOptions
from bertsmith.estimators.outputs import as_output, default_output
from bertsmith.estimators.rows import as_values, plain_column
from bertsmith.system.bounds import check_choice
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.text_vectors import TextVectors

USED_WITHOUT_TRAINING = (
    "model",
    "device",
    "precision",
    "max_length",
    "pooling",
    "threads",
    "seed",
    "verbose",
)
"""Parameters that nobody takes for a wish to train."""


class SentenceEncoder(Estimator):
    """Turns texts into vectors that are near for texts that belong together.

    >>> encoder = SentenceEncoder("runs/reviews-bert")  # doctest: +SKIP
    >>> encoder.fit([("Who flew?", "Ada flew.")]).encode(["Who flies?"])  # doctest: +SKIP

    X holds tuples of two texts that belong together, further ones being texts that do not; with y,
    a number for each pair says how alike the two are. Predictions are the cosines of pairs.

    As a step of a scikit-learn pipeline it turns texts into features: `fit` of single texts leaves
    the encoder as it is, whatever y is. A published encoder needs no `fit` at all.

    >>> pipeline = make_pipeline(SentenceEncoder(path), LogisticRegression())  # doctest: +SKIP
    >>> pipeline.fit(texts, labels).predict(["A gripping story."])  # doctest: +SKIP
    """

    task = Embed
    labels_name: ClassVar[str] = "score"
    names: ClassVar[Mapping[str, str]] = {
        "anchor": "text_column", "positive": "pair_column", "negatives": "negative_columns",
        "score": "label_column",
    }  # fmt: skip
    needs_labels: ClassVar[bool] = False

    _sklearn_output_config: Mapping[str, str] = {}
    """The choice of `set_output`, under scikit-learn's name, by which it copies it."""
    _published: tuple[Mapping[str, Any], Predictor[Any]] | None = None
    """Parameters, and the encoder of the folder that they name, before any `fit`."""

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[EmbedOptions]) -> None:
        super().__init__(model, **settings)

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        **how: Any,
    ) -> Self:
        """Train on texts that belong together; single texts leave the encoder as it is.

        Arguments and errors are those of all estimators.
        """
        check_no_pair(X, "X")
        if isinstance(X, Iterator):
            X = list(X)  # noqa: N806 - it is read more than once
        if not _are_single_texts(X):
            return super().fit(X, y, **how)
        self._settings({})  # what is wrong with the parameters is refused here, too
        self._warn_of_idle_parameters()
        self.predictor_ = self._load_encoder()
        self._columns = {}
        return self

    def _warn_of_idle_parameters(self) -> None:
        """Warn where single texts are given beside parameters of a training."""
        idle = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if name not in USED_WITHOUT_TRAINING and value != self._defaults()[name]
        ]
        if idle and not self._is_loaded:
            warn_once(
                f"fit: X holds single texts, which leave the encoder as it is, so that "
                f"{', '.join(idle)} changes nothing. To train it, give tuples of two texts that "
                "belong together, such as [(question, answer), …]; otherwise leave these out."
            )

    def fit_transform(self, X: Any, y: Any = None, **how: Any) -> Any:  # noqa: N803
        """Fit to texts, and compute their vectors."""
        if isinstance(X, Iterator):
            X = list(X)  # noqa: N806 - it is read more than once
        return self.fit(X, y, **how).transform(X)

    @property
    def _fitted(self) -> Predictor[Any]:
        """The trained encoder, or that of the folder: what is published is fitted already."""
        if self.__sklearn_is_fitted__():
            return self.predictor_
        if self._published is None or self._published[0] != self.get_params():
            self._published = self.get_params(), self._load_encoder()
        return self._published[1]

    def _load_encoder(self) -> Predictor[Any]:
        settings = self._settings({})
        predictor = self._open(settings.model, settings)
        if settings.pooling is None:
            return predictor
        definition = predictor.definition
        pooled = replace(definition.folder, pooling=settings.pooling)
        return predictor.with_definition(replace(definition, folder=pooled))

    def _open(self, folder: Path, settings: Any) -> Predictor[Any]:
        return Predictor.load(
            folder,
            Embed,
            device=settings.device,
            precision=settings.precision,
            max_length=settings.max_length,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_published", None)  # read again from its folder
        return state

    def encode(
        self,
        texts: str | Iterable[Text],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> NDArray[np.float32]:
        """Compute the vector of one text, `[hidden]`, or those of several, `[texts, hidden]`.

        They are fp32.

        Raises:
            InputError: an item is not a text or pair of texts; names its position.
        """
        predictor = self._fitted
        if (pooling := self.get_params()["pooling"]) is not None:
            vectors = TextVectors.restore(predictor.loaded)
            predictor = predictor.with_definition(replace(vectors, pooling=pooling))
        return predictor.encode(texts, batch_size=batch_size, show_progress=show_progress)

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Compute the vectors of texts, fp32 `[texts, hidden]`, as a step of a pipeline.

        They are a table of pandas or polars where `set_output` asks for one.

        Raises:
            InputError: X is one text.
        """
        if isinstance(X, str | os.PathLike):
            raise InputError(
                f"X: found {name_type(X)}. Give a list of texts: transform([text, ...]). The "
                "vector of one text is encode(text)."
            )
        vectors = self.encode(_texts_of(X))
        kind = self._sklearn_output_config.get("transform") or default_output()
        return as_output(kind, vectors, self.get_feature_names_out(), X)

    def set_output(
        self, *, transform: Literal["default", "pandas", "polars"] | None = None
    ) -> Self:
        """Choose what `transform` returns: an array (default), or a table of pandas or polars.

        Raises:
            ConfigError: another kind.
        """
        if transform is not None:
            check_choice("transform", transform, ("default", "pandas", "polars"))
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of `transform`, an array of strings `[hidden]`.

        They are sentenceencoder0, sentenceencoder1, …
        """
        size = self._fitted.model.config.hidden_size
        name = type(self).__name__.lower()
        return np.array([f"{name}{number}" for number in range(size)], dtype=object)

    def __sklearn_clone__(self) -> Self:
        twin = super().__sklearn_clone__()
        twin._is_loaded = self._is_loaded
        twin._sklearn_output_config = dict(self._sklearn_output_config)
        return twin

    def __sklearn_tags__(self) -> Any:
        # scikit-learn calls this, so it is there; for everybody else it is an extra.
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.requires_fit = False
        return tags

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


def _are_single_texts(data: Any) -> bool:
    """Return whether X holds texts, and no pairs, rows, or tables of several columns."""
    if isinstance(data, str | os.PathLike | Mapping):
        return False
    if is_table(data):
        return len(TableRows(data).names) == 1
    items = iter(_texts_of(data)) if isinstance(data, Iterable) else iter(())
    return isinstance(next(items, None), str)


def _texts_of(data: Any) -> Any:
    """Return the texts of a table or matrix of one column; `data` otherwise."""
    if is_table(data) and len(TableRows(data).names) == 1:
        return [value for row in TableRows(data) for value in row.values()]
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == 1:
        return data[:, 0].tolist()
    return list(data) if isinstance(data, np.ndarray) else plain_column(data)
