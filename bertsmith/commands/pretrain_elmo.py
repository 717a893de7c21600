"""`bertsmith pretrain elmo`: a corpus → an ELMo."""

from collections.abc import Sequence

from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.settings.pretrain_elmo import Settings
from bertsmith.commands.system_run import run_system
from bertsmith.system.paths import shell_path


def main(settings: Settings, line: Sequence[str]) -> None:
    """Train an ELMo, print its results, and suggest a command that uses it.

    `line`, the words of the command line, is for the advice on how to resume.
    """
    run_system("elmo", settings, line)
    if not settings.json:
        command = f"bertsmith evaluate {shell_path(settings.out)} --minimal-pairs pairs.csv"
        print(f"next       {with_import_flags(command)}")
