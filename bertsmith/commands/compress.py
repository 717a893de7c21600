"""`bertsmith compress`: a model → one with fewer layers or tokens."""

from collections.abc import Sequence

from bertsmith.commands.output import print_report
from bertsmith.commands.settings.compress import Settings
from bertsmith.commands.task_flags import parse_for_folder
from bertsmith.compression.compress import compress


def main(words: Sequence[str], line: Sequence[str]) -> None:
    """Make a model smaller, and print it beside its source.

    `words` are those after `bertsmith compress`, `line` all words of the command line. They are
    parsed here, since some options depend on the model's task.
    """
    settings, _ = parse_for_folder(Settings, words, " ".join(line[:2]))
    print_report(compress(settings), settings.json)
