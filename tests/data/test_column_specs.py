"""Values of JSON rows that a task cannot read are refused by name."""

import pytest
from refusals import refuses

from bertsmith.data.column_specs import ColumnSpec
from bertsmith.errors import InputError


def build_spec(**options):
    return ColumnSpec("text", "text_column", None, (), **options)


@pytest.mark.parametrize("options, value, message", [
    ({}, 7, "row 3: 'key' is a number; a string is expected. Fix the row."),
    ({"scalars": (int,)}, 1.5,
     "row 3: 'key' is a number; a string or a whole number is expected. Fix the row."),
    ({"scalars": (int, float)}, {},
     "row 3: 'key' is an object; a string or a number is expected. Fix the row."),
    ({"read_list": list}, ["a", {}],
     "row 3: an item of 'key' is an object; a string or a list of strings is expected. "
     "Fix the row."),
], ids=["text", "whole number", "number", "list"])  # fmt: skip
def test_a_value_of_another_type_is_refused(options, value, message):
    with refuses(InputError, message, worded=False):
        build_spec(**options).texts("row 3", "key", value)


def test_values_become_texts():
    assert build_spec().texts("row 3", "key", None) == [""]
    assert build_spec(scalars=(int, float)).texts("row 3", "key", 1.5) == ["1.5"]
    assert build_spec(read_list=list).texts("row 3", "key", ["a", "b"]) == ["a", "b"]
