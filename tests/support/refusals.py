"""Check errors by their type and by parts of their messages; whole messages are in `wordings.json`.

A test names the parts that a user must find in a message: the file and row, the option, the value.

    with refuses(InputError, "a.csv:3", "--header yes"):
        read(tmp_path / "a.csv")

The file `wordings.json` beside the test's file lists the messages of each case of a test, with
options as flags, and the whole message must be one of them. After a change of a message, run
`python -m pytest FILES --write-wordings`, and read how the file has changed.
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
"""Messages by case of a test, if they are written instead of checked; else None."""
folders = Path()
"""The folder of the temporary folders of all tests, which messages show as TMP."""


@contextmanager
def refuses(
    kind: type[Exception], *parts: str, worded: bool = True
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Check that the block raises an error whose message has these parts and the stored wording.

    Args:
        kind: the type of the error.
        parts: texts that the message contains, such as file, option and value. Options are spelled
            as flags, or as `str(error)` spells them for Python.
        worded: False if part of the message comes from Python, torch or the machine, so that it
            has no stored wording.
    """
    with pytest.raises(kind) as caught:
        yield caught
    message, python = str(caught.value), ""
    if isinstance(caught.value, BertsmithError):
        message, python = as_flags(caught.value.message), message
    parts = tuple(part for part in parts if part not in python)
    check_message(message, *parts, worded=worded)


def check_message(message: str, *parts: str, worded: bool = True) -> None:
    """Check that an error's message has these parts, and with `worded` its stored wording."""
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
    """Return the path of the `wordings.json` for a case of a test."""
    return PROJECT / Path(case.partition("::")[0]).with_name("wordings.json")


def key_of(case: str) -> str:
    """Return the key of a case in its `wordings.json`: file, test and parameters.

    >>> key_of("tests/data/test_corpus.py::test_columns[a.csv]")
    'test_corpus.py::test_columns[a.csv]'
    """
    file, _, name = case.partition("::")
    return f"{Path(file).name}::{name}"


def read_table(path: Path) -> dict[str, list[str]]:
    """Read the messages by case; empty if there is no such file yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_tables(
    new_messages: Mapping[str, list[str]], passed: Collection[str], *, is_partial: bool
) -> None:
    """Write the messages of these cases, and drop cases and tests that no longer exist.

    Args:
        new_messages: messages by case.
        passed: all cases that passed, also those without a message.
        is_partial: whether only some cases of a test may have run; the others are then kept.
    """
    for path in sorted({table_of(case) for case in new_messages}):
        cases = {key_of(case) for case in passed if table_of(case) == path}
        tests = set(map(without_case, cases))
        table = {
            key: messages
            for key, messages in read_table(path).items()
            if is_defined(path.parent, key)
            and key not in cases
            and (is_partial or without_case(key) not in tests)
        }
        for case, messages in new_messages.items():
            if table_of(case) == path:
                table[key_of(case)] = sorted(set(messages))
        text = json.dumps(dict(sorted(table.items())), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def without_case(key: str) -> str:
    """Return the name of a test, from a key without the parameters of its case."""
    return key.partition("[")[0]


def is_defined(folder: Path, key: str) -> bool:
    """Return whether the test of a key is still in its file."""
    file, _, name = without_case(key).partition("::")
    path = folder / file
    return path.exists() and f"def {name.rpartition('::')[2]}(" in path.read_text(encoding="utf-8")
