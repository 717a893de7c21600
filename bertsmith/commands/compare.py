"""`bertsmith compare`: recipes under the same budget and seeds → one page about all of them."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse, print_report, tell
from bertsmith.comparison.job import NAME, compare
from bertsmith.comparison.settings import ComparisonSettings
from bertsmith.errors import TrainingError
from bertsmith.training.display import Display


@dataclass(frozen=True)
class Settings(ComparisonSettings):
    """Pre-train recipes under the same budget and seeds, fine-tune each, and compare.

    Writes one HTML page (comparison.html, also as JSON): eval curves, a table of mean ± standard
    deviation, and which differences are larger than noise. All models are measured on the same eval
    rows. To continue after an interruption, run the same command again; finished runs are kept. A
    run that fails is noted, and the others go on; the exit code is then 2.

    A comparison file names recipes that share most settings, the budget, the seeds and the tasks;
    families, masks, pairs and positions come with bertsmith. Budget and seeds on the line replace
    those of the file, and --device, --precision and --threads those of each recipe.
    """

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Recipes of `bertsmith pretrain`, and at most one comparison file (with the tables [recipes]
    or [tasks]). The first recipe is the baseline."""
    json: bool = False
    """Print one JSON object instead of a table."""


def main(args: Sequence[str], prog: str) -> None:
    """Run what is not complete yet, then print the table.

    Raises:
        TrainingError: a run failed; the page and the table have all others.
    """
    settings, again = parse(Settings, args, prog), shlex.join([*prog.split(), *args])
    with Display() as display:
        report = compare(settings, [display], again, tell)
    print_report(report, settings.json)
    tell(f"page in {settings.out / NAME}.html")
    if report.errors:
        raise TrainingError(
            f"runs: {len(report.errors)} failed (named above, and on the page); all others are "
            f"there. Mend the cause, then repeat what is missing with: {again}"
        )
