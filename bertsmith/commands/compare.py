"""`bertsmith compare`: recipes under the same budget and seeds → one page about all of them."""

import shlex
from collections.abc import Sequence

from bertsmith.commands.flags import print_report, tell
from bertsmith.commands.settings.compare import Settings
from bertsmith.comparison.job import NAME, compare
from bertsmith.errors import TrainingError
from bertsmith.training.display import Display


def main(settings: Settings, line: Sequence[str]) -> None:
    """Run what is not complete yet, then print the table.

    Raises:
        TrainingError: a run failed; the page and the table have all others.
    """
    again = shlex.join(line)
    with Display() as display:
        report = compare(settings, [display], again, tell)
    print_report(report, settings.json)
    tell(f"page in {settings.out / NAME}.html")
    if report.errors:
        raise TrainingError(
            f"runs: {len(report.errors)} failed (named above, and on the page); all others are "
            f"there. Mend the cause, then repeat what is missing with: {again}"
        )
