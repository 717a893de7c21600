"""Figures of answers by the thresholds that they depend on."""

from bertsmith.metrics.answer_report import summarize_answers
from bertsmith.metrics.answers import ENDLESS, QuestionScores


def scored(*rights: str) -> QuestionScores:
    questions = QuestionScores("en")
    for right in rights:
        questions.add("x", [right] if right else [])
    return questions


def test_the_best_threshold_stands_between_two_scores() -> None:
    report = summarize_answers(
        scored("x", "x", ""), no_answer_probs=[-3.0, -1.0, 5.0], threshold="best", lowest=-ENDLESS
    )
    assert (report.best_f1.threshold, report.threshold) == (-1.0, 2.0)
    assert report.overall.f1 == report.best_f1.score == 100


def test_without_unanswerable_questions_no_threshold_is_found() -> None:
    report = summarize_answers(
        scored("x", "x"), protocol="1.1", no_answer_probs=[-3.0, 24.0], threshold="best"
    )
    assert (report.best_f1, report.threshold) == (None, 0.0)


def test_where_no_answer_is_best_the_threshold_says_so() -> None:
    report = summarize_answers(
        scored("", "y"), no_answer_probs=[-3.0, 2.0], threshold="best", lowest=-ENDLESS
    )
    assert report.threshold == -ENDLESS
