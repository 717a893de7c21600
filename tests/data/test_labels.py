"""Labels become classes in one order, and what cannot be classes is refused."""

from pathlib import Path

import pytest
from refusals import refuses

from bertsmith.data.examples import Example
from bertsmith.data.labels import check_classes, class_names, class_numbers, numeric_labels
from bertsmith.errors import ExamplesError, InputError

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
    (["pos", "0.73", "neg"], [":3:", "'0.73'", "'neg', 'pos'"]),
    ([str(i / 8) for i in range(200)] * 2, ["200", "--label-column"]),
    ([f"id-{i}" for i in range(50)], ["50"]),
])  # fmt: skip
def test_labels_that_are_not_classes(labels, parts):
    with refuses(InputError, "train.tsv", *parts):
        class_names(examples(labels), PATH)


@pytest.mark.parametrize("labels, named", [(["pos"] * 3, "'pos'"), ([None, "0"], "'0'")])
def test_labels_of_one_class(labels, named):
    with refuses(ExamplesError, "train.tsv", named):
        check_classes(examples(labels), PATH)


@pytest.mark.parametrize("known, labels, parts", [
    (("a", "b"), ["a", "c"], [":3:", "'c'", "'a', 'b'"]),
    (("0", "1"), ["0", "1.0"], [":3:", "'1.0'", "'1'"]),
    (None, ["1", "1e39"], [":3:", "'1e39'"]),
    (None, ["1", "1_000"], [":3:", "'1_000'"]),
])  # fmt: skip
def test_labels_that_are_refused(known, labels, parts):
    with refuses(InputError, "train.tsv", *parts):
        numeric_labels(examples(labels), PATH) if known is None else class_numbers(
            examples(labels), known, PATH
        )
    assert numeric_labels(examples(["-3.4e38", "3.4e38"]), PATH).tolist() == [-3.4e38, 3.4e38]
