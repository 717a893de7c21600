"""`bertsmith vectors`: a corpus → a vector for each token, counted in seconds."""

from collections.abc import Sequence

from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.output import print_report
from bertsmith.commands.settings.vectors import Settings
from bertsmith.pretraining.static_vectors import count_static_vectors
from bertsmith.system.paths import free_path, shell_path, with_name_of_its_own


def main(settings: Settings, line: Sequence[str]) -> None:
    """Count the vectors, print a report, and suggest a command that uses them.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    print_report(count_static_vectors(settings), settings.json)
    if not settings.json:
        named = with_name_of_its_own(settings.out)
        out = free_path(named.with_name(f"{named.name}-classifier"))
        command = (
            f"bertsmith finetune classify --head linear --model {shell_path(settings.out)} "
            f"--train train.csv --out {shell_path(out)}"
        )
        print(f"next      {with_import_flags(command)}")
