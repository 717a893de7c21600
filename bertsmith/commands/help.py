"""Help of a command: its options, and what --help and --help-all say of each.

--help shows the usual options by the first sentence of their help; --help-all shows all, in full.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

HELP_FLAGS = {"-h", "--help", "--help-all"}

MAX_DEFAULT = 40
"""Most characters of a default that --help shows whole; a longer one loses its parentheses."""
MAX_SUMMARY = 130
"""Most characters of a sentence that --help shows whole; a longer one is cut before its list."""

_DEFAULT = re.compile(r"[.;,]? ?\b(?:[Bb]y default,?|[Dd]efault:) (.+?)(?:[.;](?= |$)|$)")
"""Pattern of a default that a help text gives in words: "By default 512." or "Default: 512."."""
_LIST_START = re.compile(r"(?<=.{10})[:;] ")
"""Pattern of the colon before a list; in the first ten characters, it follows the term."""
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
    """Title of the group in which help lists the option."""
    default: str = ""
    is_required: bool = False
    is_advanced: bool = False
    """Whether only --help-all shows it."""
    takes_several: bool = False
    """Whether it takes several values, as `PATH ...` does."""

    @property
    def is_positional(self) -> bool:
        return not self.name.startswith("-")

    @property
    def typed(self) -> str:
        """The option with its placeholder: `--steps INT`."""
        return f"{self.name} {self.values}".rstrip()

    @property
    def summary(self) -> str:
        """The first sentence of the help, and the default, for --help."""
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
        """The whole help, and the default, for --help-all."""
        return f"{self.help} (default: {self.default})" if self.default else self.help


@dataclass(frozen=True)
class Page:
    """Help of a command."""

    description: str
    options: Sequence[Option]


class HelpRequested(Exception):  # noqa: N818 - a request by the user, not an error
    """Raised when a line asks for help instead of the command's work."""

    def __init__(self, page: Page, args: Sequence[str]) -> None:
        super().__init__("help")
        self.page = page
        self.everything = "--help-all" in args
