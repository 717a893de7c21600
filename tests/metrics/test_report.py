"""Reports say the same as text and, in a notebook, as HTML."""

import re
from dataclasses import replace

import numpy as np
import pytest
from html_tables import read_html

from bertsmith.evaluation.minimal_pairs import GroupScore, PairReport
from bertsmith.metrics.answer_report import summarize_answers
from bertsmith.metrics.answers import QuestionScores
from bertsmith.metrics.class_report import MAX_SHOWN_CLASSES, summarize
from bertsmith.metrics.entities import TagCounts
from bertsmith.metrics.multi_label import LabelCounts, MultiLabelReport
from bertsmith.metrics.multiple_choice import ChoiceReport
from bertsmith.metrics.regression import NumberReport, SimilarityReport
from bertsmith.metrics.retrieval import RetrievalReport


def class_report():
    confusion = np.array([[1, 2], [3, 40_000]])
    return summarize(confusion, ["<b>bad</b>", "good"], num_skipped=2)


def test_reports_on_pairs_count_pairs():
    reports = [
        replace(class_report(), noun="pair"),
        replace(multi_label_report(), noun="pair"),
        NumberReport.of(*NUMBERS, noun="pair"),
    ]
    for report, count in zip(reports, ("40,006 pairs", "2 pairs", "4 pairs"), strict=True):
        assert count in str(report) and "texts" not in str(report)
        assert "noun" not in report.to_json()


def multi_label_report():
    true, predicted = np.array([[True, False], [True, True]]), np.array([[True, True]] * 2)
    return MultiLabelReport.of(LabelCounts.of(true, predicted), ["a & b", "c"], num_truncated=1)


def tag_report(scheme="BIO"):
    counts = TagCounts(scheme)
    counts.add(["B-PER", "O", "O"], ["B-PER", "B-<LOC>", "O"])
    return counts.report(num_unknown=1)


def report_without_spans():
    counts = TagCounts("plain")
    counts.add(["O", "O"], ["O", "O"])
    return counts.report()


def answer_report():
    questions = QuestionScores("en")
    questions.add("a film", ["film"])
    questions.add("", [])
    return summarize_answers(questions, no_answer_probs=[0.1, 0.2], threshold="best")


def pair_report():
    groups = {"paradigm": {"<i>": GroupScore(50, 0.5)}, "phenomenon": {}, "field": {}}
    return PairReport(0.5, 0.6, 100, 3, 20.0, groups)


NUMBERS = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.1, 0.4, 0.9, 0.2])
REPORTS = {
    "classes": class_report,
    "several labels": multi_label_report,
    "numbers": lambda: NumberReport.of(*NUMBERS, num_windowed=1),
    "small numbers": lambda: NumberReport.of(*(each * 1e-6 for each in NUMBERS)),
    "similarity": lambda: SimilarityReport.of(*NUMBERS),
    "retrieval": lambda: RetrievalReport({1: 0.25, 10: 0.5}, 0.375, 8, 1000),
    "choices": lambda: ChoiceReport(0.75, 0.25, 12),
    "entities": tag_report,
    "words": lambda: tag_report("plain"),
    "words without a label": report_without_spans,
    "answers": answer_report,
    "minimal pairs": pair_report,
}


@pytest.mark.parametrize("name", REPORTS)
def test_html_has_all_that_the_text_has(name):
    report = REPORTS[name]()
    html = read_html(report._repr_html_())
    cells = [cell for rows in html.tables for row in rows for cell in row]
    assert words_of(" ".join([*cells, *html.lines])) == words_of(str(report))


def words_of(text):
    """The words of a text; the meaning of a score stands in brackets where there is no table."""
    return sorted(re.sub("[()]", " ", text).split())


def test_a_report_has_the_scores_that_were_counted():
    scores, classes, confusion = read_html(class_report()._repr_html_()).tables
    assert scores[0][:2] == ["accuracy", f"{40_001 / 40_006:.4f}"]
    assert classes[1] == ["<b>bad</b>", "0.2500", "0.3333", "0.2857", "3"]
    assert confusion[1:] == [["<b>bad</b>", "1", "2", ""], ["good", "3", "40,000", ""]]


def test_a_table_that_would_be_too_wide_is_left_out():
    size = MAX_SHOWN_CLASSES + 1
    report = summarize(np.eye(size, dtype=np.int64), [f"label {i}" for i in range(size)])
    assert len(read_html(report._repr_html_()).tables) == 2
    assert "<- predicted" not in str(report)
