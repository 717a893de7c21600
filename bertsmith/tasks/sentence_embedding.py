"""Training and evaluation of sentence embeddings, the task of `finetune embed`.

An example has two texts or more: the anchor, its positive (a text that belongs to the anchor) and
perhaps negatives (texts that do not). All examples of a file have the same `Kind`. Examples of the
kind "pairs" are evaluated by retrieval: for each anchor, its positive is searched among the
positives and negatives of all examples. Examples of the kind "scored" have two texts and a number
for their similarity, and no negatives.

Losses are in `vector_losses.py`. A loss that compares the examples of a step with one another gets
groups with a fixed number of examples, so that its value does not depend on the number of
processes. A text is one row of tokens, cut at its end if it is too long: other tasks read a long
text in windows, which folders of sentence-transformers cannot express.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.columns import RelatedColumns
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.data.sentence_pairs import Kind, RelatedReader, RelatedTexts, kind_of, score_range
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.errors import CheckpointError, ConfigError, ExamplesError, InputError, option
from bertsmith.metrics.regression import SimilarityReport
from bertsmith.metrics.retrieval import RetrievalReport, retrieval_scores
from bertsmith.model.bert import BertModel
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.system.nested_folder import write_static_modules
from bertsmith.tasks.inference import LoadedModel
from bertsmith.tasks.prediction import text_field
from bertsmith.tasks.related_vectors import RelatedVectors
from bertsmith.tasks.scoring import Outcome, PredictionCounts
from bertsmith.tasks.sentence_folder import Pooling, SentenceFolder, check_case, read_length
from bertsmith.tasks.settings.embed import EmbedSettings
from bertsmith.tasks.settings.finetune import Sources
from bertsmith.tasks.settings.vector_losses import VECTOR_LOSSES, Loss, is_own_loss, loss_entry
from bertsmith.tasks.soft_targets import soft_vector_loss
from bertsmith.tasks.stored_settings import AllowedValue, check_stored_settings, is_number
from bertsmith.tasks.task import Task, TaskDataset, naming_limits
from bertsmith.tasks.text_vectors import COMPUTE, TextVectors
from bertsmith.tasks.vector_baselines import VectorBaselines
from bertsmith.tasks.vector_losses import check_is_shared, load_vector_loss
from bertsmith.tasks.vector_prediction import Vectors
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.objective import LossTerm

ScoreRange = tuple[float, float]
"""The two scores that stand for the cosines 0 and 1."""
ALLOWED_IN_EMBED: Mapping[str, AllowedValue] = {
    "loss": (
        lambda value: isinstance(value, str) and (value in VECTOR_LOSSES or is_own_loss(value)),
        f"{', '.join(VECTOR_LOSSES)} or module:function",
    ),
    "temperature": (lambda value: is_number(value) and value > 0, "a number above 0"),
    "group_size": (lambda value: type(value) is int and value > 0, "a whole number above 0"),
    "score_range": (
        lambda value: (
            isinstance(value, list)
            and len(value) == 2
            and all(map(is_number, value))
            and value[0] < value[1]
        ),
        "a list of two numbers, the lower one first",
    ),
}
"""Allowed values of the task's settings in config.json: for each, a function that checks a value,
and the allowed values in words."""
ScoresT = TypeVar("ScoresT", float, NDArray[np.float64])

RECALL_CUTOFFS = (1, 5, 10)
"""The values of k for recall at k."""

METRICS_OF_KIND: dict[Kind, tuple[str, ...]] = {
    "pairs": ("mrr", *(f"recall_at_{cutoff}" for cutoff in RECALL_CUTOFFS)),
    "scored": ("spearman", "pearson"),
}
"""For each kind of examples, the metrics by which the best weights may be chosen. The first metric
of each kind is also called `score`."""

CLOSE_COSINE = 0.1
"""Largest error of a cosine that counts as correct."""


def held_out_kind(settings: EmbedSettings, train: ExampleSource) -> Kind | None:
    """Return the kind that eval examples must have; None if the eval file decides."""
    if settings.metric != "score":  # a metric of one of the kinds
        return next(kind for kind, names in METRICS_OF_KIND.items() if settings.metric in names)
    # The reader finds the kind of the file by its columns.
    reader = RelatedReader(train, settings.columns)
    with suppress(InputError):  # only the names of the columns are needed here
        reader.read(1)
    # Scores that the loss ignores in training are ignored in evaluation, too.
    ignores_scores = kind_of_loss(settings.loss) == "pairs" and "score" in reader.names
    return "pairs" if ignores_scores else None


def kind_of_loss(loss: str) -> Kind | None:
    """Return the kind of examples that a loss learns from; None if it takes the file's kind."""
    return None if loss == "auto" else loss_entry(loss).kind


