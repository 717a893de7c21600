"""Labels become classes in one order, and what cannot be classes is refused."""

from pathlib import Path

import pytest
from refusals import refuses

from bertsmith.data.examples import Example
from bertsmith.data.labels import class_names, class_numbers, look_alike, numbers, several_in_one
from bertsmith.errors import InputError, as_flags

PATH = Path("train.tsv")


def examples(labels):
    return [Example("text", label=label, row=row) for row, label in enumerate(labels, start=2)]


@pytest.mark.parametrize("labels, expected", [
    (["b", "a", "b"], ("a", "b")), (["10", "9", "-1"], ("-1", "9", "10")),
    (["0.5", "1", "0"], ("0", "0.5", "1")), (["10", "9", "ten"], ("10", "9", "ten")),
])  # fmt: skip
def test_names_are_sorted_by_value_or_by_name(labels, expected):
    assert class_names(examples(labels), PATH) == expected


@pytest.mark.parametrize("labels, parts", [
    (["1", "0", "1", "1.0"], [":5:", "'1.0'", "'1' in row 2"]),
    (["0", "1", "true"], [":4:", "'true'", "'1' in row 3"]),
    (["pos"] * 3, ["'pos'"]),
    (["pos", "0.73", "neg"], [":3:", "'0.73'", "'neg', 'pos'"]),
    ([str(i / 8) for i in range(200)] * 2, ["200", "--label-column"]),
    ([f"id-{i}" for i in range(50)], ["50"]),
])  # fmt: skip
def test_labels_that_are_not_classes(labels, parts):
    with refuses(InputError, "train.tsv", *parts):
        class_names(examples(labels), PATH)


@pytest.mark.parametrize("known, labels, parts", [
    (("a", "b"), ["a", "c"], [":3:", "'c'", "'a', 'b'"]),
    (("0", "1"), ["0", "1.0"], [":3:", "'1.0'", "'1'"]),
    (None, ["1", "1e39"], [":3:", "'1e39'"]),
    (None, ["1", "1_000"], [":3:", "'1_000'"]),
])  # fmt: skip
def test_labels_that_are_refused(known, labels, parts):
    with refuses(InputError, "train.tsv", *parts):
        numbers(examples(labels), PATH) if known is None else class_numbers(
            examples(labels), known, PATH
        )
    assert numbers(examples(["-3.4e38", "3.4e38"]), PATH).tolist() == [-3.4e38, 3.4e38]


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


@pytest.mark.parametrize(("names", "advice"), [
    (["toxic", "insult", "toxic,insult", "insult, threat", "threat,toxic"], "--multi-label"),
    (["a|b", "b|c", "a|c", "a"], "--label-separator '|'"),
    (["a;b", "b", "a"], None), (["Austin, TX", "Dallas, TX", "Boston, MA"], None),
    (["pos", "neg"], None), (["1,5", "2,5"], None), (["yes", "no", "yes, no"], None),
])  # fmt: skip
def test_classes_that_seem_to_be_several_labels(names, advice):
    note = several_in_one(names)
    assert (note is None) is (advice is None)
    assert advice is None or advice in as_flags(note)
