"""Errors, tested by type, place and flag; their wording stands once, in a folder's `wordings.json`.

A test says what its user must find in a message: the file and row, the option, the value.

    with refuses(InputError, "a.csv:3", "--header yes"):
        read(tmp_path / "a.csv")

The whole message, with options as flags, must be one of those that `wordings.json` beside the
test's file has for this test. After a change of a message, run `python -m pytest FILES
--write-wordings`, and read how that table has changed.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bertsmith.errors import BertsmithError, as_flags

PROJECT = Path(__file__).parents[2]
written: dict[str, list[str]] | None = None
"""Messages by test, while they are written instead of checked."""
folders = Path()
"""The folder of all tests' folders; in the table, TMP is one of these."""


@contextmanager
def refuses(
    kind: type[Exception], *parts: str, worded: bool = True
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Check that an error is raised whose message has these parts, and is worded as the table says.

    Args:
        kind: the error's type.
        parts: place, option and value as the message has them, literally; options as flags, or as
            `str(error)` spells them for Python.
        worded: False where Python, torch or the machine has a word in the message.
    """
    with pytest.raises(kind) as caught:
        yield caught
    message, python = str(caught.value), ""
    if isinstance(caught.value, BertsmithError):
        message, python = as_flags(caught.value.message), message
    parts = tuple(part for part in parts if part not in python)
    check_message(message, *parts, worded=worded)


def check_message(message: str, *parts: str, worded: bool = True) -> None:
    """Check the parts of an error's message, and its wording."""
    assert [part for part in parts if part not in message] == [], message
    if not worded:
        return
    test = re.sub(r"(\[.*)? \(\w+\)$", "", os.environ["PYTEST_CURRENT_TEST"])
    message = re.sub(rf"{re.escape(str(folders))}/[^\s'\"/:;,]+", "TMP", message)
    message = message.replace(str(PROJECT), "PROJECT")
    if written is not None:
        written.setdefault(test, []).append(message)
        return
    path = table_of(test)
    mend = f"python -m pytest {test} --write-wordings"
    assert message in read_table(path).get(test, []), (
        f"{message}\nis not in {path}. If it is meant: {mend}"
    )


def table_of(test: str) -> Path:
    """Return the table of the folder that a test stands in."""
    return PROJECT / Path(test.partition("::")[0]).with_name("wordings.json")


def read_table(path: Path) -> dict[str, list[str]]:
    """Read the messages by test; none where there is no such table yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_tables(news: dict[str, list[str]]) -> None:
    """Replace what the tables have for these tests."""
    for path in sorted({table_of(test) for test in news}):
        table = read_table(path)
        table |= {test: sorted(set(news[test])) for test in news if table_of(test) == path}
        text = json.dumps(dict(sorted(table.items())), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
