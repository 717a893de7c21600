"""Output of commands: a report on standard output, notes on standard error."""

import json
import sys
from typing import Any


def print_report(report: Any, as_json: bool) -> None:
    """Print a report as text, or as one JSON object."""
    print(json.dumps(report.to_json()) if as_json else report)


def print_note(line: str | None) -> None:
    """Print a line on standard error, if there is one."""
    if line:
        print(line, file=sys.stderr, flush=True)
