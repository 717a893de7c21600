"""Labels become classes in one order, and what cannot be classes is refused."""

from pathlib import Path

import pytest

from bertsmith.data.examples import Example
from bertsmith.data.labels import class_names, class_numbers, numbers
from bertsmith.errors import InputError

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
    (["1", "0", "1", "1.0"], [":5: the label '1.0' is the same number as '1' in row 2"]),
    (["0", "1", "true"], [":4: the label 'true' is the same as '1' in row 3"]),
    (["pos"] * 3, ["the only label is 'pos'", "two classes"]),
    (["pos", "0.73", "neg"], [":3:", "'0.73'", "'neg', 'pos'"]),
    ([str(i / 8) for i in range(200)] * 2, ["200 different labels", "--label-column"]),
    ([f"id-{i}" for i in range(50)], ["50 different labels in 50 rows"]),
])  # fmt: skip
def test_labels_that_are_not_classes(labels, parts):
    with pytest.raises(InputError) as caught:
        class_names(examples(labels), PATH)
    for part in ["train.tsv", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize("known, labels, message", [
    (("a", "b"), ["a", "c"], ":3: the label 'c' .* Known labels: 'a', 'b'"),
    (("0", "1"), ["0", "1.0"], ":3: .* It is the same number as '1'. Known"),
    (None, ["1", "1e39"], ":3: the label '1e39' is too large for fp32"),
    (None, ["1", "1_000"], ":3: the label '1_000' is not a number"),
])  # fmt: skip
def test_labels_that_are_refused(known, labels, message):
    with pytest.raises(InputError, match=rf"train\.tsv{message}"):
        numbers(examples(labels), PATH) if known is None else class_numbers(
            examples(labels), known, PATH
        )
    assert numbers(examples(["-3.4e38", "3.4e38"]), PATH).tolist() == [-3.4e38, 3.4e38]
