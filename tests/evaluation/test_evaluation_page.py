"""What the page of an evaluation draws equals what the answers say."""

import numpy as np
import pytest

from bertsmith.data.examples import Example
from bertsmith.evaluation.page import NUM_MISSES, Survey, draw_thresholds, scores_of
from bertsmith.metrics.class_report import summarize
from bertsmith.metrics.classification import confusion_matrix
from bertsmith.tasks.scoring import Outcome

NAMES = ("no", "yes")


@pytest.fixture
def answers():
    """Gold labels and probabilities of the second label."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 400)
    return gold, np.clip(0.3 * gold + 0.7 * rng.random(400), 0, 1)


def test_thresholds_scores_and_the_surest_misses(answers):
    gold, likely = answers
    predicted = (likely >= 0.5).astype(int)
    sure = np.where(predicted, likely, 1 - likely)
    survey = Survey()
    outcomes = [
        Outcome("t", NAMES[g], NAMES[p], float(g == p), c)
        for g, p, c in zip(gold, predicted, sure.tolist(), strict=True)
    ]
    for outcome in outcomes:
        survey.see([Example("t")], [outcome])
    report = summarize(confusion_matrix(gold, predicted, 2), NAMES)
    drawn = draw_thresholds(survey, report)
    assert drawn.label == "yes" and drawn.usual_f1 == pytest.approx(report.classes[1].f1)
    for place, (threshold, recall) in enumerate(drawn.chart.series[1].points):
        assert recall == pytest.approx((likely[gold == 1] >= threshold - 1e-12).mean(), abs=0.01)
        assert drawn.chart.series[2].points[place][1] <= drawn.best_f1
    titles = [score.title for score in scores_of(report)]
    assert titles == ["Accuracy", "Macro-F1", "MCC"]  # micro-F1 is the accuracy
    misses = sorted(
        (c for c, o in zip(sure, outcomes, strict=True) if not o.is_right), reverse=True
    )
    assert [miss.urgency for miss in survey.misses] == misses[:NUM_MISSES]
    three = summarize(np.eye(3, dtype=np.int64), ("a", "b", "c"))
    assert draw_thresholds(survey, three) is None
