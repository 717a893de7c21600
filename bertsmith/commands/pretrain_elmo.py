"""`bertsmith pretrain elmo`: a corpus → an ELMo."""

from collections.abc import Sequence

from bertsmith.commands.settings.pretrain_elmo import Settings
from bertsmith.commands.system_run import run_system
from bertsmith.system.paths import shell_path


def main(settings: Settings, line: Sequence[str]) -> None:
    run_system("elmo", settings, line)
    if not settings.json:
        out = shell_path(settings.out)
        print(f"next       bertsmith evaluate {out} --minimal-pairs pairs.csv")
