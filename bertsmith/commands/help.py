"""Help of a command: common options with --help, all with --help-all; argparse formats it."""

import re
import shutil
import textwrap
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

HELP_FLAGS = {"-h", "--help", "--help-all"}

MAX_WIDTH = 100
MIN_WIDTH = 20
"""Narrowest width of a text; a narrower terminal breaks the lines itself."""
HELP_COLUMN = 26
UNBROKEN = "\u00a0"
"""A space at which lines are not broken, so that a flag and its value stay together."""
MAX_DEFAULT = 40
MAX_SUMMARY = 130
"""Longest sentence that --help shows whole; a longer one is cut before its list."""

_DEFAULT = re.compile(r"[.;,]? ?\b(?:[Bb]y default,?|[Dd]efault:) (.+?)(?:[.;](?= |$)|$)")
_LIST_START = re.compile(r"(?<=.{10})[:;] ")
_SENTENCE_END = re.compile(r"(?<=\.) ")


@dataclass(frozen=True)
class Option:
    """A flag or a positional argument, as help shows it."""

    name: str
    """The option as typed: `--steps`, or `FILES` for an argument without a flag."""
    values: str
    """Placeholder of its values, such as `INT`, `tiny|mini` or `PATH ...`; empty for a switch."""
    help: str
    panel: str
    default: str = ""
    is_required: bool = False
    is_advanced: bool = False
    """Whether only --help-all shows it."""

    @property
    def is_positional(self) -> bool:
        return not self.name.startswith("-")

    @property
    def typed(self) -> str:
        """The option with its placeholder."""
        return f"{self.name} {self.values}".rstrip()

    @property
    def summary(self) -> str:
        """The first sentence of the help, and the default."""
        # The help may end with `(required without --folds)`, in place of a default.
        text, _, condition = self.help.partition(" (required")
        default = self.default
        if not default and (match := _DEFAULT.search(text)):
            text = text[: match.start()] or text
            default = match[1]
            if len(default) > MAX_DEFAULT:
                default = default.partition(" (")[0]
        first = _SENTENCE_END.split(text)[0].rstrip(". ")
        if len(first) > MAX_SUMMARY:
            first = _LIST_START.split(first)[0]
        if condition:
            return f"{first} (required{condition}."
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
        """Format as text, with all options or without the advanced ones."""
        width = max(width, MIN_WIDTH)
        shown = [option for option in self.options if everything or not option.is_advanced]
        needed = [option for option in shown if option.is_required]
        needed.sort(key=lambda option: not option.is_positional)
        words = [option.typed.replace(" ", UNBROKEN) for option in needed]
        words += [
            f"[{option.typed}]" for option in shown if option.is_positional and option not in needed
        ]
        paragraphs = self.description.split("\n\n")
        pointer = f"All {len(self.options)} options, explained: {prog} --help-all"
        parser = ArgumentParser(
            usage=_filled(" ".join([prog, *words, "[options]"]), width - len("usage: "), indent=4),
            description="\n\n".join(
                _filled(paragraph, width)
                for paragraph in (paragraphs if everything else paragraphs[:1])
            ),
            epilog=None if everything else _filled(pointer, width),
            add_help=False,
            formatter_class=partial(_Formatter, max_help_position=HELP_COLUMN, width=width),
        )
        for title, options in self._panels(shown, needed).items():
            group = parser.add_argument_group(title)
            for option in options:
                text = (option.text if everything else option.summary).replace("%", "%%")
                if option.is_positional:
                    group.add_argument(option.name, metavar=option.typed, help=text)
                elif option.values:
                    group.add_argument(option.name, metavar=option.values, help=text)
                else:
                    group.add_argument(option.name, action="store_true", help=text)
        return parser.format_help()

    def _panels(
        self, shown: Sequence[Option], needed: Sequence[Option]
    ) -> Mapping[str, Sequence[Option]]:
        """Group options by the title of their panel; `columns`, which are seldom needed, last."""
        others = [option for option in shown if option not in needed]
        titles = dict.fromkeys(option.panel for option in others)
        return {"needed": needed} | {
            title: [option for option in others if option.panel == title]
            for title in sorted(titles, key=lambda title: title == "columns")
        }


class HelpRequested(Exception):  # noqa: N818 - a request by the user, not an error
    """Raised when a line asks for help instead of the command's work."""

    def __init__(self, page: Page, args: Sequence[str]) -> None:
        super().__init__("help")
        self.page = page
        self.everything = "--help-all" in args

    def print(self, prog: str) -> None:
        width = min(MAX_WIDTH, shutil.get_terminal_size().columns)
        print(self.page.format(prog, everything=self.everything, width=width), end="")


class _Formatter(RawDescriptionHelpFormatter):
    """argparse's layout, but without line breaks at the hyphens of flags."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _filled(text, width).splitlines()


def _filled(text: str, width: int, indent: int = 0) -> str:
    words = re.sub(r"[ \n]+", " ", text)
    filled = textwrap.fill(words, width, subsequent_indent=" " * indent, break_on_hyphens=False)
    return filled.replace(UNBROKEN, " ")
