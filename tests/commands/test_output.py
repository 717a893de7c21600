"""Reports of commands as JSON, for programs and for people."""

import contextlib
import io
import json

import pytest

from bertsmith.commands.output import print_json
from bertsmith.errors import option
from bertsmith.system.escaping import command_streams

pytestmark = pytest.mark.same_on_all_computers


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
@pytest.mark.parametrize("value", ["体育", "it's", 'a "b"', "back\\slash", "café", "Å\nb"])
def test_a_report_is_readable_where_the_encoding_has_the_letters(encoding, value):
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    note = f"Give {option('label_separator', value)}, or leave {option('label_column')} out."
    with contextlib.redirect_stdout(written), command_streams():
        print_json({"label": value, "notes": [note]})
    written.flush()
    text = written.buffer.getvalue().decode(encoding)
    report = json.loads(text)
    assert report["label"] == value
    (note,) = report["notes"]
    assert note.startswith("Give --label-separator ") and note.endswith(
        " leave --label-column out."
    )
    if value == "体育":
        assert note == "Give --label-separator '体育', or leave --label-column out."
        assert text.count("体育") == (2 if encoding == "utf-8" else 0)
