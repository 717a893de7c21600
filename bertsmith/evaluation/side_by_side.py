"""Comparison of two model folders: parameters, bytes, speed and scores.

The comparison evaluates the methods that make a model smaller: a student is compared with its
teacher, a model of fewer layers with the original. Scores are those of `evaluate`. The models take
turns while they are timed. A predictor is a loaded model with its task, `definition`.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertsmith.data.encoded_texts import Text
from bertsmith.data.reader import count_chars
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import InputError, option
from bertsmith.metrics.names import format_score, score_name
from bertsmith.model.bert import BertModel
from bertsmith.model.loading import build
from bertsmith.model.model_folder import ModelFolder
from bertsmith.model.parameter_counts import IN_EMBEDDINGS, IN_LAYERS, count_parameters
from bertsmith.model.weights import weight_files
from bertsmith.system.compute import InferenceCompute
from bertsmith.system.counts import count_noun, line_with_count
from bertsmith.system.progress import progress_bar
from bertsmith.system.terminal import align_columns
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.predictor import Predictor, accumulate_rows
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.tokenization.tokenizer import Tokenizer

TIMED_CHARS = 16_000
"""Largest number of characters of the timed texts, some 4,000 tokens. A base model takes seconds
for them on a CPU, and a small model long enough that its start-up does not dominate."""

TIMED_SECONDS = 6.0
"""Seconds of timing for both models together."""
MIN_ROUNDS = 5
"""Smallest number of times that each model is timed."""
RANDOM_TEXTS = 128
"""Number of texts of random tokens."""
RANDOM_TOKENS = 64
"""Number of tokens of such a text."""

Measure = Callable[[BertModel], dict[str, float]]
"""Function from a model to metrics by name."""


@dataclass(frozen=True)
class ComparisonInput(InferenceCompute):
    """Input of a comparison: labelled `data`, or `texts` to encode; also device and precision.

    Without `data` and `texts`, the models are timed on texts of random tokens.
    """

    data: Path | None = None
    columns: Any = None
    """Options for reading `data`: an instance of the task's class `columns`."""
    limit: int | None = None
    """Number of rows of `data` to read, from the first; None reads all."""
    label_separator: str | None = None
    """Separator between the labels of a text in `data`; None for the one of each model."""
    texts: Sequence[Text] = ()
    measure: Measure | None = None
    """Function that computes the scores of a model if there is no `data`, such as those of masked
    LM on held-out texts."""


@dataclass(frozen=True)
class ModelFigures:
    """Cost and scores of one model."""

    parameters: Mapping[str, int]
    """Numbers of parameters: the `total`, and parts `embeddings`, `encoder`, `pooler_and_heads`."""
    weight_bytes: int
    """Size of the weight files."""
    texts_per_second: float
    """Speed from text to prediction or, without `data`, from text to vector."""
    scores: Mapping[str, float]
    """The task's metrics on `data`, or the metrics of the function `measure`."""


@dataclass(frozen=True)
class ModelComparison:
    """Two models side by side, and the conditions of timing."""

    before: ModelFigures
    after: ModelFigures
    precision: str
    num_timed: int
    """Number of texts that were timed."""
    num_rounds: int
    """Number of times that each model was timed on all these texts."""
    num_skipped: int = 0
    """Rows of the data that were skipped because a value was missing."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        rows = [("", "before", "after", "change"), *self._rows()]
        lines = align_columns(rows)
        lines += line_with_count(
            self.num_skipped,
            "incomplete row was skipped",
            "incomplete rows were skipped",
        )
        rounds = count_noun(self.num_rounds, "time")
        timed = f"{count_noun(self.num_timed, 'text')}, each model {rounds} in turn"
        return "\n".join([*lines, f"speed: {timed}, the median; {self.precision}"])

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        before, after = self.before, self.after
        for name, number in before.parameters.items():
            label = "parameters" if name == "total" else "  " + name.replace("_", " ")
            yield format_row(label, number, after.parameters[name], "{:,}")
        megabytes = before.weight_bytes / 1e6, after.weight_bytes / 1e6
        yield format_row("weights", *megabytes, "{:,.1f} MB")
        speeds = before.texts_per_second, after.texts_per_second
        yield format_row("texts per second", *speeds, "{:,.1f}")
        for name, score in before.scores.items():
            other = after.scores[name]
            sign = "+" if other >= score else ""
            change = sign + format_score(name, other - score)
            yield score_name(name), format_score(name, score), format_score(name, other), change


def format_row(label: str, before: float, after: float, pattern: str) -> tuple[str, str, str, str]:
    """Format a row of the table: two numbers and the relative change.

    >>> format_row("weights", 200, 150, "{} MB")
    ('weights', '200 MB', '150 MB', '-25.0 %')
    """
    change = f"{100 * (after / before - 1):+.1f} %" if before else ""
    return label, pattern.format(before), pattern.format(after), change


def check_can_be_reread(name: str, data: Path | None) -> None:
    """Check that both models can be scored on `data`, the value of the option `name`.

    Raises:
        InputError: it is standard input.
    """
    if data == STANDARD_INPUT:
        raise InputError(
            f"{option(name)}: standard input can be read only once, and two models are "
            "scored on these examples. Write them to a file."
        )


def compare_side_by_side(
    before: ModelFolder, after: ModelFolder, inputs: ComparisonInput
) -> ModelComparison:
    """Measure two model folders on the same input, in turn.

    Raises:
        CheckpointError: a folder is incomplete, or the input has data and a model has no task.
        InputError: the data cannot be read, or holds a label that a model does not know.
    """
    first, second = (_load(folder, inputs) for folder in (before, after))
    timed = choose_timed_inputs(first, inputs)
    runs = [partial(_run, predictor, timed) for predictor in (first, second)]
    seconds, num_rounds = time_in_turn(runs)
    scores, num_skipped = _score(first, inputs)
    other_scores, _ = _score(second, inputs)
    return ModelComparison(
        before=_figures(first, len(timed) / seconds[0], scores),
        after=_figures(second, len(timed) / seconds[1], other_scores),
        precision=first.loaded.precision,
        num_timed=len(timed),
        num_rounds=num_rounds,
        num_skipped=num_skipped,
    )


def _load(folder: ModelFolder, inputs: ComparisonInput) -> Predictor[Any]:
    """Load the task's predictor if there is data, otherwise a text encoder."""
    device = inputs.device
    precision = inputs.precision
    if inputs.data is None:
        # `TextVectors` is the use of any model that gives a vector for each text.
        return Predictor.load(
            folder, TextVectors, device=device, precision=precision, pooling="mean"
        )
    predictor = load_predictor(folder, device=device, precision=precision)
    definition = predictor.definition.with_columns(inputs.columns)
    if inputs.label_separator is not None and isinstance(definition, MultiLabel):
        definition = replace(definition, label_separator=inputs.label_separator)
    return predictor.with_definition(definition)


