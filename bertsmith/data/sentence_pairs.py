"""Read text pairs, triples and scored pairs for `finetune embed`, from files or rows in memory.

A pair is two texts whose vectors should be near (a question and its answer). A triple has further
texts whose vectors should not be near. A scored pair has a number that says how similar its texts
are. The columns of a file show whether it holds pairs, triples or scored pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bertsmith.data.column_specs import ColumnSpec
from bertsmith.data.columns import RelatedColumns
from bertsmith.data.labels import parse_number
from bertsmith.data.records import RecordReader
from bertsmith.data.row_texts import Record
from bertsmith.data.table_rows import with_class_numbers
from bertsmith.data.text_files import ExampleSource
from bertsmith.data.training_columns import TrainingColumns
from bertsmith.errors import ExamplesError, option

# The usual names of columns; the first one that a table has is read.
ANCHORS = (
    "anchor", "query", "question", "sentence1", "text_a", "text1", "premise", "question1", "text",
    "sentence", "#1 string",
)  # fmt: skip
POSITIVES = (
    "positive", "pos", "answer", "passage", "sentence2", "text_b", "text2", "hypothesis",
    "question2", "text_pair", "pair", "#2 string",
)  # fmt: skip
NEGATIVES = ("negative", "negatives", "neg", "hard_negative", "hard_negatives")
SCORES = ("score", "similarity", "similarity_score", "relatedness_score", "label", "quality")

Kind = Literal["pairs", "scored"]
"""Kinds of examples: pairs, which may have negatives (triples), and pairs with a score."""


@dataclass(frozen=True, slots=True)
class RelatedTexts:
    """A text, the anchor, and a text beside it, the positive; with negatives or a score.

    Vectors of anchor and positive should be near, or as near as the score says. Those of anchor and
    negatives should not be near. `row` is the number of their row or line in the file, from 1;
    0 if they are from no file.
    """

    anchor: str
    positive: str
    negatives: tuple[str, ...] = ()
    score: float | None = None
    row: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, the anchor first."""
        return self.anchor, self.positive, *self.negatives

    @property
    def content(self) -> tuple[str, ...]:
        """The input of a model; examples with equal inputs are duplicates."""
        return self.texts

    def to_json(self) -> dict[str, Any]:
        """Return the line and the texts, as they are written beside a prediction."""
        return {"line": self.row, "text": self.anchor, "pair": self.positive}


class RelatedReader(RecordReader[RelatedTexts]):
    """Lazy reader of text pairs, triples or scored pairs.

    Args:
        source: as for `RecordReader`.
        kind: the kind of pairs; by default `scored` if there is a column of scores, else `pairs`.
        trained: the columns that the model was trained on.
        keeps_negatives: whether scored pairs keep their negatives, which most losses ignore. It
            matters only without a `kind`: with `scored`, negatives are not looked for.
    """

    def __init__(
        self,
        source: ExampleSource,
        columns: RelatedColumns | None = None,
        kind: Kind | None = None,
        *,
        trained: TrainingColumns | None = None,
        keeps_negatives: bool = False,
    ) -> None:
        self.columns = columns or RelatedColumns()
        self.kind = kind
        self.keeps_negatives = keeps_negatives
        specs = self._build_specs()
        super().__init__(
            # In tables of `datasets` the numbers of classes have names; here numbers are scores.
            with_class_numbers(source),
            self.columns,
            lambda column_names: specs,
            self._build_example,
            lines_lack="pairs to compare (for the vectors of texts use 'bertsmith embed')",
            trained=trained,
        )

    def _build_example(self, row: int, record: Record) -> RelatedTexts:
        # The record has a tuple of texts by the name of each spec; of all but the negatives, one.
        (anchor,), (positive,) = record["text"], record["pair"]
        is_scored = "score" in self.names
        reads_negatives = self.keeps_negatives or not is_scored
        return RelatedTexts(
            anchor=anchor,
            positive=positive,
            negatives=record.get("negatives", ()) if reads_negatives else (),
            score=self._parse_score(row, record) if is_scored else None,
            row=row,
        )

    def _parse_score(self, row: int, record: Record) -> float:
        (score,) = record["score"]
        return parse_number(
            score,
            f"{self.locate_row(row)}: the score",
            f"Fix the row, or choose the column with {option('label_column')}. If the pairs have "
            f"no scores, pass {option('loss')} contrastive {option('metric', 'mrr')}.",
        )

    def _build_specs(self) -> list[ColumnSpec]:
        columns = self.columns
        specs = [
            ColumnSpec("text", "text_column", columns.text_column, ANCHORS),
            ColumnSpec("pair", "pair_column", columns.pair_column, POSITIVES),
            ColumnSpec(
                "negatives", "negative_columns", columns.negative_columns, NEGATIVES,
                is_many=True, is_optional=True, may_be_empty=True, may_lack_key=True,
                read_list=list,
            ),
            ColumnSpec(
                "score", "label_column", columns.label_column, SCORES, scalars=(int, float),
                is_optional=self.kind is None and columns.label_column is None,
            ),
        ]  # fmt: skip
        # If the kind is chosen, columns that only the other kind has are not looked for.
        unused = {"scored": "negatives", "pairs": "score"}.get(self.kind or "")
        return [spec for spec in specs if spec.name != unused]


def kind_of(rows: Sequence[RelatedTexts]) -> Kind:
    """Return the kind of rows, which are all of one kind, from the first one."""
    return "scored" if rows[0].score is not None else "pairs"


def score_range(scores: Sequence[float]) -> tuple[float, float]:
    """Return the scores that stand for cosines of 0 and 1.

    Scores that are all from -1 to 1 are cosines already. Of others, the lowest score stands for 0
    and the highest for 1: 0 and 5 in STS-B, 1 and 5 in SICK.

    >>> score_range([3.2, 0.0, 5.0])
    (0.0, 5.0)
    >>> score_range([0.1, 0.9])
    (0.0, 1.0)

    Raises:
        ExamplesError: all scores are equal, so there is nothing to learn from them.
    """
    low, high = min(scores), max(scores)
    if low == high:
        raise ExamplesError(
            f"scores of the examples: found {low:g} in every row; allowed are scores that differ. "
            f"Choose the column with {option('label_column')}, or pass "
            f"{option('loss', 'contrastive')}."
        )
    return (0.0, 1.0) if low >= -1 and high <= 1 else (low, high)
