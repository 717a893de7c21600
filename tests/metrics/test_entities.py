"""Scores of labelled words: seqeval's figures to the last digit."""

import re
import warnings

import pytest
import seqeval.metrics
import seqeval.scheme
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data.label_schemes import LETTERS
from bertsmith.metrics.entities import TagCounts

TYPES = ("PER", "LOC", "ORG")
SEQEVAL = {"IOB2": "IOB2", "BIOES": "IOBES", "BILOU": "BILOU", "BMES": "IOBES"}


def sentences(scheme):
    """Pairs of gold and predicted labels of equal length, all of them legal or not."""
    labels = ["O", *(f"{letter}-{type_}" for letter in set(LETTERS[scheme]) for type_ in TYPES)]
    pairs = st.lists(st.tuples(st.sampled_from(sorted(labels)), st.sampled_from(sorted(labels))))
    return st.lists(pairs, min_size=1, max_size=7)


def counted(pairs, scheme, **settings):
    counts = TagCounts(scheme, **settings)
    for gold, predicted in pairs:
        counts.add(gold, predicted)
    return counts.report()


def split(sentence):
    return [gold for gold, _ in sentence], [predicted for _, predicted in sentence]


def seqeval_figures(pairs, **settings):
    gold, predicted = (list(column) for column in zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of figures divided by nothing
        return seqeval.metrics.classification_report(
            gold, predicted, output_dict=True, zero_division=0, **settings
        )


def assert_equal_to_seqeval(report, expected):
    for score in report.types:
        theirs = expected[score.label]
        assert (score.precision, score.recall, score.f1, score.support) == tuple(theirs.values())
    assert {score.label for score in report.types} == {
        label for label in expected if not label.endswith(" avg")
    }
    micro = expected["micro avg"]
    assert (report.precision, report.recall, report.f1) == tuple(micro.values())[:3]
    assert report.macro_f1 == pytest.approx(expected["macro avg"]["f1-score"], abs=1e-15)


@pytest.mark.parametrize(
    ("scheme", "strict"),
    [*((name, False) for name in ("IOB1", "IOB2", "BIOES")), *((name, True) for name in SEQEVAL)],
)
@settings(max_examples=40)
@given(data=st.data())
def test_figures_are_seqevals(scheme, strict, data):
    mode = {"mode": "strict", "scheme": getattr(seqeval.scheme, SEQEVAL[scheme])} if strict else {}
    pairs = [split(sentence) for sentence in data.draw(sentences(scheme))]
    spelled = [[[re.sub("^M-", "I-", x) for x in row] for row in pair] for pair in pairs]
    report = counted(pairs, scheme, strict=strict)
    if report.types:
        assert_equal_to_seqeval(report, seqeval_figures(spelled, **mode))
    if report.num_words:
        gold, predicted = zip(*spelled, strict=True)
        assert report.accuracy == seqeval.metrics.accuracy_score(list(gold), list(predicted))


def test_plain_labels_are_scored_word_by_word():
    gold, predicted = ["DET", "NOUN", "VERB", "DET"], ["DET", "VERB", "VERB", "NOUN"]
    report = counted([(gold, predicted)], "plain")
    assert report.accuracy == report.f1 == 0.5
    scores = {score.label: (score.precision, score.recall) for score in report.types}
    assert scores == {"DET": (1.0, 0.5), "NOUN": (0.0, 0.0), "VERB": (0.5, 1.0)}


def test_words_are_counted_by_what_their_type_was_taken_for():
    gold, predicted = ["B-A", "I-A", "O", "B-B", "O"], ["B-B", "I-B", "O", "B-B", "I-A"]
    report = counted([(gold, predicted), (["I-A"], ["O"])], "IOB2")
    assert report.word_types == ("A", "B", "O")
    assert report.confusion == ((0, 2, 1), (0, 1, 0), (1, 0, 1))
    bounds = counted([(list("BES"), list("BEB"))], "BMES")
    assert (bounds.word_types, bounds.confusion[2]) == (("B", "E", "S"), (1, 0, 0))
