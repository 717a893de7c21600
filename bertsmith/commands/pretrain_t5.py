"""`bertsmith pretrain t5`: a corpus → a T5."""

from collections.abc import Sequence

from bertsmith.commands.next_command import with_import_flags
from bertsmith.commands.settings.pretrain_t5 import Settings
from bertsmith.commands.system_run import run_system
from bertsmith.system.paths import free_path, shell_path, with_name_of_its_own


def main(settings: Settings, line: Sequence[str]) -> None:
    """Train a T5, print its results, and suggest a command that uses it.

    `line`, the words of the command line, is for the advice on how to resume.
    """
    run_system("t5", settings, line)
    if not settings.json:
        named = with_name_of_its_own(settings.out)
        out = free_path(named.with_name(f"{named.name}-tuned"))
        command = (
            f"bertsmith finetune translate --model {shell_path(settings.out)} "
            f"--train train.csv --eval dev.csv --out {shell_path(out)}"
        )
        print(f"next       {with_import_flags(command)}")
