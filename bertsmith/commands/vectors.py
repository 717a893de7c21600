"""`bertsmith vectors`: a corpus → a vector for each token, counted in seconds."""

from collections.abc import Sequence

from bertsmith.commands.next_command import with_modules
from bertsmith.commands.output import print_report
from bertsmith.commands.settings.vectors import Settings
from bertsmith.pretraining.static_vectors import count_static_vectors
from bertsmith.system.paths import shell_path


def main(settings: Settings, line: Sequence[str]) -> None:
    print_report(count_static_vectors(settings), settings.json)
    if not settings.json:
        command = (
            f"bertsmith finetune classify --head linear --model {shell_path(settings.out)} "
            "--train train.csv --out runs/classifier"
        )
        print(f"next      {with_modules(command)}")
