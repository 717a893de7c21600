"""What seems odd about labels is remarked on, and other labels are not."""

import pytest

from bertsmith.data.examples import Example
from bertsmith.data.label_remarks import (
    contradictions,
    labels_seen_once,
    look_alike,
    no_label,
    other_names,
    several_in_one,
)
from bertsmith.errors import as_flags


@pytest.mark.parametrize(("names", "shown"), [
    (["Pos", "neg", "pos"], "'Pos' and 'pos'"),
    (["pos", "pos\u200b"], r"'pos' and 'pos\u200b'"),
    (["caf\u00e9", "cafe\u0301"], r"'caf\xe9' and 'cafe\u0301'"),
    (["\u597d", "\u597d\ufeff"], r"'\u597d' and '\u597d\ufeff'"),
    (["\uff30\uff2f\uff33", "pos"], r"'\uff30\uff2f\uff33' and 'pos'"),
    (["pos", "neg"], None), (["Masse", "Ma\u00dfe"], None), (["1", "11"], None),
])  # fmt: skip
def test_labels_that_look_alike_are_named(names, shown):
    note = look_alike(names)
    assert note == (shown and f"the labels {shown} look alike, and are classes of their own")


@pytest.mark.parametrize(("names", "parts"), [
    (["toxic", "insult", "toxic,insult", "insult, threat", "threat,toxic"],
     ["each of 3 combinations such as 'toxic,insult'", "--multi-label"]),
    (["a|b", "b|c", "a|c", "a"], ["each of 3 ", "--label-separator '|'"]),
    (["['pos', 'film']", "['film']", "[]", "a"], ["3 labels are lists", "--multi-label"]),
    (["[1]", "b"], ["1 label is a list written as text, such as [1]"]), (["[1]", "b", "c"], None),
    (["a;b", "b", "a"], None), (["Austin, TX", "Dallas, TX", "Boston, MA"], None),
    (["pos", "neg"], None), (["1,5", "2,5"], None), (["yes", "no", "yes, no"], None),
])  # fmt: skip
def test_classes_that_seem_to_be_several_labels(names, parts):
    note = several_in_one(names)
    assert (note is None) is (parts is None)
    assert all(part in as_flags(note) for part in parts or ())


@pytest.mark.parametrize(("right", "predicted", "advice"), [
    (["0", "1"], ["LABEL_0", "LABEL_1"], "transformers calls class N"),
    (["LABEL_0", "LABEL_1"], ["1"], "transformers calls class N"),
    (["1", "0"], ["__label__1", "__label__0"], "before each label; remove it"),
    (["1"], ["__label__1 0.98", "__label__0 0.5"], "a probability behind the label"),
    (["Pos", "neg"], ["pos"], "upper and lower case"), (["a", "b"], ["x"], "in the same way"),
    (["LABEL_0", "LABEL_1"], ["LABEL_2"], "in the same way"),
    (["a", "b"], ["b", "x"], None), ([], ["x"], None), (["a"], [], None),
])  # fmt: skip
def test_predicted_labels_of_which_none_is_right(right, predicted, advice):
    remark = other_names(right, predicted)
    assert advice in remark if advice else remark is None
    if remark:
        assert remark.startswith(", ".join(f"'{x}'" for x in predicted) + " beside '")


@pytest.mark.parametrize(("names", "name"), [
    (["-", "contradiction", "entailment", "neutral"], "-"), (["-1", "0", "1", "2"], "-1"),
    (["-", "+"], None), (["-1", "1"], None), (["-1", "0", "1"], None), (["-2", "-1", "0"], None),
    (["-1", "0", "1", "2", "3"], "-1"), (["a", "b"], None), (["nan", "neg", "pos"], "nan"),
    (["#N/A", "neg", "pos"], "#N/A"), (["none", "neg", "Nan"], None),
])  # fmt: skip
def test_a_class_that_may_mean_no_label(names, name):
    note = no_label(names)
    assert note is None if name is None else note.startswith(f"the label '{name}' is a class of")
    assert name is None or "--skip-incomplete" in as_flags(note)


def test_texts_with_different_labels_are_counted():
    rows = [("a", None, "x"), ("a", None, "y"), ("a", "b", "x"), ("b", None, "x"),
            ("b", None, "x"), ("c", None, "x"), ("c", None, "z"), ("c", None, "y")]  # fmt: skip
    examples = [Example(*row, number) for number, row in enumerate(rows)]
    assert contradictions(examples[2:6]) is None
    note = contradictions(examples)
    assert note.startswith(
        "2 texts have different labels in different rows, such as 'a' ('x', 'y')"
    )
    long = [Example("b" * 50, None, label, 1) for label in "xy"]
    assert f"'{'b' * 40}…'" in contradictions(long)


def test_labels_that_one_text_has_are_named():
    examples = [
        Example(f"text {number}", None, name, number) for number, name in enumerate("aabcc")
    ]
    assert labels_seen_once(examples) == (
        "1 of 3 labels is seen once ('b'); give more texts with each label"
    )
    assert labels_seen_once([*examples, Example("more", None, "b", 9)]) is None
