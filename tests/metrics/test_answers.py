"""Scores of extracted answers: the official scorers' published figures, and their rules."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data.squad import QuestionReader
from bertsmith.metrics.answers import (
    BestThreshold,
    QuestionScores,
    answer_or_none_scores,
    answer_scores,
    compared_form,
    longest_common_run,
    scores_by_protocol,
    units,
)


@pytest.mark.parametrize("gold, system, figures", [
    ("dev-v1.1", "v1.1/bert-ensemble", (86.2062, 92.1956)),
    ("dev-v2.0", "v2.0/bert-single", (78.7417, 81.7753, 74.1059, 80.1818, 83.3642)),
])  # fmt: skip
def test_published_systems_get_the_official_figures(data_dir, gold, system, figures):
    squad = data_dir / "squad"
    predictions = json.loads((squad / "predictions" / f"{system}.json").read_text())
    questions = QuestionScores()
    for question in QuestionReader(squad / f"{gold}.json"):
        questions.add(predictions.get(question.id), [a.text for a in question.answers])
    protocol = gold[-3:]
    pairs = questions.pairs(protocol)
    everything = questions.mean(pairs, protocol)
    found = [everything.exact_match, everything.f1]
    if len(figures) > 2:
        has_answer, no_answer = (
            questions.mean(pairs, protocol, answered=answered) for answered in (True, False)
        )
        found += [has_answer.exact_match, has_answer.f1, no_answer.exact_match]
        assert no_answer.f1 == no_answer.exact_match
        assert has_answer.total + no_answer.total == everything.total == 11873
    assert [round(figure, 4) for figure in found] == list(figures)


def scored(gold, predictions):
    questions = QuestionScores()
    for id_, answers in gold.items():
        questions.add(predictions.get(id_), answers)
    return questions


GOLD = {"a": ["x"], "b": ["y z"], "c": [], "d": []}
PREDICTIONS = {"a": "x", "b": "y", "c": "w", "d": ""}


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), st.sampled_from([0, 1]))
def test_the_best_threshold_is_the_best_of_all(levels, column):
    questions = scored(GOLD, PREDICTIONS)
    pairs, probs = questions.pairs("2.0"), [level / 5 for level in levels]
    best = questions.find_best_threshold([pair[column] for pair in pairs], probs)

    def score_at(threshold):
        return 25 * sum(p[column] for p in questions.with_threshold(pairs, probs, threshold))

    assert best.score >= max(map(score_at, [-1.0, *probs])) - 1e-9
    if len(set(probs)) == len(probs) and best.threshold:
        assert score_at(best.threshold) == pytest.approx(best.score)


@pytest.mark.parametrize("text, language, form", [
    ("  The U.S.-led\ta  war ", "en", "usled war"), ("The", "en", ""), ("İ", "en", "i̇"),
    ("$2 “million”", "en", "2 “million”"),  # only ASCII punctuation is left out
    ("《红楼梦》，曹雪芹。", "zh", "红 楼 梦 曹 雪 芹"), ("𠀀字", "zh", "𠀀 字"),
    (" iPhone 5S手机 ", "zh", "iphone 5s 手 机"), ("2000–01赛季", "zh", "2000 – 01 赛 季"),
    ("约1,000.5米(3:2)", "zh", "约 1,000.5 米 ( 32 )"),
])  # fmt: skip
def test_what_is_compared(text, language, form):
    found = compared_form(text) if language == "en" else " ".join(units(text, language))
    assert found == form


@pytest.mark.parametrize("prediction, answers, language, of_1_1, of_2_0", [
    ("broncos of denver.", ["Denver Broncos", "The Broncos of Denver"], "en", (1, 1), (1, 1)),
    ("Denver", ["Denver Broncos", "The Broncos of Denver"], "en", (0, 2 / 3), (0, 2 / 3)),
    ("new new", ["new york"], "en", (0, 0.5), (0, 0.5)),  # as often as in both
    ("", [], "en", None, (1, 1)), ("Denver", [], "en", None, (0, 0)),
    ("the", ["a"], "en", (1, 0), (1, 1)),  # nothing is left of both: 1.1 finds no common word
    ("曹雪芹。", ["曹雪芹"], "zh", (1, 1), (1, 1)),
    ("作者曹雪芹", ["曹雪芹", "雪芹"], "zh", (0, 3 / 4), (0, 3 / 4)),
    ("芹雪曹", ["曹雪芹"], "zh", (0, 1 / 3), (0, 1 / 3)),  # as words in a bag they were equal
])  # fmt: skip
def test_scores_by_both_protocols(prediction, answers, language, of_1_1, of_2_0):
    both = scores_by_protocol(prediction, answers, language)
    assert both["2.0"] == answer_or_none_scores(prediction, answers, language)
    assert both["2.0"] == pytest.approx(of_2_0)
    assert both["1.1"] == pytest.approx(of_1_1 or (0, 0))
    assert not answers or both["1.1"] == answer_scores(prediction, answers, language)


def test_no_answer_at_all_may_be_best_and_missing_ones_score_nothing():
    silent = scored({"a": [], "b": []}, {"a": "x", "b": "y"})
    best = silent.find_best_threshold([0, 0], [-3.0, -2.0], lowest=-9.0)
    assert best == BestThreshold(100.0, -9.0)  # which stands for no answers at all
    missing = scored({"a": ["x"], "b": ["y"], "c": []}, {"a": "x", "z": "q"})
    assert (missing.num_missing, missing.has_unanswerable) == (2, True)
    assert list(missing.pairs("2.0")) == [(1, 1.0), (0, 0), (0, 0)]
    # No threshold makes a missing prediction right.
    best = missing.find_best_threshold([1, 0, 0], [0.0, 0.0, 0.0])
    assert best.score == pytest.approx(100 / 3)


@settings(max_examples=50)
@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_the_longest_common_run(a, b):
    runs = {a[i:j] for i in range(len(a) + 1) for j in range(i, len(a) + 1)}
    assert longest_common_run(a, b) == max(len(run) for run in runs if run in b)
