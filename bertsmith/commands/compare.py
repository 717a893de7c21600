"""`bertsmith compare`: recipes with the same budget and seeds → one page that compares them."""

import shlex
from collections.abc import Sequence

from bertsmith.commands.output import print_note, print_report
from bertsmith.commands.settings.compare import Settings
from bertsmith.comparison.job import OUTPUT_NAME, compare
from bertsmith.errors import TrainingError
from bertsmith.training.display import Display


def main(settings: Settings, line: Sequence[str]) -> None:
    """Train and score all recipes, then print the table that compares them.

    `line`, the words of the command line, is repeated in messages: the same command continues.

    Raises:
        TrainingError: a run failed; the page and the table have the other runs.
    """
    same_command = shlex.join(line)
    with Display() as display:
        report = compare(settings, [display], same_command, print_note)
    print_report(report, settings.json)
    print_note(f"page in {settings.out / OUTPUT_NAME}.html")
    if report.errors:
        raise TrainingError(
            f"runs: {len(report.errors)} failed (see above, and the page); all others are "
            f"complete. Correct the cause, then repeat the failed ones with: {same_command}"
        )