class ScoredAccumulator(PredictionCounts):
    """Accumulator of scored pairs: scores and cosines, 16 bytes for each pair."""

    def __init__(self, score_range: ScoreRange | None) -> None:
        self.score_range = score_range
        self.chunks: list[NDArray[np.float64]] = []
        """Scores and cosines of each chunk, fp64 `[2, examples]`."""

    def add(self, examples: Sequence[RelatedTexts], predictions: Sequence[Vectors]) -> None:
        scores = [example.score for example in examples]
        cosines = [prediction.cosine for prediction in predictions]
        self.chunks.append(np.array([scores, cosines], dtype=np.float64))
        self.count(predictions)

    def compute_metrics(self) -> dict[str, float]:
        report = self.result()
        scores, cosines = np.concatenate(self.chunks, axis=1)
        # The loss is the mean squared error of the cosines, whatever the loss of training.
        targets = as_cosines(scores, self.score_range or range_of_file(scores))
        return {
            "loss": float(np.mean(np.square(cosines - targets))),
            "score": report.spearman,
            "spearman": report.spearman,
            "pearson": report.pearson,
        }

    def result(self, num_skipped: int = 0) -> SimilarityReport:
        scores, cosines = np.concatenate(self.chunks, axis=1)
        return SimilarityReport.of(scores, cosines, **self.counts(num_skipped))


def as_cosines(scores: ScoresT, limits: ScoreRange) -> ScoresT:
    """Map scores linearly to cosines, the lower limit to 0 and the upper limit to 1."""
    low, high = limits
    return (scores - low) / (high - low)


def range_of_file(scores: Sequence[float] | NDArray[np.float64]) -> ScoreRange:
    """Return the two scores of a file that stand for the cosines 0 and 1.

    They are those of the function `score_range`: 0 and 1, or the lowest and the highest score if
    one is above 1 or below -1. That function refuses scores that are all equal; here they are taken
    for cosines.
    """
    low, high = float(min(scores)), float(max(scores))
    return (0.0, 1.0) if low == high else score_range([low, high])


class RetrievalAccumulator(PredictionCounts):
    """Accumulator of retrieval, with the vector of every distinct text.

    Anchors are the queries, positives and negatives the documents. The positive of an example is
    relevant to its anchor. Memory grows by a vector for each text, time with the square of the
    number of texts.
    """

    def __init__(self) -> None:
        # The index of each text among the vectors, and for each query the relevant documents.
        self.queries: dict[str, int] = {}
        self.documents: dict[str, int] = {}
        self.query_vectors: list[NDArray[np.float32]] = []
        self.document_vectors: list[NDArray[np.float32]] = []
        self.relevant: list[set[int]] = []

    def add(self, examples: Sequence[RelatedTexts], predictions: Sequence[Vectors]) -> None:
        for example, prediction in zip(examples, predictions, strict=True):
            anchor, *others = prediction.vectors
            indices = [
                self._find_or_add(self.documents, self.document_vectors, text, vector)
                for text, vector in zip(example.texts[1:], others, strict=True)
            ]
            query = self._find_or_add(self.queries, self.query_vectors, example.anchor, anchor)
            if query == len(self.relevant):  # a new query
                self.relevant.append(set())
            self.relevant[query].add(indices[0])  # the first document is the positive
        self.count(predictions)

    def compute_metrics(self) -> dict[str, float]:
        """Compute recall and MRR; `loss` is 1 - MRR."""
        report = self.result()
        scores = {name: report.to_json()[name] for name in METRICS_OF_KIND["pairs"]}
        return {"loss": 1 - report.mrr, "score": report.mrr, **scores}

    def result(self, num_skipped: int = 0) -> RetrievalReport:
        scores = retrieval_scores(
            np.stack(self.query_vectors),
            np.stack(self.document_vectors),
            [sorted(indices) for indices in self.relevant],
            RECALL_CUTOFFS,
            # A query that is also a document should not find itself; -1 if it is no document.
            [self.documents.get(text, -1) for text in self.queries],
        )
        return replace(scores, **self.counts(num_skipped))

    @staticmethod
    def _find_or_add(
        indices: dict[str, int],
        vectors: list[NDArray[np.float32]],
        text: str,
        vector: NDArray[np.float32],
    ) -> int:
        """Return the index of a text; a new text is added with its vector."""
        index = indices.setdefault(text, len(indices))
        if index == len(vectors):  # a new text
            # A view would keep all vectors of the chunk in memory.
            vectors.append(vector.copy())
        return index


