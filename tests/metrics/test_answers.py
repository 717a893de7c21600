"""Scores of extracted answers: the official scorers' published figures, and their rules."""

import json
import operator
import tracemalloc
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.data.squad import QuestionReader
from bertsmith.metrics.answers import (
    DEFAULT_THRESHOLD,
    BestThreshold,
    QuestionScores,
    answer_or_none_scores,
    answer_scores,
    both_scores,
    compared_form,
    longest_common_run,
    units,
)


@pytest.mark.parametrize(
    "gold, system, figures",
    [
        ("dev-v1.1", "v1.1/bert-ensemble", (86.2062, 92.1956)),
        ("dev-v1.1", "v1.1/logistic-regression", (40.1419, 50.9815)),
        ("dev-v2.0", "v2.0/bert-single", (78.7417, 81.7753, 74.1059, 80.1818, 83.3642)),
        ("dev-v2.0", "v2.0/nlnet-single", (75.8275, 78.7778)),
    ],
)
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


@pytest.mark.parametrize(
    "text, form",
    [
        ("  The U.S.-led\ta  war ", "usled war"),
        ("an Apple a day", "apple day"),
        ("theory of a-the", "theory of athe"),
        ("$2 “million”", "2 “million”"),  # only ASCII punctuation is left out
        ("The", ""),
        ("İ", "i̇"),
    ],
)
def test_what_is_compared(text, form):
    assert compared_form(text) == form


def test_the_best_of_several_answers_counts():
    gold = ["Denver Broncos", "The Broncos of Denver"]
    assert answer_scores("broncos of denver.", gold) == (1, 1.0)
    exact, f1 = answer_scores("Denver", gold)
    assert (exact, f1) == (0, pytest.approx(2 / 3))
    assert answer_scores("Carolina", gold) == (0, 0)
    # Words count as often as they stand in both.
    assert answer_scores("new new", ["new york"])[1] == pytest.approx(0.5)


def test_nothing_is_right_only_where_there_is_nothing_to_find():
    assert answer_or_none_scores("", []) == (1, 1)
    assert answer_or_none_scores("Denver", []) == (0, 0)
    assert answer_or_none_scores("", ["Denver"]) == (0, 0)
    assert answer_or_none_scores("the", ["a"]) == (1, 1)  # nothing is left of both
    assert answer_or_none_scores("the", ["a", "Denver"]) == (0, 0)
    assert answer_scores("the", ["a"]) == (1, 0)  # 1.1 finds no common word


@given(
    st.text("ab theA.", max_size=9),
    st.lists(st.text("ab theA.", max_size=9), max_size=3),
    st.sampled_from(["en", "zh"]),
)
def test_both_protocols_at_once_are_each_alone(prediction, answers, language):
    both = both_scores(prediction, answers, language)
    assert both["2.0"] == answer_or_none_scores(prediction, answers, language)
    assert both["1.1"] == (answer_scores(prediction, answers, language) if answers else (0, 0))


@given(st.text(max_size=30), st.lists(st.text(max_size=30), min_size=1, max_size=3))
def test_an_answer_that_is_given_scores_full_in_every_language(text, others):
    for language in ("en", "zh"):
        assert answer_or_none_scores(text, [*others, text], language) == (1, 1) or not (
            compared_form(text, language)
        )
        exact, f1 = answer_scores(text, others, language)
        assert exact in (0, 1)
        assert 0 <= f1 <= 1


def is_same(one, other):
    return list(one) == list(other) and [list(map(type, p)) for p in one] == [
        list(map(type, p)) for p in other
    ]


@given(
    st.lists(
        st.tuples(
            st.none() | st.text("ab theA.", max_size=7),
            st.lists(st.text("ab theA.", max_size=7), max_size=3),
        ),
        min_size=1,
    )
)
def test_scores_are_kept_as_they_are(examples):
    """Also their types: `sum` adds ints and floats differently."""
    questions = QuestionScores()
    for prediction, answers in examples:
        questions.add(prediction, answers)
    for protocol in ("1.1", "2.0"):
        expected = [both_scores(*example, "en")[protocol] for example in examples]
        pairs = questions.pairs(protocol)
        assert is_same(pairs, expected)
        assert is_same([pairs[i] for i in range(len(pairs))], expected)
        assert is_same(pairs[::2], expected[::2])
        assert list(pairs.column(1)) == [f1 for _, f1 in expected]
        for answered in (None, False, True):
            f1 = [
                pair[1]
                for pair, (_, answers) in zip(expected, examples, strict=True)
                if answered in (None, bool(answers))
            ]
            mean = questions.mean(pairs, protocol, answered=answered)
            total = sum(f1) if protocol == "2.0" else reduce(operator.add, f1, 0)
            assert (mean and mean.f1) == (100.0 * total / len(f1) if f1 else None)


