"""The estimator of text vectors, whose cosines measure how similar two texts are."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_texts import Text, check_no_pair, is_table, name_type
from bertsmith.data.table_rows import Row, TableRows
from bertsmith.errors import CheckpointError, InputError, warn_once
from bertsmith.estimators.estimator import Estimator
from bertsmith.estimators.options import EmbedOptions
from bertsmith.estimators.outputs import as_output, default_output
from bertsmith.estimators.rows import as_values, plain_column
from bertsmith.system.bounds import check_choice
from bertsmith.system.nested_folder import inner_folder
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.sentence_folder import Pooling, SentenceFolder
from bertsmith.tasks.settings.vector_losses import is_own_loss
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
"""Parameters that have an effect without training. If the user sets others, training was probably
intended."""

FIT_ARGUMENTS = {"eval", "limit", "show_progress", "callbacks"}
"""Arguments of `fit` by name that are no options for reading."""


class SentenceEncoder(Estimator):
    """Turns texts into vectors that are close to each other for texts that belong together.

    >>> encoder = SentenceEncoder("runs/reviews-bert")  # doctest: +SKIP
    >>> encoder.fit([("Who flew?", "Ada flew.")]).encode(["Who flies?"])  # doctest: +SKIP

    X holds tuples of two texts that belong together, such as a question and its answer. Further
    texts in a tuple are negatives: they do not belong to the first. If y is passed, it holds for
    each pair a number that says how similar its texts are. `predict` returns the cosines of pairs.

    In a scikit-learn pipeline, the encoder turns texts into features: if X holds single texts,
    `fit` does not train, whatever y is. A published encoder, whose vectors are good already, needs
    no `fit` at all.

    >>> pipeline = make_pipeline(SentenceEncoder(path), LogisticRegression())  # doctest: +SKIP
    >>> pipeline.fit(texts, labels).predict(["A gripping story."])  # doctest: +SKIP
    """

    task = Embed
    labels_name: ClassVar[str] = "score"
    column_options: ClassVar[Mapping[str, str]] = {
        "anchor": "text_column", "positive": "pair_column", "negatives": "negative_columns",
        "score": "label_column",
    }  # fmt: skip
    needs_labels: ClassVar[bool] = False

    _sklearn_output_config: Mapping[str, str] = {}
    """The choice of `set_output`, in the attribute that scikit-learn reads."""
    _published: tuple[Mapping[str, Any], Predictor[Any]] | None = None
    """For an encoder that is used without `fit`: its parameters, and its predictor, which is loaded
    from `model` when it is first needed."""

    def __init__(self, model: str | os.PathLike[str], **settings: Unpack[EmbedOptions]) -> None:
        super().__init__(model, **settings)

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        **options: Any,
    ) -> Self:
        """Train on texts that belong together; return the encoder.

        If X holds single texts, nothing is trained. The options are those of `TextClassifier.fit`,
        such as `eval`, and so are the errors.
        """
        check_no_pair(X, "X")
        if isinstance(X, Iterator):
            X = list(X)  # noqa: N806 - it is read more than once
        if not _are_single_texts(X):
            return super().fit(X, y, **options)
        # Raises an error if a parameter, or an option of reading, is not allowed.
        self._settings({name: options[name] for name in options.keys() - FIT_ARGUMENTS})
        self._warn_of_unused_parameters()
        self.predictor_ = self._load_encoder()
        self._columns = {}
        vars(self).pop("result_", None)  # of an earlier training, whose model is no longer here
        return self

    def _warn_of_unused_parameters(self) -> None:
        """Warn of parameters that are for training, since single texts train nothing."""
        unused = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if name not in USED_WITHOUT_TRAINING and value != self._defaults()[name]
        ]
        if unused and not self._is_loaded:
            warn_once(
                "fit: X holds single texts, which do not train the encoder, so these parameters "
                f"have no effect: {', '.join(unused)}. To train, give tuples of two texts that "
                "belong together, such as [(question, answer), …]; otherwise leave the parameters "
                "out."
            )

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:  # noqa: N803
        """Call `fit`, then compute the vectors of X as `transform` does."""
        if isinstance(X, Iterator):
            X = list(X)  # noqa: N806 - it is read more than once
        return self.fit(X, y, **options).transform(X)

    @property
    def _fitted(self) -> Predictor[Any]:
        """The fitted encoder; before `fit`, the published encoder that `model` names."""
        if self.__sklearn_is_fitted__():
            return self.predictor_
        if self._published is None or self._published[0] != self.get_params():
            self._published = self.get_params(), self._load_encoder()
        return self._published[1]

    @classmethod
    def _parameters_of(cls, definition: Any) -> Mapping[str, Any]:
        """Return the default loss if the model was trained with a loss of the user's own.

        The name of such a loss comes from a file, and a file must not name code that `fit` runs.
        """
        if not is_own_loss(definition.loss):
            return {}
        warn_once(
            f"load: the model was trained with the loss {definition.loss!r}, which is code of your "
            "own. `fit` would take the default: pass the function with set_params(loss=…) before."
        )
        return {"loss": cls._defaults()["loss"]}

    def save(self, out: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fitted encoder's folder, with the pooling that the encoder has.

        Raises:
            ConfigError: `out` holds files that are not a model's, or holds a model and `overwrite`
                is not set.
        """
        folder = super().save(out, overwrite=overwrite)
        predictor = self._fitted
        # The files of the model may name another pooling than the parameter `pooling` chose. A
        # folder of sentence-transformers may have the model in a folder inside; then only the file
        # that names the pooling is written.
        if not _names_pooling(folder, predictor.definition.pooling):
            if inner_folder(folder) is None:
                predictor.definition.write_files(folder)
            else:
                hidden_size = predictor.model.config.hidden_size
                # `definition.folder` is a `SentenceFolder`: what such folders say of the pooling.
                predictor.definition.folder.write_pooling(folder, hidden_size)
        return folder

    def _load_encoder(self) -> Predictor[Any]:
        """Load the encoder that `model` names, with the pooling that the parameters choose."""
        settings = self._settings({})
        return self._open(settings.model, settings, pooling=settings.pooling)

    def _open(self, folder: Path, settings: Any, **loading: Any) -> Predictor[Any]:
        """Load a folder for the task `Embed`, whatever its own task; also with `max_length`."""
        names = ("device", "precision", "max_length")
        options = {name: getattr(settings, name) for name in names}
        return Predictor.load(folder, Embed, **{**options, **loading})

    def _loading_of(self, predictor: Predictor[Any]) -> dict[str, Any]:
        """Return the arguments with which a predictor was loaded, with the pooling."""
        return {**super()._loading_of(predictor), "pooling": predictor.definition.pooling}

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_published", None)  # it is loaded again from its folder
        return state

    def encode(
        self,
        texts: str | Iterable[Text],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> NDArray[np.float32]:
        """Compute the vector of one text, fp32 `[hidden]`, or of several, fp32 `[texts, hidden]`.

        Raises:
            InputError: an item is not a text or pair of texts; names its position.
        """
        return self._encoder.encode(texts, batch_size=batch_size, show_progress=show_progress)

    @property
    def _encoder(self) -> Predictor[Any]:
        """The fitted encoder, with the pooling of the parameter `pooling` if that is set."""
        predictor = self._fitted
        pooling = self.get_params()["pooling"]
        if pooling is None:
            return predictor
        # `TextVectors` computes vectors as the task `Embed` does, here with another pooling.
        return predictor.with_definition(TextVectors.restore(predictor.loaded, pooling=pooling))

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Compute the vectors of texts, fp32 `[texts, hidden]`, as a step of a pipeline.

        The result is a table of pandas or polars if `set_output` chose one.

        Raises:
            InputError: X is one text or a path, or an item is not a text or pair of texts.
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
            ConfigError: `transform` has another value.
        """
        if transform is not None:
            check_choice("transform", transform, ("default", "pandas", "polars"))
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of `transform`, an array of strings `[hidden]`.

        The names are sentenceencoder0, sentenceencoder1, …
        """
        size = self._fitted.model.config.hidden_size
        name = type(self).__name__.lower()
        return np.array([f"{name}{number}" for number in range(size)], dtype=object)

    def __sklearn_clone__(self) -> Self:
        clone = super().__sklearn_clone__()
        clone._is_loaded = self._is_loaded
        clone._sklearn_output_config = dict(self._sklearn_output_config)
        return clone

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this method, so it is installed here; elsewhere it may be missing.
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.requires_fit = False
        return tags

    def similarity(self, a: Any, b: Any) -> Any:
        """Compute the cosines of texts, or of vectors that `encode` returned.

        Two texts give a number from -1 to 1; lists, or arrays of vectors, give an fp32 array
        `[len(a), len(b)]`. If `similarity_fn_name` of the model's folder is dot, euclidean or
        manhattan, the results are dot products or negative distances instead of cosines.

        Raises:
            InputError: an item is not a text, pair of texts, or array of vectors.
        """
        return self._encoder.similarity(a, b)

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

    def _convert_predictions(self, predictions: Iterator[Any]) -> NDArray[np.float64]:
        return np.fromiter((prediction.cosine for prediction in predictions), np.float64)


def _names_pooling(folder: Path, pooling: Pooling) -> bool:
    """Return whether the files of a folder name this pooling."""
    try:
        return SentenceFolder.read(SmallFiles(folder)).pooling == pooling
    except CheckpointError:  # the files name an unsupported pooling
        return False


def _are_single_texts(data: Any) -> bool:
    """Return whether the items of X are single texts; the first item decides.

    A table holds single texts if it has one column.
    """
    if isinstance(data, str | os.PathLike | Mapping):  # a file, or a dict of columns
        return False
    if is_table(data):
        return len(TableRows(data).names) == 1
    items = iter(_texts_of(data)) if isinstance(data, Iterable) else iter(())
    return isinstance(next(items, None), str)


def _texts_of(data: Any) -> Any:
    """Return the texts of X, which may be a table or matrix of one column."""
    if is_table(data) and len(TableRows(data).names) == 1:
        return [value for row in TableRows(data) for value in row.values()]
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == 1:
        return data[:, 0].tolist()
    return list(data) if isinstance(data, np.ndarray) else plain_column(data)
