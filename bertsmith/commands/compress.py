"""`bertsmith compress`: a model → one with fewer layers or tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.commands.flags import print_report
from bertsmith.commands.task_flags import parse_for_folder
from bertsmith.compression.compress import CompressSettings, compress


@dataclass(frozen=True)
class Settings(CompressSettings):
    """Make a model smaller: fewer layers, or fewer tokens.

    Name one of the two ways; for both, make the new folder smaller again. It is a normal
    folder, for every other command. You see parameters, the size of the weights, speed and, with
    --data or --corpus, the scores, before and after.
    """

    json: bool = False
    """Print one JSON object instead of text."""


def main(args: Sequence[str], prog: str) -> None:
    settings, _ = parse_for_folder(Settings, args, prog)
    print_report(compress(settings), settings.json)
