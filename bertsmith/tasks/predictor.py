"""The predictor, a loaded model with its task, which is called with texts and predicts.

One class serves every task. A record is a dictionary of the values of an example, such as a
question and its passage. A chunk is a list of examples that are read, encoded and predicted
together.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from bertsmith.config import from_mapping
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import (
    Text,
    as_items,
    check_no_pair,
    encode_texts,
    iter_pairs,
    name_type,
)
from bertsmith.data.json_rows import list_names
from bertsmith.data.labels import label_array
from bertsmith.data.reader import count_chars
from bertsmith.data.table_rows import as_named, check_names_file, warn_of_file_name
from bertsmith.data.tables import check_delimiter
from bertsmith.data.text_files import IN_MEMORY, ExampleSource
from bertsmith.data.unknown_tokens import UnknownTokens
from bertsmith.errors import ConfigError, InputError, SettingError
from bertsmith.model.bert import BertModel
from bertsmith.model.card_name import rename_card
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.saving import copy_folder, write_task_settings
from bertsmith.system.nested_folder import model_directory
from bertsmith.system.progress import only_bar, progress_bar
from bertsmith.tasks.chunk_predictor import ChunkPredictor
from bertsmith.tasks.inference import LoadedModel, load_for_inference
from bertsmith.tasks.notebook_tables import Predictions
from bertsmith.tasks.prediction import InferenceTask
from bertsmith.tasks.protocols import PredictionT
from bertsmith.tasks.scoring import Evaluation, MetricAccumulator, Outcome
from bertsmith.tasks.similarity import compute_similarity
from bertsmith.tasks.task import Task, named_settings
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.workers.rank_group import RankGroup
from bertsmith.training.workers.rank_map import map_on_ranks

CHUNK_EXAMPLES = 1024
"""Number of examples in a chunk, which are read, sorted by length and predicted together. Larger
chunks gain little speed and delay the output."""
CHUNK_CHARS = 4_000_000
"""Largest number of characters in a chunk; a chunk of long examples has fewer of them."""

Item = TypeVar("Item", bound=Any)
DefinitionT = TypeVar("DefinitionT", bound=InferenceTask[Any, Any])
DefinitionT_co = TypeVar("DefinitionT_co", bound=InferenceTask[Any, Any], covariant=True)
Vectors = NDArray[np.float32]


class LoadedDefinition(Generic[DefinitionT_co]):
    """The state of a predictor: a loaded model, and its task in `definition`.

    The task says how examples are encoded and outputs decoded. The subclass `Predictor` adds the
    methods that predict.
    """

    def __init__(self, loaded: LoadedModel, definition: DefinitionT_co) -> None:
        self.loaded = loaded
        self.definition = definition
        self.unknown_tokens = UnknownTokens()
        """Counts of the unknown tokens so far; copies of the predictor share this object."""
        self.ranks: RankGroup | None = None
        """The ranks (machines or GPUs) that each predict some of the chunks. A command that runs on
        several ranks sets this attribute; None if this process predicts all chunks."""

    @property
    def task(self) -> str:
        """The tag of the Hugging Face pipeline for the task, such as text-classification."""
        return self.definition.pipeline

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels, in the order of `probabilities`; empty for a task without labels."""
        definition = self.definition
        # `labels` are strings, as in config.json; `label_values` have the type that the labels had
        # in training, such as int. Some tasks have only `labels`, others neither.
        return getattr(definition, "label_values", getattr(definition, "labels", ()))

    @property
    def classes_(self) -> NDArray[Any]:
        """The `labels` as an array `[labels]`, under scikit-learn's name."""
        return label_array(self.labels)

    @property
    def model(self) -> BertModel:
        """The model, a torch module."""
        return self.loaded.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        return self.loaded.tokenizer

    @property
    def device(self) -> str:
        """The device that computes, such as cpu or cuda:0."""
        return str(self.loaded.device)


