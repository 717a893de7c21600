"""Help of commands: what people set first, all options behind --help-all.

`help.json` holds the help of every command, so that it is printed without importing torch, which
takes seconds. `options.py` makes it from the settings' fields; a test compares both.
"""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bertsmith.system.escaping import escape_controls, unescaped

HELP_FLAGS = {"-h", "--help", "--help-all"}
TABLE = Path(__file__).with_name("help.json")

MAX_WIDTH = 100
MIN_WIDTH = 10
"""Columns that a text has at least, however narrow the terminal is."""
UNBROKEN = "\u00a0"
"""A space at which no line ends."""
MAX_FLAG_WIDTH = 22
MAX_DEFAULT = 40
MAX_SUMMARY = 130
"""Characters of a sentence that --help shows whole; of a longer one, what stands before a list."""

_DEFAULT = re.compile(r"[.;,]? ?\b(?:[Bb]y default,?|[Dd]efault:) (.+?)(?:[.;](?= |$)|$)")
_LIST_START = re.compile(r"(?<=.{10})[:;] ")
_SENTENCE_END = re.compile(r"(?<=\.) ")


@dataclass(frozen=True)
class Option:
    """A flag or a positional argument, as help shows it."""

    flag: str
    """The option as typed, with a placeholder for its value."""
    help: str
    panel: str
    default: str = ""
    is_required: bool = False
    is_advanced: bool = False
    """Whether only --help-all shows it."""

    @property
    def is_positional(self) -> bool:
        return not self.flag.startswith("-")

    @property
    def summary(self) -> str:
        """The first sentence of the help, and the default."""
        said, _, hint = self.help.partition(" (required")
        default = self.default
        if not default and (found := _DEFAULT.search(said)):
            said, default = said[: found.start()] or said, found[1]
            if len(default) > MAX_DEFAULT:
                default = default.partition(" (")[0]
        first = _SENTENCE_END.split(said)[0].rstrip(". ")
        if len(first) > MAX_SUMMARY:
            first = _LIST_START.split(first)[0]
        if hint:
            return f"{first} (required{hint}."
        return f"{first} (default: {default})." if default else f"{first}."

    @property
    def text(self) -> str:
        return f"{self.help} (default: {self.default})" if self.default else self.help


@dataclass(frozen=True)
class Page:
    """Help of a command."""

    description: str
    options: Sequence[Option]

    def format(self, prog: str, *, everything: bool = False, width: int = MAX_WIDTH) -> str:
        """Format as text, of the options that people set or of all."""
        shown = [each for each in self.options if everything or not each.is_advanced]
        needed = sorted(
            (each for each in shown if each.is_required), key=lambda each: not each.is_positional
        )
        column = 4 + min(MAX_FLAG_WIDTH, max((len(each.flag) for each in shown), default=0))
        # A flag and its value stay in one line.
        flags = [each.flag.replace(" ", UNBROKEN) for each in needed]
        if width < 2 * column:  # too narrow for two columns: an option's help stands below it
            column = 4
        flags += [f"[{each.flag}]" for each in shown if each.is_positional and each not in needed]
        usage = " ".join([f"usage: {prog}", *flags, "[options]"])
        paragraphs = self.description.split("\n\n")
        blocks = [
            _wrapped(usage, width, 4),
            *(_wrapped(each, width) for each in (paragraphs if everything else paragraphs[:1])),
        ]
        others = [each for each in shown if not each.is_required]
        panels = dict.fromkeys(["needed", *(each.panel for each in others)])
        for panel in sorted(panels, key=lambda panel: panel == "columns"):  # seldom needed: last
            inside = needed if panel == "needed" else [o for o in others if o.panel == panel]
            rows = [
                _row(each, each.text if everything else each.summary, column, width)
                for each in inside
            ]
            if rows:
                title = f"\033[1m{panel}\033[0m" if sys.stdout.isatty() else panel
                blocks.append("\n".join([title, *rows]))
        if not everything:
            blocks.append(f"All {len(self.options)} options, explained: {prog} --help-all")
        return "\n\n".join(blocks)


class HelpAsked(Exception):  # noqa: N818 - a request by the user, not an error
    """Help in place of a command's work."""

    def __init__(self, page: Page, args: Sequence[str]) -> None:
        super().__init__("help")
        self.page = page
        self.everything = "--help-all" in args

    def print(self, prog: str) -> None:
        width = min(MAX_WIDTH, shutil.get_terminal_size().columns)
        text = self.page.format(prog, everything=self.everything, width=width)
        print(text, file=unescaped(sys.stdout))  # whose titles are bold


@cache
def pages() -> dict[str, Page]:
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return {
        name: Page(page["description"], tuple(Option(**option) for option in page["options"]))
        for name, page in found.items()
    }


def to_text(found: dict[str, Page]) -> str:
    """Format the help of all commands as the contents of `help.json`."""
    blocks = []
    for name, page in found.items():
        given = [{k: v for k, v in asdict(each).items() if v} for each in page.options]
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in given)
        description = json.dumps(page.description, ensure_ascii=False)
        blocks.append(f'"{name}": {{"description": {description}, "options": [\n{lines}]}}')
    return "{\n" + ",\n\n".join(blocks) + "\n}\n"


def _wrapped(text: str, width: int, indent: int = 0) -> str:
    words = escape_controls(re.sub(r"[ \n]+", " ", text))
    width = max(width, indent + MIN_WIDTH)  # a narrower terminal breaks the lines itself
    filled = textwrap.fill(words, width, subsequent_indent=" " * indent, break_on_hyphens=False)
    return filled.replace(UNBROKEN, " ")


def _row(option: Option, text: str, column: int, width: int) -> str:
    """Format an option, its help in a column of its own."""
    lines = _wrapped(text, width - column).splitlines() or [""]
    flag = f"  {option.flag}"
    if len(flag) + 2 > column:
        lines.insert(0, flag)
    else:
        lines[0] = f"{flag:<{column}}{lines[0]}"
    return "\n".join([lines[0], *(" " * column + line for line in lines[1:])]).rstrip()
