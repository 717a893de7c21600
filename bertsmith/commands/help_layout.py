"""Layout of a command's help by argparse: common options with --help, all with --help-all.

Options are listed in groups, called panels.
"""

import re
import shutil
import textwrap
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from functools import partial

from bertsmith.commands.help import HelpRequested, Option, Page

MAX_WIDTH = 100
MIN_WIDTH = 20
"""Narrowest width of a text; a narrower terminal breaks the lines itself."""
HELP_COLUMN = 26
"""Column in which the explanation of an option begins."""
UNBROKEN = "\u00a0"
"""A space at which lines are not broken, so that a flag and its value stay together."""


def print_help(request: HelpRequested, prog: str) -> None:
    """Print the requested help of the command `prog` in the width of the terminal."""
    width = min(MAX_WIDTH, shutil.get_terminal_size().columns)
    print(format_help(request.page, prog, everything=request.everything, width=width), end="")


def format_help(page: Page, prog: str, *, everything: bool, width: int) -> str:
    """Format the help of the command `prog` as text of at most `width` characters a line.

    With `everything`, all options are shown in full; else the usual ones, with a sentence each.
    """
    width = max(width, MIN_WIDTH)
    shown = [option for option in page.options if everything or not option.is_advanced]
    needed = [option for option in shown if option.is_required]
    needed.sort(key=lambda option: not option.is_positional)  # positional ones first
    usage_words = [option.typed.replace(" ", UNBROKEN) for option in needed]
    usage_words += [
        f"[{option.typed}]" for option in shown if option.is_positional and option not in needed
    ]
    paragraphs = page.description.split("\n\n")
    pointer = f"All {len(page.options)} options, explained: {prog} --help-all"
    parser = ArgumentParser(
        usage=_filled(
            " ".join([prog, *usage_words, "[options]"]), width - len("usage: "), indent=4
        ),
        description="\n\n".join(
            _filled(paragraph, width)
            for paragraph in (paragraphs if everything else paragraphs[:1])
        ),
        epilog=None if everything else _filled(pointer, width),
        add_help=False,
        formatter_class=partial(_Formatter, max_help_position=HELP_COLUMN, width=width),
    )
    for title, options in _panels(shown, needed).items():
        group = parser.add_argument_group(title)
        for option in options:
            # argparse would read a single % as the beginning of a format.
            text = (option.text if everything else option.summary).replace("%", "%%")
            if option.is_positional:
                group.add_argument(option.name, metavar=option.typed, help=text)
            elif option.values:
                group.add_argument(option.name, metavar=option.values, help=text)
            else:
                group.add_argument(option.name, action="store_true", help=text)
    return parser.format_help()


def _panels(shown: Sequence[Option], needed: Sequence[Option]) -> Mapping[str, Sequence[Option]]:
    """Group options by the title of their panel; `columns`, which are seldom needed, last."""
    others = [option for option in shown if option not in needed]
    titles = dict.fromkeys(option.panel for option in others)
    return {"needed": needed} | {
        title: [option for option in others if option.panel == title]
        for title in sorted(titles, key=lambda title: title == "columns")
    }


class _Formatter(RawDescriptionHelpFormatter):
    """argparse's layout, but without line breaks at the hyphens of flags."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _filled(text, width).splitlines()


def _filled(text: str, width: int, indent: int = 0) -> str:
    """Break a text into lines of at most `width`; all but the first are indented."""
    one_line = re.sub(r"[ \n]+", " ", text)
    filled = textwrap.fill(one_line, width, subsequent_indent=" " * indent, break_on_hyphens=False)
    return filled.replace(UNBROKEN, " ")
