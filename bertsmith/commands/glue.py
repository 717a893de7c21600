"""`bertsmith glue`: a pre-trained model → its scores on the tasks of the benchmark in a folder."""

import shlex
from collections.abc import Sequence

from bertsmith.commands.output import print_note, print_report
from bertsmith.commands.settings.glue import Settings
from bertsmith.finetuning.glue import run_glue
from bertsmith.system.locks import hold_folder
from bertsmith.training.display import Display


def main(settings: Settings, line: Sequence[str]) -> None:
    """Fine-tune and score; `line` is repeated in messages, since the same command continues."""
    with hold_folder(settings.out), Display() as display:
        report = run_glue(settings, [display], shlex.join(line), print_note)
    print_report(report, settings.json)
