"""`bertsmith glue`: a pre-trained model → its scores on every task of the benchmark."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.commands.flags import parse_with_recipe, print_report, tell
from bertsmith.finetuning.glue import GlueSettings, run_glue
from bertsmith.system.files import hold_folder
from bertsmith.training.display import Display


@dataclass(frozen=True)
class Settings(GlueSettings):
    """Fine-tune a BERT to every task of GLUE that is in a folder, and score it.

    Prints a table of the official scores, mean ± standard deviation over the seeds, and the
    average. To continue after an interruption, run the same command again; finished runs are kept.
    Where a folder has a test file (test.tsv), the predictions of the best seed are written as the
    benchmark's site takes them.
    """

    json: bool = False
    """Print one JSON object instead of a table."""


def main(args: Sequence[str], prog: str) -> None:
    settings = parse_with_recipe(Settings, args, prog, kind="glue")
    with hold_folder(settings.out), Display() as display:
        report = run_glue(settings, [display], shlex.join([*prog.split(), *args]), tell)
    print_report(report, settings.json)
