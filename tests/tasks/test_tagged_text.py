"""Labelled words as a line for people."""

import numpy as np
import pytest

from bertsmith.data.tagged import TaggedSentence
from bertsmith.tasks.marks import MarkedPart
from bertsmith.tasks.tag_prediction import TagPrediction

TEXT = "the bert anna won a cup"


def predicted(names, scheme, labels):
    words = tuple(TEXT.split())
    probabilities = np.full((len(words), len(names)), 1 / len(names))
    return TagPrediction(
        TaggedSentence(words), tuple(labels.split()), probabilities, tuple(names.split()), scheme
    )


@pytest.mark.parametrize(("names", "scheme", "labels", "line"), [
    ("B-PER I-PER O", "IOB2", "O B-PER I-PER O O O", "the [bert anna PER] won a cup"),
    ("B I O", "IOB2", "O B I O O B", "the [bert anna] won a [cup]"),
    ("B I O", "IOB2", "O O O O O O", TEXT),
    ("B E I O S", "BIOES", "S B E O O S", "[the] [bert anna] won a [cup]"),
    ("B E M S", "BMES", "S B E S S S", "the  bert anna  won  a  cup"),
    ("A N O", "plain", "A N N O A N", "the/A bert/N anna/N won a/A cup/N"),
])  # fmt: skip
def test_a_line_marks_spans_whether_their_type_has_a_name_or_not(names, scheme, labels, line):
    prediction = predicted(names, scheme, labels)
    assert str(prediction.line(prediction.sentence)) == line


def test_spans_without_a_type_are_marked_on_the_page_and_listed_as_entities():
    prediction = predicted("B I O", "IOB2", "O B I O O O")
    assert prediction.parts() == [
        MarkedPart("the "), MarkedPart("bert anna", "", 0), MarkedPart(" won a cup")
    ]  # fmt: skip
    (entity,) = prediction.entities
    assert (entity.label, entity.text, entity.start, entity.end) == ("", "bert anna", 4, 13)
    assert "the [bert anna] won" in prediction._repr_html_()
