"""`bertsmith pretrain lstm`: a corpus → an LSTM or GRU."""

from collections.abc import Sequence

from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.settings.pretrain_lstm import Settings
from bertsmith.commands.system_run import run_system
from bertsmith.system.paths import shell_path


def main(settings: Settings, line: Sequence[str]) -> None:
    """Train an LSTM or GRU, print its results, and suggest a command that uses it.

    `line`, the words of the command line, is for the advice on how to resume.
    """
    run_system("lstm", settings, line)
    if not settings.json:
        command = f'bertsmith generate {shell_path(settings.out)} "The"'
        print(f"try        {with_import_flags(command)}")
