"""Zero-shot evaluation on minimal pairs, such as BLiMP (Warstadt et al. 2020).

A minimal pair is a good and a bad sentence that differ in one thing. A language model should find
the good one likelier. BLiMP has groups of pairs of three kinds: a paradigm is one test of grammar,
several paradigms are about one phenomenon, and several phenomena belong to one field.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bertsmith.data.column_specs import ColumnSpec
from bertsmith.data.columns import Columns
from bertsmith.data.reader import check_limit
from bertsmith.data.records import RecordReader
from bertsmith.data.row_texts import Record
from bertsmith.data.text_files import ExampleSource
from bertsmith.errors import InputError
from bertsmith.errors.model_kinds import PAIR_EVALUATION, ModelKindError
from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.metrics.report import Report, ScoreLine, Table
from bertsmith.model.config_file import model_kind
from bertsmith.model.electra_pair import suggest_masked_lm_folder
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.system.counts import count_noun, line_with_count
from bertsmith.tasks.minimal_pairs import MinimalPairs
from bertsmith.tasks.pair_scores import MinimalPair, PairScores
from bertsmith.tasks.predictor import Predictor, in_chunks

GROUPS = {"paradigm": "uid", "phenomenon": "linguistics_term", "field": "field"}
"""Kinds of groups, each with the column that names a pair's group of this kind."""
MAX_SHOWN_GROUPS = 20
"""Largest number of groups of one kind that the report shows as a table."""
POINTS = {"good": 1.0, "tie": 0.5, "bad": 0.0}
"""Points of a pair, by the sentence that the model finds likelier; the accuracy is their mean."""

PairCallback = Callable[[Sequence[MinimalPair], Sequence[PairScores]], object]
"""Function that receives pairs with their scores, chunk by chunk."""


@dataclass(frozen=True, slots=True)
class GroupScore:
    """Accuracy over the pairs of one paradigm, phenomenon or field."""

    num_pairs: int
    accuracy: float


