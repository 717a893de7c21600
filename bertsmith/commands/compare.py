"""`bertsmith compare`: recipes under the same budget and seeds → one page about all of them."""

import json as json_module
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from bertsmith.commands.request import Request
from bertsmith.comparison.job import NAME, compare
from bertsmith.comparison.settings import ComparisonSettings
from bertsmith.errors import TrainingError
from bertsmith.training.display import Display

DESCRIPTION = """Pre-train recipes under the same budget and seeds, fine-tune each, and compare.

Writes one HTML page (comparison.html, also as Markdown and JSON): held-out curves, a table of mean
± standard deviation, and which differences are larger than noise. All models are measured on the
same held-out rows. Stopped by Ctrl-C, a crash or a full disk, the same command goes on: what is
complete is not repeated. A run that fails is noted, and the others go on; the exit code is then 2.

A comparison file names recipes that share most settings, the budget, the seeds and the tasks;
families, masks, pairs and positions come with bertsmith. Budget and seeds on the line replace
those of the file, and --device, --precision and --threads those of each recipe."""


@dataclass(frozen=True)
class Settings(ComparisonSettings):
    """The command line of `bertsmith compare`."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Recipes of `bertsmith pretrain`, and at most one comparison file (with the tables [recipes]
    or [tasks]). The first recipe is the baseline."""
    json: bool = False
    """Print one JSON object instead of a table."""


def parse(args: Sequence[str], prog: str) -> Request[Settings]:
    """Parse the flags; recipes are read later, all at once."""
    config = (tyro.conf.FlagCreatePairsOff,)
    settings = tyro.cli(Settings, args=args, prog=prog, description=DESCRIPTION, config=config)
    return Request(settings, shlex.join([*prog.split(), *args]))


def main(request: Request[Settings]) -> None:
    """Run what is not complete yet, then print the table.

    Raises:
        TrainingError: a run failed; the page and the table have all others.
    """
    with Display() as display:
        report = compare(request.settings, [display], request.resume_command, tell)
    print(json_module.dumps(report.to_json()) if request.settings.json else report)
    print(f"page in {request.settings.out / NAME}.html", file=sys.stderr)
    if report.errors:
        raise TrainingError(
            f"{len(report.errors)} of the runs failed (above, and on the page); all others are "
            f"there. Mend the cause, then repeat what is missing with: {request.resume_command}"
        )


def tell(line: str) -> None:
    """Print a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)