def _run(predictor: Predictor[Any], items: Sequence[Any]) -> None:
    """Compute the vectors or predictions of examples or texts, for timing."""
    if isinstance(predictor.definition, TextVectors):
        predictor.encode(items)
    else:
        predictor.predict(items)


def _score(predictor: Predictor[Any], inputs: ComparisonInput) -> tuple[dict[str, float], int]:
    """Compute the metrics on the input, and count skipped rows."""
    if inputs.measure is not None:
        # Loaded anew: the predictor's model may be rounded, or its layers replaced by faster ones.
        with torch.no_grad():
            return inputs.measure(build(predictor.loaded.folder)), 0
    if inputs.data is None:
        return {}, 0
    # The accumulator adds up the scores of all rows.
    accumulator, num_skipped = accumulate_rows(
        predictor, inputs.data, inputs.columns, limit=inputs.limit
    )
    return accumulator.compute_metrics(), num_skipped


def _figures(
    predictor: Predictor[Any], texts_per_second: float, scores: Mapping[str, float]
) -> ModelFigures:
    """Collect the cost and the scores of a model, whose size is read from its folder."""
    folder = predictor.loaded.folder
    size = sum(file.stat().st_size for file in weight_files(folder.path))
    return ModelFigures(parameters_of(build(folder)), size, texts_per_second, scores)


def choose_timed_inputs(predictor: Predictor[Any], inputs: ComparisonInput) -> list[Any]:
    """Choose the examples of the data, or the texts, on which the models are timed."""
    if inputs.data is not None:
        reader = predictor.definition.reader(inputs.data, inputs.columns, labelled=True)
        # `content` is the texts of an example.
        return first_of(reader.first(inputs.limit), lambda example: count_chars(example.content))
    texts = inputs.texts or random_texts(predictor.loaded.tokenizer)
    return first_of(texts, count_chars)


def first_of(items: Iterable[Any], size: Callable[[Any], int]) -> list[Any]:
    """Return the first items with together up to `TIMED_CHARS` characters, but at least one.

    Args:
        size: function that counts the characters of an item.
    """
    first: list[Any] = []
    total = 0
    for item in items:
        total += size(item)
        if first and total > TIMED_CHARS:
            break
        first.append(item)
    return first


def random_texts(tokenizer: Tokenizer) -> list[str]:
    """Generate texts of random tokens, with seed 0."""
    special = tokenizer.special_ids
    ids = np.array([id_ for id_ in range(tokenizer.vocab_size) if id_ not in special])
    rng = np.random.default_rng(0)
    rows = rng.choice(ids, (RANDOM_TEXTS, RANDOM_TOKENS)).tolist()
    return [tokenizer.decode(row) for row in rows]


def time_in_turn(runs: Sequence[Callable[[], object]]) -> tuple[list[float], int]:
    """Time functions in turn; return the median seconds of each, and the number of rounds.

    Since the functions take turns, a slow moment of the machine affects all of them.
    """
    for run in runs:
        run()  # the first call is slower and not timed
    times: list[list[float]] = [[] for _ in runs]
    started = time.perf_counter()
    with progress_bar("timing both models", TIMED_SECONDS) as bar:
        while len(times[0]) < MIN_ROUNDS or time.perf_counter() < started + TIMED_SECONDS:
            for run, spent in zip(runs, times, strict=True):
                run_started = time.perf_counter()
                run()
                spent.append(time.perf_counter() - run_started)
            bar.move(time.perf_counter() - started)
    return [statistics.median(spent) for spent in times], len(times[0])


def parameters_of(model: BertModel) -> dict[str, int]:
    """Count parameters: total, embeddings, layers of the encoder, and the rest."""
    counts = {"total": 0, "embeddings": 0, "encoder": 0, "pooler_and_heads": 0}
    for name, component in count_parameters(model).items():
        part = "encoder" if name in IN_LAYERS else "pooler_and_heads"
        counts["embeddings" if name in IN_EMBEDDINGS else part] += component.total
        counts["total"] += component.total
    return counts