@dataclass(frozen=True)
class PairReport(Report, ReadingCounts):
    """Shares of pairs whose good sentence is likelier; a tie counts half."""

    accuracy: float
    mean_over_paradigms: float | None
    """Mean accuracy of the paradigms, as the paper reports it; None if the file names none."""
    num_pairs: int
    num_identical: int
    """Number of pairs whose sentences have the same tokens, so that they tie."""
    pairs_per_second: float
    groups: Mapping[str, Mapping[str, GroupScore]]
    """Scores by kind ("paradigm", "phenomenon", "field") and name of the group."""

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the accuracies, remarks, and the table of one kind of groups."""
        good = f"share of the {count_noun(self.num_pairs, 'pair')} whose good sentence is likelier"
        contents: list[ScoreLine | Table | str] = [
            ScoreLine("accuracy", self.accuracy, f"{good}; guessing gets 0.5000")
        ]
        if self.mean_over_paradigms is not None:
            mean = f"mean accuracy of the {count_noun(len(self.groups['paradigm']), 'paradigm')}"
            contents.append(ScoreLine("mean", self.mean_over_paradigms, mean))
        contents += line_with_count(
            self.num_identical,
            "pair has the same tokens in both sentences and counts half",
            "pairs have the same tokens in both sentences; each counts half",
        )
        contents += [*self.notes(lacking="both sentences"), f"{self.pairs_per_second:,.0f} pairs/s"]
        # The first kind whose table is short enough is shown, phenomena if possible.
        for name in ("phenomenon", "field", "paradigm"):
            if 0 < len(groups := self.groups[name]) <= MAX_SHOWN_GROUPS:
                return [*contents, "", group_table(name, groups)]
        return contents


def group_table(kind: str, groups: Mapping[str, GroupScore]) -> Table:
    """Build the table of the scores of one kind of groups, a row for each group."""
    return Table(
        (kind, "accuracy", "pairs"),
        [(name, f"{score.accuracy:.4f}", f"{score.num_pairs:,}") for name, score in groups.items()],
    )


def load_pair_scorer(
    path: str | Path | ModelFolder,
    *,
    device: str = "auto",
    precision: str = "auto",
    max_length: int | None = None,
) -> Predictor[MinimalPairs]:
    """Load the predictor of a model with a masked-LM head, which scores sentences.

    Raises:
        CheckpointError: the folder is incomplete, or its model has no masked-LM head.
    """
    folder = path if isinstance(path, ModelFolder) else read_folder(path)
    if "masked_lm" not in folder.heads:
        advice = suggest_masked_lm_folder(folder.path)
        kind = model_kind(folder.settings)
        raise ModelKindError(folder.path, kind, PAIR_EVALUATION, advice)
    return Predictor.load(
        folder, MinimalPairs, device=device, precision=precision, max_length=max_length
    )


class PairScorer(Protocol):
    """Scores the sentences of pairs: a `Predictor` of `MinimalPairs`, or another model."""

    def predict(self, examples: Sequence[MinimalPair], /) -> Sequence[PairScores]: ...


def evaluate_minimal_pairs(
    scorer: PairScorer,
    source: ExampleSource,
    columns: Columns | None = None,
    *,
    limit: int | None = None,
    callbacks: Sequence[PairCallback] = (),
) -> PairReport:
    """Score the pairs of a file, or of rows in memory with `sentence_good` and `sentence_bad`.

    The file is read in chunks, so it may have any size.

    Args:
        scorer: the model, for example from `load_pair_scorer`.
        source: the pairs, a table or rows with the columns `sentence_good` and `sentence_bad`. The
            columns `UID`, `linguistics_term` and `field`, which name groups, are optional.
        columns: options for reading; `text_column` names the good sentence, `pair_column` the bad
            one.
        limit: number of pairs to take of each paradigm, from the first; None takes all.
        callbacks: functions that receive each chunk of pairs with their scores.

    Raises:
        ConfigError: `limit` is not above 0.
        InputError: the file cannot be read, or lacks a sentence.
    """
    check_limit(limit)
    reader = read_pairs(source, columns or Columns())
    num_identical = num_truncated = 0
    # The number of pairs and the sum of their points, by kind and name of the group. All pairs are
    # a group of their own kind, "all".
    points: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0])
    start = time.perf_counter()
    for chunk in in_chunks(limit_paradigms(reader, limit)):
        try:
            scores = scorer.predict(chunk)
        except InputError as error:
            raise InputError(f"{reader.source_name}: {error.message}") from None
        for pair, score in zip(chunk, scores, strict=True):
            num_identical += score.is_identical
            num_truncated += score.is_truncated
            for key in (("all", ""), *pair.groups.items()):
                points[key][0] += 1
                points[key][1] += POINTS[score.answer]
        for callback in callbacks:
            callback(chunk, scores)
    seconds = time.perf_counter() - start
    groups: dict[str, dict[str, GroupScore]] = {name: {} for name in ("all", *GROUPS)}
    for (kind, name), (num_pairs, sum_of_points) in sorted(points.items()):
        groups[kind][name] = GroupScore(int(num_pairs), sum_of_points / num_pairs)
    overall = groups.pop("all")[""]
    accuracies = [score.accuracy for score in groups["paradigm"].values()]
    return PairReport(
        accuracy=overall.accuracy,
        mean_over_paradigms=sum(accuracies) / len(accuracies) if accuracies else None,
        num_pairs=overall.num_pairs,
        num_identical=num_identical,
        pairs_per_second=overall.num_pairs / max(seconds, 1e-9),
        num_truncated=num_truncated,
        num_skipped=reader.num_skipped,
        groups=groups,
    )


def read_pairs(source: ExampleSource, columns: Columns) -> RecordReader[MinimalPair]:
    """Build the reader of a file of pairs, or of rows in memory."""
    # A spec describes a column: its name in records and messages, the option that chooses it, the
    # column that the user chose, and the usual names of such a column. No option chooses the
    # columns of groups, and a group may also be named by a whole number.
    specs = [
        ColumnSpec("good sentence", "text_column", columns.text_column, ("sentence_good",)),
        ColumnSpec("bad sentence", "pair_column", columns.pair_column, ("sentence_bad",)),
        *(
            ColumnSpec(
                kind, "", None, (usual,),
                is_optional=True, may_be_empty=True, may_lack_key=True, scalars=(int,),
            )
            for kind, usual in GROUPS.items()
        ),
    ]  # fmt: skip

    def parse(row: int, record: Record) -> MinimalPair:
        # A record has a list of texts for each spec.
        groups = {kind: record[kind][0] for kind in GROUPS if record.get(kind)}
        (good,), (bad,) = record["good sentence"], record["bad sentence"]
        return MinimalPair(good, bad, groups, row)

    return RecordReader(source, columns, lambda column_names: specs, parse)


def limit_paradigms(pairs: Iterable[MinimalPair], limit: int | None) -> Iterator[MinimalPair]:
    """Yield the first `limit` pairs of each paradigm, and as many of the pairs without one."""
    counts: Counter[str | None] = Counter()
    for pair in pairs:
        paradigm = pair.groups.get("paradigm")
        counts[paradigm] += 1
        if limit is None or counts[paradigm] <= limit:
            yield pair