class RelatedAccumulator:
    """Accumulator for scored pairs or for retrieval, as the kind of the first examples decides."""

    def __init__(self, score_range: ScoreRange | None) -> None:
        self.score_range = score_range
        self.accumulator: ScoredAccumulator | RetrievalAccumulator | None = None

    def add(self, examples: Sequence[RelatedTexts], predictions: Sequence[Vectors]) -> None:
        if self.accumulator is None:
            is_scored = kind_of(examples) == "scored"
            self.accumulator = (
                ScoredAccumulator(self.score_range) if is_scored else RetrievalAccumulator()
            )
        self.accumulator.add(examples, predictions)

    def compute_metrics(self) -> dict[str, float]:
        assert self.accumulator is not None
        return self.accumulator.compute_metrics()

    def result(self, num_skipped: int = 0) -> SimilarityReport | RetrievalReport:
        assert self.accumulator is not None
        return self.accumulator.result(num_skipped)


@dataclass(frozen=True)
class Embed(Task[RelatedTexts, Vectors]):
    """Sentence embeddings, whose cosines are the similarity of texts."""

    folder: SentenceFolder = field(default_factory=lambda: SentenceFolder("mean"))
    """Pooling, normalization and length, as sentence-transformers stores them."""
    loss: str = "contrastive"
    """A loss of bertsmith, or "module:function". It is imported only for training, because a
    model's folder may come from anywhere."""
    temperature: float = 0.05
    """Temperature by which all losses but `cosine` divide similarities."""
    score_range: ScoreRange | None = None
    """Scores that map to the cosines 0 and 1. None if training had no scores; then the scores of
    the evaluated file decide."""
    group_size: int | None = 32
    """Number of examples that the loss compares with one another; None if it compares none."""

    trained: TrainingColumns = field(default_factory=TrainingColumns, kw_only=True, compare=False)
    """The columns that the model was trained on, which it looks for in other files."""

    titles = ("cosine", "text", "second text")  # of the columns of predictions
    name = "embed"  # of the command, and of the loss among a run's metrics
    noun = "pair"  # of an example, in messages
    baselines = VectorBaselines()
    cell_types: ClassVar = {"cosine": float}  # the column added to a table
    settings = EmbedSettings
    columns = RelatedColumns
    heads = ()  # the vectors are those of the encoder
    pipeline = "sentence-similarity"
    example_type = RelatedTexts
    fields = ("text", "pair")  # the keys of an example that is given as a dictionary
    texts_per_example = 2

    @classmethod
    def check_train(cls, examples: Sequence[RelatedTexts], settings: EmbedSettings) -> None:
        if kind_of(examples) == "scored":
            # An error if all scores are the same. `or 0.0` is for types: each example has a score.
            score_range([example.score or 0.0 for example in examples])

    @classmethod
    def read(
        cls, settings: EmbedSettings, sources: Sources | None = None
    ) -> TaskDataset[RelatedTexts]:
        """Read both files.

        Raises:
            InputError: a file cannot be read, or all its scores are the same.
            ConfigError: the loss is one of another module that cannot be imported.
        """
        columns = settings.columns
        train_source, eval_source = sources or settings.sources
        if settings.loss != "auto":
            # Worker processes must be able to import a loss of the user's own.
            check_is_shared(settings.loss, settings.threads)
            load_vector_loss(settings.loss)  # raises an error if it cannot be imported
        reader = RelatedReader(
            train_source,
            columns,
            kind_of_loss(settings.loss),  # None: as the columns of the file say
            # No loss of bertsmith reads the negatives of scored pairs, but a user's own loss may.
            keeps_negatives=is_own_loss(settings.loss),
        )
        examples = reader.read(settings.limit)
        # An error in this block also names options that left out examples, such as `limit`.
        with naming_limits(settings, num_read=len(examples)):
            train = cls.select(examples, settings)
            cls.check_train(train, settings)
        if eval_source is None:
            # The file is read a second time, since evaluation may need another kind of examples.
            eval_source = train_source
        eval_reader = RelatedReader(eval_source, columns, held_out_kind(settings, train_source))
        held_out = eval_reader.read(settings.eval_limit)
        if kind_of(held_out) == "scored" and len({row.score for row in held_out}) == 1:
            with naming_limits(settings, num_read=len(examples), num_held_out=len(held_out)):
                raise ExamplesError(
                    f"{settings.eval}: the score is {held_out[0].score:g} in every row. Give rows "
                    "with different ones."
                )
        is_scored = kind_of(train) == "scored"
        default_loss: Loss = "cosine" if is_scored else "contrastive"
        loss = default_loss if settings.loss == "auto" else settings.loss
        group_size = min(settings.group_size, settings.batch_size)
        task = cls(
            loss=loss,
            temperature=settings.temperature,
            score_range=score_range([row.score or 0.0 for row in train]) if is_scored else None,
            group_size=group_size if loss_entry(loss).compares_rows else None,
            trained=reader.columns_read(),
        )
        return TaskDataset(task, train, held_out, reader.num_skipped, eval_reader.num_skipped)

    def with_model(
        self, folder: ModelFolder, settings: EmbedSettings, train: Sequence[Any]
    ) -> Self:
        """Return a copy with the pooling and the length of the model's folder.

        Raises:
            CheckpointError: the folder's pooling is not supported, or the folder wants lower case
                and its tokenizer keeps the case.
            ConfigError: the model has static vectors, and the pooling is not the mean.
        """
        stored = SentenceFolder.read(folder.files, pooling=settings.pooling)
        check_case(folder.files, folder.tokenizer)
        # A model without layers is a table of static vectors.
        if stored.pooling not in (None, "mean") and not folder.config.num_layers:
            raise ConfigError(
                f"{option('pooling', stored.pooling)}: the vector of a text is the mean over its "
                "static vectors. Leave it out."
            )
        length = settings.max_length or stored.max_length
        trained_folder = SentenceFolder(stored.pooling or "mean", stored.normalize, length)
        return replace(self, folder=trained_folder)

    @classmethod
    def restore(cls, loaded: LoadedModel, *, pooling: Pooling | None = None) -> Self:
        """Restore the task from a folder's settings; `pooling` replaces the folder's.

        Pooling, normalization and length are read from the files of sentence-transformers, which
        may have rewritten them, and not from config.json.

        Raises:
            CheckpointError: the model was fine-tuned for another task, a setting has a value that
                is not allowed, or the folder is one that `SentenceFolder.read` refuses.
        """
        settings = loaded.model.task_settings
        name = settings.get("task", cls.name)
        if name != cls.name:
            raise CheckpointError(
                f"{loaded.folder.path}: task is '{cls.name}', but this model's is '{name}'. Leave "
                "task out."
            )
        check_stored_settings(loaded, ALLOWED_IN_EMBED)
        text_vectors = TextVectors.restore(loaded, pooling=pooling)
        length = loaded.requested_length or read_length(loaded.folder.files)
        # The contrastive loss does not learn from scores, and a training with it stores no range.
        # If config.json, which users may edit, has one, the scores of an evaluated file decide.
        learns_from_scores = settings.get("loss", cls.loss) != "contrastive"
        score_range = settings.get("score_range") if learns_from_scores else None
        # The fields that are stored as they are; the others are converted below.
        plain_fields = {field.name for field in fields(cls)} - {"folder", "score_range", "trained"}
        return cls(
            **{name: value for name, value in settings.items() if name in plain_fields},
            folder=SentenceFolder(text_vectors.pooling, text_vectors.normalize, length),
            score_range=None if score_range is None else tuple(score_range),
            trained=TrainingColumns.from_json(settings.get("columns")),
        )

    def reader(
        self, source: ExampleSource, columns: RelatedColumns | None, *, labelled: bool
    ) -> RelatedReader:
        """Open the rows of a table, with their scores if `labelled` and present."""
        kind: Kind | None = None if labelled else "pairs"
        return RelatedReader(source, columns, kind, trained=self.trained)

    def example(self, record: Mapping[str, Any]) -> RelatedTexts:
        text, pair = (text_field(record, name) for name in self.fields)
        return RelatedTexts(text, pair, row=record.get("row", 0))

    def with_label_stats(self, examples: Iterable[RelatedTexts]) -> Self:
        """Return a copy with the score range of the examples, if the task has none."""
        if self.score_range is not None:
            return self
        scores = [example.score for example in examples if example.score is not None]
        return replace(self, score_range=range_of_file(scores)) if scores else self

    @property
    def pooling(self) -> Pooling:
        return self.folder.pooling or "mean"

    @property
    def task_settings(self) -> dict[str, Any]:
        """All fields in plain JSON, so that a restored task computes the scores of training."""
        score_range = None if self.score_range is None else list(self.score_range)
        settings = {**asdict(self), "score_range": score_range}
        del settings["trained"]
        return settings | self.column_settings

    def write_files(self, directory: Path) -> None:
        """Write the files by which sentence-transformers opens the model."""
        config = read_folder(directory).config
        if config.num_layers:
            self.folder.write(directory, config.hidden_size)
        else:  # sentence-transformers has a module of its own for static vectors
            write_static_modules(directory)

    def encode(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[RelatedTexts],
        max_length: int,
        *,
        labelled: bool,
    ) -> EncodedExamples:
        """Encode each text to a row.

        Targets: `text`, int64 `[rows]`, a number that is the same for equal texts; for scored pairs
        also `cosines`, fp32 `[examples]`.
        """
        texts = [text for example in examples for text in example.texts]
        counts = [len(example.texts) for example in examples]
        number_of_text = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        length = min(max_length, self.folder.max_length or max_length)
        targets = {}
        is_scored = bool(examples) and examples[0].score is not None
        if labelled and self.score_range is not None and is_scored:
            scores = np.array([example.score for example in examples], dtype=np.float64)
            targets["cosines"] = as_cosines(scores, self.score_range).astype(np.float32)
        return EncodedExamples(
            encode_texts(tokenizer, ((text, None) for text in texts), length),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            example_targets=targets,
            row_targets={
                "text": np.array([number_of_text[text] for text in texts], dtype=np.int64)
            },
        )

    def compute_loss(self, outputs: Tensor, batch: Batch) -> LossTerm:
        """Compute the loss of a group from vectors `[sequences, hidden]`.

        `correct` counts cosines whose error is at most `CLOSE_COSINE`, or without scores the
        anchors whose positive is the nearest candidate.
        """
        score_range = self.score_range or (0.0, 1.0)
        group = RelatedVectors.of_batch(outputs.float(), batch, score_range, self.temperature)
        loss = load_vector_loss(self.loss)(group)
        if group.target_cosines is None:
            is_correct = group.cosines_with_candidates.argmax(-1) == group.positive_indices
        else:
            is_correct = (group.cosines - group.target_cosines).abs() <= CLOSE_COSINE
        return LossTerm(loss, is_correct.sum(), len(group))

    def distillation_loss(
        self, outputs: Tensor, teacher_outputs: Tensor, batch: Batch, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Sum 1 - cosine of student and teacher vectors, and count the vectors that are close.

        `outputs` and `teacher_outputs` are `[sequences, hidden]`; `temperature` does not apply.
        """
        return soft_vector_loss(outputs, teacher_outputs, CLOSE_COSINE)

    def num_predictions(self, batch: Batch, *, distilled: bool = False) -> int:
        """Count the predictions: one per example, or in the distillation loss one per text."""
        return batch.num_sequences if distilled else super().num_predictions(batch)

    def outputs(self, model: BertModel, batch: Batch) -> Tensor:
        """Compute pooled vectors in the batch's order, `[sequences, hidden]`, not normalized."""
        return COMPUTE[self.pooling](model, batch)

    def decode(
        self,
        outputs: NDArray[np.float32],
        encoded: EncodedExamples,
        examples: Sequence[RelatedTexts],
    ) -> list[Vectors]:
        """Gather the vectors of each example's texts; `outputs` are `[texts, hidden]`."""
        vectors_of_examples = np.split(outputs, encoded.starts[1:-1])
        return [
            Vectors(vectors, num_cut > 0)
            for vectors, num_cut in zip(vectors_of_examples, encoded.num_cut, strict=True)
        ]

    def accumulator(self, path: Path) -> "RelatedAccumulator":
        return RelatedAccumulator(self.score_range)

    def describe_target(self) -> str:
        return "that belong together" if self.score_range is None else "with scores"

    def outcome(self, example: RelatedTexts, prediction: Vectors) -> Outcome:
        """Compare the cosine of anchor and positive with that of the score, or with 1."""
        target = 1.0
        if example.score is not None:
            target = as_cosines(example.score, self.score_range or (0.0, 1.0))
        return Outcome(
            text=" | ".join(example.texts[:2]),
            gold=f"{target:.4f}",
            predicted=f"{prediction.cosine:.4f}",
            score=1 - abs(prediction.cosine - target),
            is_numeric=True,
        )


TASK = Embed  # imported by catalog.py, which names this module
