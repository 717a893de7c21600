"""`bertsmith score`: gold data and predictions of any system → scores."""

from collections.abc import Sequence

from bertsmith.commands.output import print_report
from bertsmith.commands.settings.score import Settings
from bertsmith.data.tables import check_delimiter
from bertsmith.evaluation.score_task import find_task, score


def main(settings: Settings, line: Sequence[str]) -> None:
    """Print the scores; without --task, the files show which task it is.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    gold, predictions, options = settings.gold, settings.predictions, settings.options
    check_delimiter(options, gold, predictions)
    task = settings.task or find_task(gold, predictions, options)
    print_report(score(task, gold, predictions, options), settings.json)
