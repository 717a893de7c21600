"""`bertsmith glue`: a pre-trained model → its scores on every task of the benchmark."""

import json as json_module
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.commands.request import Request
from bertsmith.config import parse_with_recipe
from bertsmith.finetuning.glue import GlueSettings, run_glue
from bertsmith.system.files import hold_folder
from bertsmith.training.display import Display

DESCRIPTION = """Fine-tune a BERT to every task of GLUE that is in a folder, and score it.

Prints a table of the official scores, mean ± standard deviation over the seeds, and the average.
Stopped by Ctrl-C, a crash or a full disk, the same command goes on: what is complete is not
repeated. Where a folder has a test file (test.tsv), the predictions of the best seed are written as
the benchmark's site takes them.

A recipe (a .toml file, first) sets any of the options below; options on the line replace it."""


@dataclass(frozen=True)
class Settings(GlueSettings):
    """The command line of `bertsmith glue`."""

    json: bool = False
    """Print one JSON object instead of a table."""


def parse(args: Sequence[str], prog: str) -> Request[Settings]:
    """Read recipe and flags."""
    settings = parse_with_recipe(Settings, args, prog, DESCRIPTION)
    return Request(settings, shlex.join([*prog.split(), *args]))


def main(request: Request[Settings]) -> None:
    """Run what is not complete yet, then print the table."""
    with hold_folder(request.settings.out), Display() as display:
        report = run_glue(request.settings, [display], request.resume_command, tell)
    print(json_module.dumps(report.to_json()) if request.settings.json else report)


def tell(line: str) -> None:
    """Print a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)
