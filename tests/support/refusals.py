"""Errors, tested by type, place and flag; their wording stands once, in a folder's `wordings.json`.

A test says what its user must find in a message: the file and row, the option, the value.

    with refuses(InputError, "a.csv:3", "--header yes"):
        read(tmp_path / "a.csv")

The whole message, with options as flags, must be one of those that `wordings.json` beside the
test's file has for this case of the test. After a change of a message, run `python -m pytest FILES
--write-wordings`, and read how that table has changed.
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bertsmith.errors import BertsmithError, as_flags

PROJECT = Path(__file__).parents[2]
written: dict[str, list[str]] | None = None
"""Messages by case of a test, while they are written instead of checked."""
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
    case = re.sub(r" \(\w+\)$", "", os.environ["PYTEST_CURRENT_TEST"])
    message = re.sub(rf"{re.escape(str(folders))}/[^\s'\"/:;,]+", "TMP", message)
    message = message.replace(str(PROJECT), "PROJECT")
    if written is not None:
        written.setdefault(case, []).append(message)
        return
    path = table_of(case)
    file = case.partition("::")[0]
    assert message in read_table(path).get(key_of(case), []), (
        f"{message}\nis not in {path} for {key_of(case)}. If it is meant: "
        f"python -m pytest {file} --write-wordings"
    )


def table_of(case: str) -> Path:
    """Return the table of the folder that a test stands in."""
    return PROJECT / Path(case.partition("::")[0]).with_name("wordings.json")


def key_of(case: str) -> str:
    """Return a case's name in the table of its folder: file, test and parameters.

    >>> key_of("tests/data/test_corpus.py::test_columns[a.csv]")
    'test_corpus.py::test_columns[a.csv]'
    """
    file, _, name = case.partition("::")
    return f"{Path(file).name}::{name}"


def read_table(path: Path) -> dict[str, list[str]]:
    """Read the messages by case; none where there is no such table yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_tables(
    news: Mapping[str, list[str]], passed: Collection[str], *, is_partial: bool
) -> None:
    """Replace what the tables have for these cases, and drop cases and tests that are gone.

    Args:
        news: messages by case.
        passed: all cases that passed, also without a message.
        is_partial: whether only some cases of a test may have run, so that the others stay.
    """
    for path in sorted({table_of(case) for case in news}):
        cases = {key_of(case) for case in passed if table_of(case) == path}
        tests = set(map(without_case, cases))
        table = {
            key: messages
            for key, messages in read_table(path).items()
            if is_defined(path.parent, key)
            and key not in cases
            and (is_partial or without_case(key) not in tests)
        }
        for case, messages in news.items():
            if table_of(case) == path:
                table[key_of(case)] = sorted(set(messages))
        text = json.dumps(dict(sorted(table.items())), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def without_case(key: str) -> str:
    """Return a key without the parameters of its case."""
    return key.partition("[")[0]


def is_defined(folder: Path, key: str) -> bool:
    """Tell whether the test of a key is still in its file."""
    file, _, name = without_case(key).partition("::")
    path = folder / file
    return path.exists() and f"def {name.rpartition('::')[2]}(" in path.read_text(encoding="utf-8")