class Predictor(LoadedDefinition[DefinitionT_co]):
    """A loaded model that is called with texts or records.

    >>> classifier = load("runs/reviews")  # doctest: +SKIP
    >>> classifier("a gripping story").label  # doctest: +SKIP
    'positive'

    A call with a text or a record returns a prediction. If an example has several values, they are
    arguments: `answerer(question, passage)`. A call with a list of texts, of records, or of tuples
    of values returns a list of predictions. A pair of texts is a tuple in a list: `[(a, b)]`.

    `batch_size` is the number of examples that are read and encoded at a time (1,024 by default).
    It does not bound the size of a forward pass, which has a limit on tokens. `show_progress` shows
    a bar. A predictor can be pickled; the pickle holds the model.
    """

    def __repr__(self) -> str:
        loaded = self.loaded
        names = getattr(self.definition, "labels", ())
        labels = f", labels {list_names(names)}" if names else ""
        compute = f"{loaded.device}, {loaded.precision}"
        return f"<Predictor {self.task} of '{loaded.folder.path}'{labels}, {compute}>"

    @classmethod
    def load(
        cls,
        path: str | Path | ModelFolder,
        definition: type[DefinitionT_co],
        *,
        device: str = "auto",
        precision: str = "auto",
        max_length: int | None = None,
        **options: Any,
    ) -> Self:
        """Load a model folder for the task of the class `definition`.

        `options` are further arguments of the task's `restore`. `max_length` counts tokens, special
        ones included.

        Raises:
            CheckpointError: the folder is incomplete, or has another head.
            ConfigError: this machine has no such device or precision, or an option is not allowed.
        """
        loaded = load_for_inference(
            path if isinstance(path, ModelFolder) else read_folder(path),
            heads=definition.heads,
            device=device,
            precision=precision,
            max_length=max_length,
        )
        return cls(loaded, definition.restore(loaded, **options))

    def example(self, record: Mapping[str, Any]) -> Any:
        """Build the task's example of a record, such as `{"question": "…", "context": "…"}`.

        Raises:
            InputError: a field is missing or of another type.
        """
        return self.definition.example(record)

    def predict(
        self: "Predictor[InferenceTask[Any, PredictionT]]",
        inputs: Iterable[Any],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[PredictionT]:
        """Predict each of several texts, records or examples, in order.

        Raises:
            InputError: a value is missing or of another type; names its position.
        """
        pairs = self.iter_predictions(inputs, batch_size=batch_size, show_progress=show_progress)
        # A list, which a notebook shows as a table.
        return Predictions(pairs, self.definition.titles)

    def iter_predictions(
        self: "Predictor[InferenceTask[Any, PredictionT]]",
        inputs: Iterable[Any],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
        is_waiting: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[Any, PredictionT]]:
        """Yield each example with its prediction, in order, in bounded memory.

        `is_waiting` returns whether the next example has not arrived yet. The examples before it
        are then predicted at once.

        Raises:
            InputError: a value is missing or of another type; names its position.
        """
        check_no_pair(inputs, "examples")  # refuses a tuple of two texts, which might be one pair
        # Lists, arrays and columns of tables are accepted; an error shows how to make a list.
        items = as_items(inputs, "examples", _list_of_columns(self.definition.fields))
        total = len(items) if isinstance(items, Sized) else None
        # `advance` moves the bar on by a number of examples.
        with _progress("predicting", total, shown=show_progress) as advance:
            chunks = in_chunks(self._as_examples(items), check_batch_size(batch_size), is_waiting)
            # A stream of examples, with `is_waiting`, is predicted by this process alone: ranks
            # answer only once each of them has a chunk.
            for chunk, predictions in self.predict_chunks(chunks, on_ranks=is_waiting is None):
                yield from zip(chunk, predictions, strict=True)
                advance(len(chunk))

    def probabilities(
        self, inputs: Iterable[Any], *, batch_size: int | None = None, show_progress: bool = False
    ) -> Any:
        """Compute the probability of each label, fp64 `[texts, labels]`, in the order of `labels`.

        A tagger gives a list with an array `[words, labels]` for each sentence, as sentences differ
        in length. Multiple choice gives a list with an array `[choices]` for each prompt.

        Raises:
            InputError: a value is missing or of another type; names its position.
            ConfigError: the model has no labels to choose from.
        """
        if not (self.labels or self.task == "multiple-choice"):
            raise ConfigError(
                f"probabilities: {self!r} has no labels to choose from. Read its predictions "
                "instead."
            )
        pairs = self.iter_predictions(inputs, batch_size=batch_size, show_progress=show_progress)

        def rows() -> Iterator[Any]:
            for _, prediction in pairs:
                row = prediction.probabilities  # of a classifier, a dictionary by label
                yield list(row.values()) if isinstance(row, Mapping) else row

        if self.task == "text-classification":
            return np.fromiter(rows(), dtype=(np.float64, len(self.labels)))
        return [np.array(row, dtype=np.float64) for row in rows()]

    def predict_chunks(
        self: "Predictor[InferenceTask[Any, PredictionT]]",
        chunks: Iterable[list[Any]],
        *,
        on_ranks: bool = True,
    ) -> Iterator[tuple[list[Any], list[PredictionT]]]:
        """Yield each chunk of examples with its predictions, in order.

        If there are `ranks` (processes on several machines or GPUs) and `on_ranks` is true, each
        rank predicts one chunk at a time. On machines of one kind, the predictions are those of a
        single process.
        """
        if self.ranks is None or not on_ranks:
            for chunk in chunks:
                yield chunk, self._predict(chunk)
            return
        chunks_sent: deque[list[Any]] = deque()  # those whose predictions have not come back

        def send_chunks() -> Iterator[list[Any]]:
            for chunk in chunks:
                chunks_sent.append(chunk)
                yield chunk

        results = map_on_ranks(
            self.ranks,
            ChunkPredictor.of(self.loaded, self.definition),
            send_chunks(),
            # The other ranks compute in this process's number format. Int8 layers output fp32.
            precision="bf16" if self.loaded.precision == "bf16" else "fp32",
        )
        for predictions, unknown_tokens in results:
            self._merge_unknown(unknown_tokens)
            yield chunks_sent.popleft(), predictions

    def _predict(self, examples: Sequence[Any]) -> list[Any]:
        """Predict a chunk in this process."""
        predict = ChunkPredictor(self.loaded, self.definition, self.loaded.device.type)
        predictions, unknown_tokens = predict(examples)
        self._merge_unknown(unknown_tokens)
        return predictions

    def evaluate(self, data: Any, **columns: Any) -> Evaluation:
        """Score the model on labelled data; return the report of `bertsmith evaluate`.

        >>> print(load("runs/reviews").evaluate("dev.tsv"))  # doctest: +SKIP

        Args:
            data: the name of a file; or a table (pandas, polars, pyarrow, datasets, a dict of
                columns such as `{"text": texts, "label": labels}`), or rows (a list of dicts).
            columns: options for reading the data, such as text_column and label_column.

        Raises:
            InputError: an example cannot be read, or has a label that the model does not know.
            ConfigError: the model's task has no scores, or an option is unknown.
        """
        definition = self.definition
        if not isinstance(definition, Task):
            raise ConfigError(
                f"evaluate: {self!r} is not fine-tuned for a task, so there is nothing to score. "
                "Give a model that bertsmith finetune or the fit of an estimator wrote."
            )
        if isinstance(data, str):
            check_names_file(data)
            data = Path(data)
        source = as_named(data, "data")
        if source is None:  # neither a file, nor a table, nor a list of dictionaries
            raise InputError(
                f"data: found {name_type(data)}. Give a table or rows with texts and labels, such "
                'as {"text": texts, "label": labels}, or the name of a file.'
            )
        # The predictor's own options, such as `repair`, apply unless the call gives others.
        own_options = {name: getattr(definition, name) for name in definition.kept_columns}
        # An unknown option, or a wrong value, is an error.
        options = from_mapping(definition.columns, own_options | columns, "evaluate")
        check_delimiter(options, source)
        accumulator, num_skipped = accumulate_rows(
            self.with_definition(definition), source, options
        )
        return accumulator.result(num_skipped)

    def _merge_unknown(self, unknown_tokens: UnknownTokens) -> None:
        """Add the counts of a chunk's unknown tokens, and warn once if there are many."""
        self.unknown_tokens.merge(unknown_tokens)
        self.unknown_tokens.warn(self.loaded.folder.path)

    def num_tokens(self, example: Any) -> int:
        """Count the tokens that the model reads for an example, over all its rows."""
        return self.encode_examples([example]).lengths[0]

    @overload
    def __call__(
        self: "Predictor[InferenceTask[Any, PredictionT]]",
        inputs: str | Mapping[str, Any],
        *more: Any,
        batch_size: int | None = ...,
        show_progress: bool = ...,
    ) -> PredictionT: ...

    @overload
    def __call__(
        self: "Predictor[InferenceTask[Any, PredictionT]]",
        inputs: Iterable[Any],
        *,
        batch_size: int | None = ...,
        show_progress: bool = ...,
    ) -> list[PredictionT]: ...

    def __call__(
        self,
        inputs: Any,
        *more: Any,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Any:
        """Predict one text or record, or each of a list of them.

        Raises:
            InputError: a value is missing or of another type; names its position.
        """
        if isinstance(inputs, str | Mapping):
            for text in (inputs, *more):
                warn_of_file_name(text)  # which is still read as a text
            example = self._as_example((inputs, *more) if more else inputs)
            return self._predict([example])[0]
        if more:
            fields = self.definition.fields
            raise InputError(
                f"{fields[-1]}: found {name_type(more[0])} beside several. Give one list: "
                f"[({', '.join(fields)}), ...]."
            )
        return self.predict(inputs, batch_size=batch_size, show_progress=show_progress)

    def _as_examples(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield an example of each item.

        Raises:
            InputError: an item is not a text or record of this task; names its position.
        """
        for index, item in enumerate(items):
            try:
                yield self._as_example(item)
            except InputError as error:
                raise InputError(f"examples[{index}]: {error.message}") from None

    def _as_example(self, value: Any) -> Any:
        """Build an example of a value: an example, a record, a text, or a tuple of several values.

        Raises:
            InputError: the value is none of them, or has too many parts.
        """
        definition = self.definition
        if isinstance(value, definition.example_type):
            return value
        if isinstance(value, Mapping):
            return self.example(value)
        fields = definition.fields  # the keys of a record, in the order of the values
        if len(fields) > 1:
            are_values = isinstance(value, tuple | list)
        else:  # a list, such as the words of a sentence, is the value of the only field
            are_values = isinstance(value, tuple) and len(value) == 1
        values = value if are_values else (value,)
        if len(values) > len(fields):
            raise InputError(f"found {name_type(value)}. Give {' and '.join(fields)}.")
        return self.example(dict(zip(fields, values, strict=False)))

    def encode(
        self,
        texts: str | Iterable[Text],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Vectors:
        """Compute the vector of one text, fp32 `[hidden]`, or of several, fp32 `[texts, hidden]`.

        Raises:
            InputError: an item is not a text or pair of texts; names its position.
        """
        if isinstance(texts, str):
            warn_of_file_name(texts)
            return self.encode([texts])[0]
        size = check_batch_size(batch_size)
        text_vectors = self._text_vectors  # says how a text becomes one vector
        loaded = self.loaded
        max_length = min(text_vectors.max_length, loaded.max_length)
        # `iter_pairs` checks each text. Texts that can be read twice are counted first, so that all
        # are checked before any is computed. An iterator can be read only once.
        total = None if isinstance(texts, Iterator) else sum(1 for _ in iter_pairs(texts))

        def vectors() -> Iterator[Vectors]:
            pairs = iter_pairs(texts)
            while chunk := list(islice(pairs, size)):
                rows = encode_texts(
                    loaded.tokenizer, chunk, max_length, text_vectors.truncation_side
                )
                self.unknown_tokens.add(rows.ids.flat, loaded.tokenizer)
                self.unknown_tokens.warn(loaded.folder.path)
                yield from text_vectors.vectors(loaded.model, rows)
                # The bar's function, which is defined below, before any vector is computed.
                advance(len(chunk))

        with _progress("encoding", total, shown=show_progress) as advance:
            vector_type = np.dtype((np.float32, (loaded.model.config.hidden_size,)))
            return np.fromiter(vectors(), vector_type, -1 if total is None else total)

    def similarity(self, a: Any, b: Any) -> Any:
        """Compute the cosines of texts, or of vectors that `encode` returned.

        Two texts give a number from -1 to 1; lists, or arrays of vectors, give an fp32 array
        `[len(a), len(b)]`. If `similarity_fn_name` of the model's folder is dot, euclidean or
        manhattan, the results are dot products or negative distances instead of cosines.

        Raises:
            InputError: an item is not a text, pair of texts, or array of vectors, or the vectors
                of `a` and `b` have different lengths.
        """
        first = self._as_vectors(a)
        second = self._as_vectors(b)
        size, other_size = first.shape[-1], second.shape[-1]
        if size != other_size:
            raise InputError(
                f"similarity: found vectors of {size:,} and of {other_size:,} numbers. Give "
                "vectors of one length."
            )
        similarities = compute_similarity(
            np.atleast_2d(first), np.atleast_2d(second), self._text_vectors.similarity
        )
        return float(similarities[0, 0]) if first.ndim == second.ndim == 1 else similarities

    def _as_vectors(self, value: Any) -> Vectors:
        """Return vectors in fp32, `[hidden]` or `[vectors, hidden]`, and encode texts."""
        if not (isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating)):
            return self.encode(value)
        if value.ndim not in (1, 2):
            raise InputError(
                f"similarity: found an array of {value.ndim} dimensions. Give one vector, or an "
                "array with a vector in each row."
            )
        return value.astype(np.float32, copy=False)

    @cached_property
    def _text_vectors(self) -> TextVectors:
        """The settings by which `encode` computes the vectors of texts, such as the pooling."""
        if isinstance(self.definition, TextVectors):
            return self.definition
        # The pooling of a task that compares vectors takes precedence over the one that the folder
        # names. Other tasks have no pooling.
        pooling = getattr(self.definition, "pooling", None)
        return TextVectors.restore(self.loaded, pooling=pooling)

    def encode_examples(self, examples: Sequence[Any]) -> EncodedExamples:
        """Encode examples; a long text is cut at the model's maximum length or read in windows."""
        loaded = self.loaded
        return self.definition.encode(loaded.tokenizer, examples, loaded.max_length, labelled=False)

    def with_definition(self, definition: DefinitionT) -> "Predictor[DefinitionT]":
        """Return a copy with another inference task of the same head."""
        copy = Predictor(self.loaded, definition)
        # Shared, so that a warning of unknown tokens is shown once for all copies.
        copy.unknown_tokens = self.unknown_tokens
        copy.ranks = self.ranks
        return copy

    def with_options(self, **changes: Any) -> Self:
        """Return a copy with other options, such as `threshold=0.7`, `repair=True` or `top=10`.

        Raises:
            ConfigError: the predictor has no such option.
        """
        definition: Any = self.definition
        allowed = {field.name for field in fields(definition)}
        if unknown := sorted(changes.keys() - allowed):
            names = ", ".join(sorted(allowed))
            raise ConfigError(f"There is no option {', '.join(unknown)}. Options are: {names}.")
        # Numbers of numpy become Python's, since JSON, to which `save` writes, has no others.
        plain = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in changes.items()
        }
        return self.with_definition(replace(definition, **plain))  # type: ignore[return-value]

    def to(self, device: str) -> Self:
        """Move the model to a device by reading its folder again; return the predictor itself.

        Raises:
            ConfigError: this machine has no such device.
            CheckpointError: the folder no longer exists.
        """
        self.loaded = self.loaded.reload(
            self.definition.heads, device, self.loaded.requested_precision
        )
        self.definition = self.definition.with_loaded(self.loaded)
        return self

    def save(self, out: str | Path, *, overwrite: bool = False) -> Path:
        """Write the model's folder to `out`, with the settings of its task, such as `threshold`.

        Options that training does not set are not kept: `top`, `repair` and `strict` of a tagger,
        and the options of vectors. Give them to `with_options` again.

        Raises:
            ConfigError: `out` holds files that are not a model's, or holds a model and `overwrite`
                is not set.
            CheckpointError: the folder that the model was loaded from no longer exists.
        """
        folder = copy_folder(self.loaded.folder.path, Path(out), overwrite=overwrite)
        if isinstance(self.definition, Task):
            # The model may be in a subfolder, as in folders of sentence-transformers.
            write_task_settings(model_directory(folder), named_settings(self.definition))
        rename_card(folder)  # the model card names the folder
        return folder


class OutcomeCallback(Protocol):
    """A receiver of outcomes: the gold answer, prediction and score of each example."""

    def add(self, examples: Sequence[Any], outcomes: Sequence[Outcome]) -> None:
        """Receive a chunk of examples and their outcomes."""
        ...


def accumulate_rows(
    predictor: Predictor[Task[Any, Any]],
    source: ExampleSource,
    columns: Any,
    *,
    limit: int | None = None,
    callbacks: Sequence[OutcomeCallback] = (),
) -> tuple[MetricAccumulator, int]:
    """Predict the labelled rows of a file or of a table in memory, and add up their scores.

    Args:
        columns: options for reading the rows, such as the names of the columns.
        limit: number of rows to take, from the first; None takes all.
        callbacks: receive the outcome of each example.

    Returns:
        The scores, and the number of rows that were skipped.

    Raises:
        ConfigError: `limit` is not above 0.
        InputError: a row cannot be read, or has a label that the model does not know.
    """
    task = predictor.definition.with_columns(columns)
    reader = task.reader(source, columns, labelled=True)
    predictor = predictor.with_definition(task)
    path = source if isinstance(source, Path) else IN_MEMORY
    # One bar, whose total `reader.count` returns; reading shows no bar of its own.
    with only_bar("evaluating", partial(reader.count, limit)) as advance:
        examples = reader.first(limit)  # an iterator, so that a file may have any size
        accumulator = accumulate_examples(predictor, examples, path, callbacks, advance)
    return accumulator, reader.num_skipped


def accumulate_examples(
    predictor: Predictor[Task[Any, Any]],
    examples: Iterable[Any],
    path: Path,
    callbacks: Sequence[OutcomeCallback] = (),
    advance: Callable[[int], object] | None = None,
) -> MetricAccumulator:
    """Predict examples chunk by chunk, and add up their scores.

    Args:
        path: the file of the examples, for messages.
        callbacks: receive the outcome of each example.
        advance: receives the number of examples of each chunk when they are predicted.
    """
    task = predictor.definition
    accumulator = task.accumulator(path)  # adds up losses and scores
    for chunk, predictions in predictor.predict_chunks(in_chunks(examples)):
        accumulator.add(chunk, predictions)
        if callbacks:
            outcomes = list(map(task.outcome, chunk, predictions))
        for callback in callbacks:
            callback.add(chunk, outcomes)
        if advance is not None:
            advance(len(chunk))
    return accumulator


def in_chunks(
    examples: Iterable[Item],
    size: int | None = None,
    is_waiting: Callable[[], bool] | None = None,
) -> Iterator[list[Item]]:
    """Yield chunks: lists of `size` examples, by default `CHUNK_EXAMPLES`.

    A chunk of long examples is shorter: the texts of all its examples (in `content`) have at most
    `CHUNK_CHARS` characters together, or it holds a single example. `is_waiting` returns whether
    the next example has not arrived yet. The examples before it are then yielded at once.
    """
    chunk: list[Item] = []
    num_chars = 0
    examples = iter(examples)
    while True:
        if chunk and is_waiting is not None and is_waiting():
            yield chunk
            chunk = []
            num_chars = 0
        try:
            example = next(examples)
        except StopIteration:
            break
        length = count_chars(example.content)
        is_full = len(chunk) == (size or CHUNK_EXAMPLES)
        if is_full or (chunk and num_chars + length > CHUNK_CHARS):
            yield chunk
            chunk = []
            num_chars = 0
        chunk.append(example)
        num_chars += length
    if chunk:
        yield chunk


def check_batch_size(batch_size: int | None) -> int:
    """Return the number of examples in a chunk: `batch_size`, or the default if that is None.

    Raises:
        ConfigError: `batch_size` is not a whole number above 0.
    """
    if batch_size is not None and not (isinstance(batch_size, int | np.integer) and batch_size > 0):
        raise SettingError("batch_size", batch_size, "a whole number above 0")
    return batch_size or CHUNK_EXAMPLES


def _list_of_columns(fields: Sequence[str]) -> str:
    """Write the Python code that lists the inputs in a data frame, for messages."""
    texts = f'list(frame["{fields[0]}"])'
    if len(fields) == 1:
        return texts
    pairs = f'list(zip(frame["{fields[0]}"], frame["{fields[1]}"]))'
    has_optional_pair = fields[1] == "pair"  # of tasks on single texts or pairs
    return f"{texts}, or {pairs} for pairs" if has_optional_pair else pairs


def _progress(
    title: str, total: int | None, *, shown: bool
) -> AbstractContextManager[Callable[[int], object]]:
    """Show a progress bar if `shown`; yields the function that moves the bar on by a number."""
    return progress_bar(title, total, shown=True) if shown else nullcontext(lambda count: None)