def test_scores_take_eleven_bytes_a_question():
    tracemalloc.start()
    try:
        questions, before = QuestionScores(), 0
        for number in range(30_000):
            if number == 10_000:
                before = tracemalloc.get_traced_memory()[0]
            questions.add("a red rose", ["red rose here"] * (number % 2))
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 20_000 * 11 * 1.25  # arrays grow by an eighth in advance


def scored(gold, predictions):
    questions = QuestionScores()
    for id_, answers in gold.items():
        questions.add(predictions.get(id_), answers)
    return questions


def test_a_missing_prediction_scores_nothing():
    questions = scored({"a": ["x"], "b": ["y"], "c": []}, {"a": "x", "z": "q"})
    assert questions.num_missing == 2
    assert questions.has_unanswerable
    for protocol in ("1.1", "2.0"):
        assert list(questions.pairs(protocol)) == [(1, 1.0), (0, 0), (0, 0)]
    pairs = questions.pairs("2.0")
    assert list(questions.with_threshold(pairs, [9, 9, 9], 1)) == [(0, 0), (0, 0), (0, 0)]
    assert questions.mean(pairs, "2.0", answered=True).exact_match == 50
    assert scored({"a": ["x"]}, {"a": "x"}).mean(pairs[:1], "1.1", answered=False) is None


GOLD = {"a": ["x"], "b": ["y z"], "c": [], "d": []}
PREDICTIONS = {"a": "x", "b": "y", "c": "w", "d": ""}


def test_a_threshold_takes_answers_back():
    questions = scored(GOLD, PREDICTIONS)
    pairs = questions.pairs("2.0")
    assert [exact for exact, _ in pairs] == [1, 0, 0, 1]
    probs = [0.9, 0.2, 0.8, 0.1]
    assert [exact for exact, _ in questions.with_threshold(pairs, probs, 0.5)] == [0, 0, 1, 1]
    assert list(questions.with_threshold(pairs, probs, DEFAULT_THRESHOLD)) == list(pairs)


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


def test_the_best_threshold_by_hand():
    questions = scored(GOLD, PREDICTIONS)
    f1 = [f1 for _, f1 in questions.pairs("2.0")]
    best = questions.find_best_threshold(f1, [0.3, 0.2, 0.8, 0.9])
    # a and b are answered (1 and 2/3), c and d are not (1 and 1).
    assert best.score == pytest.approx(100 * (1 + 2 / 3 + 2) / 4)
    assert best.threshold == 0.3
    # Of equal probabilities the order decides, as in the official scorer.
    for order, expected in (([0, 2, 1, 3], 0.3), ([2, 0, 1, 3], 0.0)):
        assert questions.find_best_threshold([1, 0, 0, 0], [0.3] * 4, order).threshold == expected


def test_the_lowest_threshold_stands_for_no_answers():
    questions = scored({"a": [], "b": []}, {"a": "x", "b": "y"})
    for lowest in (0.0, -9.0):
        best = questions.find_best_threshold([0, 0], [-3.0, -2.0], lowest=lowest)
        assert best == BestThreshold(100.0, lowest)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("《红楼梦》，曹雪芹。", "红 楼 梦 曹 雪 芹"),
        (" iPhone 5S手机 ", "iphone 5s 手 机"),
        ("约1,000.5米(3:2)", "约 1,000.5 米 ( 32 )"),
        ("Dr. Who's “tale”.", "dr. who 's tale ."),
        ("2000–01赛季", "2000 – 01 赛 季"),
        ("𠀀字", "𠀀 字"),
    ],
)
def test_units_of_chinese_are_characters_and_words(text, expected):
    assert units(text, "zh") == tuple(expected.split())


def test_chinese_answers_are_compared_by_their_common_run():
    assert answer_scores("曹雪芹。", ["曹雪芹"], "zh") == (1, 1.0)
    exact, f1 = answer_scores("作者曹雪芹", ["曹雪芹", "雪芹"], "zh")
    assert (exact, f1) == (0, pytest.approx(2 * (3 / 5) * 1 / (3 / 5 + 1)))
    # As words in a bag these would be equal.
    assert answer_scores("芹雪曹", ["曹雪芹"], "zh")[1] == pytest.approx(1 / 3)


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_the_longest_common_run(a, b):
    runs = {a[i:j] for i in range(len(a) + 1) for j in range(i, len(a) + 1)}
    assert longest_common_run(a, b) == max(len(run) for run in runs if run in b)
