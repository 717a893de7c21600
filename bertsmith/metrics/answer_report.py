"""Report of extractive question answering, as text and as JSON.

A no-answer probability is a number for each question: the higher it is, the likelier the question
has no answer. It may also be a difference of logits, a no-answer score, which has no bounds. If it
is above the threshold, the predicted answer counts as empty, which means "no answer".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from bertsmith.data.windowing import LongTexts
from bertsmith.metrics.answers import (
    INFINITE_SCORE,
    AnswerScores,
    BestThreshold,
    Language,
    Protocol,
    QuestionScores,
)
from bertsmith.metrics.reading_counts import ReadingCounts
from bertsmith.metrics.report import Report, ScoreLine, Table
from bertsmith.system.counts import count_noun, line_with_count

# Remarks, each for one question or answer and for several; their number is put before them.
CUT_NOTES: dict[LongTexts, tuple[str, str]] = {
    "window": (
        "question was longer than the model reads and was cut; its passage was read",
        "questions were longer than the model reads and were cut; their passages were read",
    ),
    "cut": (
        "question or its passage was longer than the model reads; its end was cut off",
        "questions or their passages were longer than the model reads; their ends were cut off",
    ),
}
TOO_LONG_NOTE = (
    "only right answers that are longer than {} tokens and cannot be predicted "
    "('bertsmith finetune answer --max-answer-length')"
)
THRESHOLD_NAMES = {INFINITE_SCORE: "none", -INFINITE_SCORE: "below all"}
"""Names of the threshold that keeps all answers, and of the one that keeps none."""
COMPARING_RULES = {
    "en": "words, as SQuAD {protocol} compares them",
    "zh": "characters, as CMRC 2018 does",
}
"""Descriptions of the rules by which answers are compared, by language."""


@dataclass(frozen=True)
class AnswerReport(Report):
    """Exact match and F1 of extractive question answering, from 0 to 100.

    Attributes:
        overall: scores of all questions.
        protocol: version of SQuAD whose rules apply; only 2.0 has questions without an answer.
        language: comparison by words ("en", any language with spaces) or by characters ("zh").
        has_answer: scores of the questions with a gold answer; None if there are none, or by
            protocol 1.1.
        no_answer: scores of the questions without a gold answer; None if there are none.
        best_exact: best exact match of any threshold; None without no-answer probabilities, or by
            protocol 1.1.
        best_f1: best F1 of any threshold; None where `best_exact` is None.
        threshold: answers with a higher no-answer probability count as empty.
        num_unanswered: number of empty answers; None without a threshold or probabilities.
        num_missing: number of questions without a prediction, which score 0.
        num_unknown: number of predictions for questions that are not in the file.
        num_truncated: number of questions that were cut. If `long_texts` is "cut", questions whose
            passage was cut are counted, too.
        num_windowed: number of questions whose passage was read in windows, overlapping parts.
        num_skipped: number of rows that were skipped because a needed value was missing.
        num_moved: number of gold answers that occur in the passage at another offset, or with other
            white space, than the file says.
        num_lost: number of gold answers that do not occur in the passage.
        num_empty: number of questions that are blank or have a blank passage.
        num_too_long: number of questions all of whose gold answers have more than
            `max_answer_length` tokens, so that the model cannot predict them.
        num_inside_token: number of questions all of whose gold answers begin or end inside a token.
        long_texts: treatment of passages that were too long for the model.
    """

    overall: AnswerScores
    protocol: Protocol
    language: Language
    has_answer: AnswerScores | None = None
    no_answer: AnswerScores | None = None
    best_exact: BestThreshold | None = None
    best_f1: BestThreshold | None = None
    threshold: float | None = None
    num_unanswered: int | None = None
    num_missing: int = 0
    num_unknown: int = 0
    num_truncated: int = 0
    num_windowed: int = 0
    num_skipped: int = 0
    num_moved: int = 0
    num_lost: int = 0
    num_empty: int = 0
    num_too_long: int = 0
    num_inside_token: int = 0
    max_answer_length: int | None = None
    long_texts: LongTexts = "window"

    def to_json(self) -> dict[str, Any]:
        """Return the figures under the keys of the official scorers."""
        report: dict[str, Any] = {
            "exact_match": self.overall.exact_match,
            "f1": self.overall.f1,
            "total": self.overall.total,
        }
        for name, scores in (("HasAns", self.has_answer), ("NoAns", self.no_answer)):
            if scores is not None:
                report |= {
                    f"{name}_exact": scores.exact_match,
                    f"{name}_f1": scores.f1,
                    f"{name}_total": scores.total,
                }
        for name, best in (("best_exact", self.best_exact), ("best_f1", self.best_f1)):
            if best is not None:
                report |= {name: best.score, f"{name}_thresh": best.threshold}
        counts = [field.name for field in fields(self) if field.name.startswith("num_")]
        others = ("threshold", *counts, "protocol", "language")
        return report | {name: getattr(self, name) for name in others}

    def contents(self) -> list[ScoreLine | Table | str]:
        """Return the table of scores, and lines on thresholds, rules and counts."""
        groups = {"all": self.overall, "has answer": self.has_answer, "no answer": self.no_answer}
        rows = [
            (name, f"{scores.exact_match:.4f}", f"{scores.f1:.4f}", f"{scores.total:,}")
            for name, scores in groups.items()
            if scores is not None
        ]
        lines: list[str] = []
        for name, best in (("exact match", self.best_exact), ("F1", self.best_f1)):
            if best is not None:
                answers = describe_kept_answers(best)
                lines.append(f"best {name} {best.score:.4f}, where {answers} are given")
        if self.threshold is not None and self.num_unanswered is not None:
            questions = count_noun(self.overall.total, "question")
            were = "was" if self.num_unanswered == 1 else "were"
            limit = THRESHOLD_NAMES.get(self.threshold, f"{self.threshold:.6g}")
            lines.append(
                f"{self.num_unanswered:,} of {questions} {were} given no answer (threshold {limit})"
            )
        lines.append("compared by " + COMPARING_RULES[self.language].format(protocol=self.protocol))
        return [Table(("", "exact match", "F1", "questions"), rows), *lines, *self.notes()]

    def notes(self) -> list[str]:
        """List remarks on the counts above 0, each a line."""
        passages = ("passage was", "passages were")
        read = "longer than the model reads and read in windows"
        return [
            *line_with_count(self.num_windowed, *(f"{passage} {read}" for passage in passages)),
            *line_with_count(self.num_truncated, *CUT_NOTES[self.long_texts]),
            *ReadingCounts(num_skipped=self.num_skipped).notes(),
            *line_with_count(
                self.num_missing,
                "question has no prediction and scores 0",
                "questions have no prediction and score 0",
            ),
            *line_with_count(
                self.num_unknown,
                "prediction is for a question that the gold file lacks and is ignored",
                "predictions are for questions that the gold file lacks and are ignored",
            ),
            *line_with_count(
                self.num_moved,
                "right answer was found at another offset, or with other white space",
                "right answers were found at another offset, or with other white space",
            ),
            *line_with_count(
                self.num_lost,
                "right answer does not occur in its passage",
                "right answers do not occur in their passage",
            ),
            *line_with_count(
                self.num_too_long,
                f"question has {TOO_LONG_NOTE.format(self.max_answer_length)}",
                f"questions have {TOO_LONG_NOTE.format(self.max_answer_length)}",
            ),
            *line_with_count(
                self.num_inside_token,
                "question has only right answers that begin or end inside a token; predicted "
                "answers are whole tokens",
                "questions have only right answers that begin or end inside a token; predicted "
                "answers are whole tokens",
            ),
            *line_with_count(
                self.num_empty,
                "question or its passage is empty",
                "questions or their passages are empty",
            ),
        ]


def describe_kept_answers(best: BestThreshold) -> str:
    """Describe the answers that a threshold keeps, for a sentence such as "where … are given"."""
    if best.threshold >= INFINITE_SCORE:
        return "all answers"
    if best.threshold <= -INFINITE_SCORE:
        return "no answers"
    return f"answers with a no-answer score up to {best.threshold:.6g}"


def with_margin(threshold: float, scores: Iterable[float]) -> float:
    """Move a threshold halfway to the next score above it.

    The new threshold keeps the same answers. A threshold that equals a score would depend on the
    last digit of that score.

    >>> with_margin(0.5, [0.5, 0.7, 0.9, 0.1]), with_margin(0.5, [0.5, 0.1])
    (0.6, 0.5)
    """
    above = min(
        (score for score in scores if threshold < score < INFINITE_SCORE), default=threshold
    )
    return (threshold + above) / 2 if threshold > -INFINITE_SCORE else threshold


def summarize_answers(
    questions: QuestionScores,
    *,
    protocol: Protocol | None = None,
    no_answer_probs: Sequence[float] | None = None,
    threshold: float | Literal["best"] | None = None,
    order: Iterable[int] | None = None,
    lowest: float = 0.0,
    num_unknown: int = 0,
) -> AnswerReport:
    """Compute the report of scored questions.

    Args:
        protocol: by default that of SQuAD 2.0 if a question has no answer or no-answer
            probabilities are given, else that of SQuAD 1.1.
        no_answer_probs: one for each question.
        threshold: answers with a higher no-answer probability count as empty; "best" takes the
            threshold of the best F1, moved by `with_margin`, and needs protocol 2.0 with
            probabilities. None keeps all answers.
        order: the indices of the questions, in the order in which those with equal probabilities
            are taken to find the best threshold; None keeps their order.
        lowest: the threshold to report if it is best to keep no answer.
        num_unknown: predictions for questions that are not scored.
    """
    if protocol is None:
        may_lack_answers = questions.has_unanswerable or no_answer_probs is not None
        protocol = "2.0" if may_lack_answers else "1.1"
    pairs = questions.pairs(protocol)  # exact match and F1 of each question
    best: dict[str, BestThreshold] = {}
    if no_answer_probs is not None and protocol == "2.0":
        ranks = None if order is None else list(order)  # a list, as it is read twice
        for name, scores in (("exact", pairs.column(0)), ("f1", pairs.column(1))):
            best[name] = questions.find_best_threshold(scores, no_answer_probs, ranks, lowest)
    if threshold == "best":
        assert no_answer_probs is not None and best
        threshold = with_margin(best["f1"].threshold, no_answer_probs)
    num_unanswered = None
    if no_answer_probs is not None and threshold is not None:
        pairs = questions.with_threshold(pairs, no_answer_probs, threshold)
        num_unanswered = questions.count_unanswered(no_answer_probs, threshold)
    overall = questions.mean(pairs, protocol)
    assert overall is not None  # a file of questions has at least one question
    return AnswerReport(
        overall,
        protocol,
        questions.language,
        has_answer=questions.mean(pairs, protocol, answered=True) if protocol == "2.0" else None,
        no_answer=questions.mean(pairs, protocol, answered=False),
        threshold=threshold,
        num_unanswered=num_unanswered,
        best_exact=best.get("exact"),
        best_f1=best.get("f1"),
        num_missing=questions.num_missing,
        num_unknown=num_unknown,
    )
