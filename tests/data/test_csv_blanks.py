"""A blank between a comma and a quote does not make the quote a part of the text."""

import pytest
from refusals import refuses

from bertsmith.data.examples import ExampleReader
from bertsmith.errors import InputError


def read(directory, content, **how):
    path = directory / "a.csv"
    path.write_text(content)
    return [(example.label, example.text) for example in ExampleReader(path, **how)]


@pytest.mark.parametrize(("content", "texts"), [
    ('label, text\n1, "a, b"\n0, "c"\n', ["a, b", "c"]),
    ('label,text\n1,  "a b"\n0,c\n', ["a b", "c"]),
    ('label, text\n1, "a\nb"\n0, c\n', ["a\nb", "c"]),
    ('label,text\n1, "a ""b"""\n0, c\n', ['a "b"', "c"]),
    ('text, label\n"a, b", 1\n "c", 0\n', ["a, b", "c"]),
    # Quotes that are a part of the text stay.
    ('label,text\n1, "a" is b\n0,c\n', [' "a" is b', "c"]),
    ('label,text\n1, a\n0,c\n', [" a", "c"]),
    ('label,text\n1, a\n0,"c\n "\n', [" a", "c\n "]),
    ('label,text\n1,"x, ""a"" b"\n0,c\n', ['x, "a" b', "c"]),
])  # fmt: skip
def test_blanks_before_quotes(tmp_path, content, texts):
    assert [text for _, text in read(tmp_path, content)] == texts


def test_a_quote_behind_a_blank_far_below_is_named(tmp_path):
    content = "label,text\n" + "1,a\n" * 200 + '1, "a, b"\n'
    with refuses(InputError, "a.csv:202", "directly behind the comma"):
        read(tmp_path, content)
