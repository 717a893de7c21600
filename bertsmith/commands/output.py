"""Output of commands: a report on standard output, notes on standard error."""

import json
import sys
from typing import Any

from bertsmith.errors.option_names import escape_marks
from bertsmith.system.streams import is_utf8


def print_report(report: Any, as_json: bool) -> None:
    """Print a report as text, or as one JSON object."""
    if as_json:
        print_json(report.to_json())
    else:
        print(report)


def print_json(value: Any, *, allow_nan: bool = True) -> None:
    """Print a value as one line of JSON; letters of all scripts, such as 体, stay readable.

    If standard output cannot hold them, they are written as escapes. So are the marks around
    options: the stream then spells an option so that the JSON stays valid.
    """
    is_ascii = not is_utf8(sys.stdout)
    print(escape_marks(json.dumps(value, ensure_ascii=is_ascii, allow_nan=allow_nan)))


def print_note(line: str | None) -> None:
    """Print a line on standard error, if there is one."""
    if line:
        print(line, file=sys.stderr, flush=True)
