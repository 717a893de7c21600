"""Metrics of token classification: entity F1 and word accuracy.

The labels of words follow a *scheme*, such as IOB2, in which B-PER begins a span of words of the
type PER. A span is correct if its words and its type are right (Tjong Kim Sang and De Meulder 2003,
section 2.4), so scores equal those of conlleval and seqeval. In the plain scheme, each word that is
not labelled O is a span. Memory holds only counts, so that files may have any size.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bertsmith.data.label_schemes import (
    Scheme,
    convert_labels,
    count_illegal,
    find_spans,
    parse_label,
)
from bertsmith.data.tagged import REMARKS, Remark
from bertsmith.metrics.names import score_meaning
from bertsmith.metrics.report import Report, ScoreLine, Table
from bertsmith.system.counts import count_noun, line_with_count


@dataclass(frozen=True, slots=True)
class SpanScore:
    """Precision, recall and F1, 0 to 1, of spans of one type, or of all.

    A predicted span is right if a gold span has the same ends and the same type. `support` counts
    gold spans.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    num_predicted: int
    num_correct: int


@dataclass(frozen=True)
class TagReport(Report):
    """Scores of token classification, one label per word.

    If `strict`, spans that break the scheme do not count. `precision`, `recall` and `f1` are of the
    spans of all types counted together; `macro_f1` is the mean F1 of the types that occur in gold
    or predicted labels. In `num_illegal` sentences the predicted labels break the scheme, in
    `num_illegal_gold` sentences the gold labels do. `num_unknown` words have a gold label that the
    model does not know; `num_windowed` sentences were read in windows.

    `remarks` counts the words and sentences that were repaired or left out when the file was read,
    by the kind of the remark. `confusion[i][j]` counts the words of gold type `word_types[i]` and
    predicted type `word_types[j]`.
    """

    scheme: Scheme
    strict: bool
    precision: float
    recall: float
    f1: float
    macro_f1: float
    accuracy: float
    types: tuple[SpanScore, ...]
    num_sentences: int
    num_words: int
    num_illegal: int
    num_illegal_gold: int
    num_unknown: int = 0
    num_windowed: int = 0
    num_skipped: int = 0
    remarks: Mapping[Remark, int] = field(default_factory=dict)
    word_types: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()

    @property
    def total(self) -> SpanScore:
        """Scores of the spans of all types counted together."""
        return pool_scores(self.types)

    @property
    def unit(self) -> str:
        """The plural noun for what is scored: "types" of entities, or plain "labels"."""
        return "labels" if self.scheme == "plain" else "types"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the scores, remarks, and the table of types or labels."""
        return [*self._scores(), *self.notes(), "", self._table()]

    def _scores(self) -> list[ScoreLine]:
        words = count_noun(self.num_words, "word")
        accuracy = ScoreLine(
            "accuracy", self.accuracy, f"share of the {words} with the right label"
        )
        macro = ScoreLine("macro-F1", self.macro_f1, score_meaning("macro_f1", labels=self.unit))
        if self.scheme == "plain":
            return [accuracy, macro]
        entities = count_noun(self.total.support, "entity", "entities")
        counting = "strictly by the scheme" if self.strict else "as conlleval counts"
        right = f"of {entities}, all words and the type right; {counting}"
        return [ScoreLine("F1", self.f1, right), macro, accuracy]

    def notes(self) -> list[str]:
        """List remarks on labels and counts, each a line."""
        notes = []
        if self.scheme != "plain" and not self.total.support:
            notes.append(
                "no entity is among the right labels, so F1 is 0 for every model: look at the "
                "accuracy, or take data with entities"
            )
        elif self.scheme != "plain" and not self.total.num_predicted:
            notes.append(
                f"the model found no entity in {count_noun(self.num_sentences, 'sentence')}: it "
                "needs more steps or examples"
            )
        if self.scheme != "plain":
            gold = f"{self.num_illegal_gold:,}" if self.num_illegal_gold else "none"
            notes.append(
                f"sentences with invalid {self.scheme} labels: {self.num_illegal:,} of "
                f"{self.num_sentences:,} predicted, {gold} in the gold data"
            )
        return [
            *notes,
            *line_with_count(
                self.num_unknown,
                "word has a label that the model does not know; it counts as wrong",
                "words have a label that the model does not know; they count as wrong",
            ),
            *line_with_count(
                self.num_windowed,
                "sentence was longer than the model reads and was read in windows",
                "sentences were longer than the model reads and were read in windows",
            ),
            *line_with_count(
                self.num_skipped,
                "sentence that could not be read was skipped",
                "sentences that could not be read were skipped",
            ),
            *(  # `REMARKS` has the words for one and for several
                line
                for name, count in self.remarks.items()
                for line in line_with_count(count, *REMARKS[name])
            ),
        ]

    def _table(self) -> Table:
        rows = self.types if self.scheme == "plain" else (*self.types, self.total)
        row_title = "label" if self.scheme == "plain" else "type"
        return Table(
            (row_title, "precision", "recall", "F1", "gold", "predicted", "right"),
            [
                (
                    row.label or "-",  # the labels B and I name no type
                    f"{row.precision:.4f}",
                    f"{row.recall:.4f}",
                    f"{row.f1:.4f}",
                    f"{row.support:,}",
                    f"{row.num_predicted:,}",
                    f"{row.num_correct:,}",
                )
                for row in rows
            ],
        )


class TagCounts:
    """Accumulator of span and word counts over sentences.

    Args:
        scheme: the scheme of the predicted labels.
        strict: count only spans that follow their scheme.
    """

    def __init__(self, scheme: Scheme, *, strict: bool = False) -> None:
        self.scheme = scheme
        self.strict = strict
        self.num_sentences = self.num_words = self.num_right_words = 0
        self.num_illegal = self.num_illegal_gold = 0
        # Numbers of spans by type: gold ones, predicted ones, and those that are both.
        self._gold: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()
        self._correct: Counter[str] = Counter()
        # Numbers of words by their gold type and predicted type.
        self._words: Counter[tuple[str, str]] = Counter()
        self.remarks: Counter[Remark] = Counter()

    def add(
        self,
        gold: Sequence[str],
        predicted: Sequence[str],
        *,
        gold_scheme: Scheme | None = None,
    ) -> None:
        """Count one sentence; gold labels may follow another scheme than the predicted ones.

        Raises:
            InputError: gold labels cannot be written in the scheme of the predicted ones.
        """
        gold_scheme = gold_scheme or self.scheme
        # Sentences with a label that breaks the scheme.
        self.num_illegal += count_illegal(predicted, self.scheme) > 0
        self.num_illegal_gold += count_illegal(gold, gold_scheme) > 0
        gold_spans = find_spans(gold, gold_scheme, strict=self.strict)
        spans = find_spans(predicted, self.scheme, strict=self.strict)
        self._gold.update(span.label for span in gold_spans)
        self._predicted.update(span.label for span in spans)
        self._correct.update(span.label for span in set(gold_spans) & set(spans))
        if gold_scheme != self.scheme:
            gold = convert_labels(gold, gold_scheme, self.scheme)
        self.num_sentences += 1
        self.num_words += len(gold)
        self.num_right_words += sum(
            gold_label == label for gold_label, label in zip(gold, predicted, strict=True)
        )
        gold_types = map(self._word_type, gold)
        predicted_types = map(self._word_type, predicted)
        self._words.update(zip(gold_types, predicted_types, strict=True))

    def report(
        self, *, num_skipped: int = 0, num_unknown: int = 0, num_windowed: int = 0
    ) -> TagReport:
        """Compute the scores of all sentences that were added; other counts are passed on."""
        types = tuple(self._score(label) for label in sorted({*self._gold, *self._predicted}))
        total = pool_scores(types)
        word_types = tuple(sorted({name for pair in self._words for name in pair}))
        return TagReport(
            scheme=self.scheme,
            strict=self.strict,
            precision=total.precision,
            recall=total.recall,
            f1=total.f1,
            macro_f1=sum(score.f1 for score in types) / len(types) if types else 0.0,
            accuracy=self.num_right_words / self.num_words if self.num_words else 0.0,
            types=types,
            num_sentences=self.num_sentences,
            num_words=self.num_words,
            num_illegal=self.num_illegal,
            num_illegal_gold=self.num_illegal_gold,
            num_unknown=num_unknown,
            num_windowed=num_windowed,
            num_skipped=num_skipped,
            remarks={name: count for name, count in self.remarks.items() if count},
            word_types=word_types,
            confusion=tuple(
                tuple(self._words[gold_type, predicted_type] for predicted_type in word_types)
                for gold_type in word_types
            ),
        )

    def _word_type(self, label: str) -> str:
        """Return the type that a word's label names, such as PER for B-PER."""
        # A label without a type, such as O, stands for itself.
        return label if self.scheme == "plain" else parse_label(label).type or label

    def _score(self, label: str) -> SpanScore:
        return span_score(label, self._correct[label], self._predicted[label], self._gold[label])


def pool_scores(scores: Sequence[SpanScore]) -> SpanScore:
    """Add up the counts of all types, and compute the score of their spans together (micro-F1)."""
    return span_score(
        "all",
        sum(score.num_correct for score in scores),
        sum(score.num_predicted for score in scores),
        sum(score.support for score in scores),
    )


def span_score(label: str, num_correct: int, num_predicted: int, support: int) -> SpanScore:
    """Compute precision, recall and F1 from counts; 0 for undefined ratios.

    >>> span_score("PER", num_correct=1, num_predicted=2, support=4).f1
    0.3333333333333333
    """
    precision = num_correct / num_predicted if num_predicted else 0.0
    recall = num_correct / support if support else 0.0
    f1 = 2 * precision * recall / (precision + recall) if num_correct else 0.0
    return SpanScore(label, precision, recall, f1, support, num_predicted, num_correct)
