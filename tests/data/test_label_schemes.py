"""Label schemes: detected, read as seqeval reads them, converted, counted where broken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.data.label_schemes import (
    LETTERS,
    Span,
    convert_labels,
    count_illegal,
    detect_scheme,
    find_spans,
    scheme_of_predictions,
    write_labels,
)

SPAN_SCHEMES = tuple(LETTERS)
TYPES = ("PER", "LOC", "a-b")


def sequences(letters):
    labels = ["O", *(f"{letter}-{type_}" for letter in letters for type_ in TYPES)]
    return st.lists(st.sampled_from(labels), max_size=13)


@st.composite
def spans_of(draw, size):
    """Random spans that do not overlap, in a sequence of `size` words."""
    ends = sorted(draw(st.lists(st.integers(0, size), unique=True, max_size=8)))
    types = [draw(st.sampled_from([None, *TYPES])) for _ in ends[1:]]
    places = zip(types, ends, ends[1:], strict=False)
    return [Span(type_, start, end) for type_, start, end in places if type_]


@pytest.mark.parametrize("scheme", SPAN_SCHEMES)
@settings(max_examples=40)
@given(spans=spans_of(13))
def test_spans_come_back_from_their_labels_and_are_legal(scheme, spans):
    labels = write_labels(spans, 13, scheme)
    assert find_spans(labels, scheme) == find_spans(labels, scheme, strict=True) == spans
    assert count_illegal(labels, scheme) == 0
    for target in SPAN_SCHEMES:
        assert convert_labels(labels, scheme, target) == write_labels(spans, 13, target)


@pytest.mark.parametrize("scheme", SPAN_SCHEMES)
@settings(max_examples=40)
@given(data=st.data())
def test_repair_makes_legal_and_leaves_the_legal_alone(scheme, data):
    labels = data.draw(sequences(LETTERS[scheme]))
    repaired = convert_labels(labels, scheme, scheme)
    assert count_illegal(repaired, scheme) == 0
    assert find_spans(repaired, scheme) == find_spans(labels, scheme)
    assert (repaired == labels) == (count_illegal(labels, scheme) == 0)


@pytest.mark.parametrize("labels, scheme", [
    ("I-PER I-PER O I-LOC B-LOC", "IOB1"), ("B-PER I-PER O I-LOC B-LOC B-LOC", "IOB2"),
    ("B-PER E-PER O S-LOC", "BIOES"), ("B-PER M-PER E-PER O", "BMES"),
    ("B-PER L-PER O U-LOC", "BILOU"), ("B E S S B M E", "BMES"), ("B I E S O", "BIOES"),
    ("B I L U O", "BILOU"), ("B L O", "BILOU"), ("L U U L", "plain"),
    ("O O", "IOB2"), ("NOUN VERB X O", "plain"),
])  # fmt: skip
def test_schemes_are_detected(labels, scheme):
    assert detect_scheme([labels.split(), []]) == scheme


@pytest.mark.parametrize("labels, gold, scheme", [
    ("I-A I-A O I-B", "IOB2", "IOB2"),  # illegal, and IOB1 by itself
    ("B-A I-A O I-B", "IOB1", "IOB2"),
    ("B-A E-A S-B", "BMES", "BMES"),  # BIOES by itself
    ("B-A E-A", "IOB2", "BIOES"), ("O O", "BMES", "BMES"), ("NN VB", "IOB2", "plain"),
    ("U O U", "BILOU", "BILOU"), ("I L O", "BILOU", "BILOU"), ("U O U", "plain", "plain"),
])  # fmt: skip
def test_predictions_are_of_the_gold_scheme_if_they_can_be(labels, gold, scheme):
    assert scheme_of_predictions([labels.split()], gold) == scheme
