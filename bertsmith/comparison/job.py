"""The job of `bertsmith compare`: settings go in, runs and reports come out."""

from collections.abc import Sequence

from bertsmith.comparison.page import write_comparison_page
from bertsmith.comparison.peak_memory import add_peak_memory
from bertsmith.comparison.recipes import read_comparison
from bertsmith.comparison.report import ComparisonReport
from bertsmith.comparison.runs import ComparisonContext, run_all
from bertsmith.comparison.settings import ComparisonSettings
from bertsmith.system.files import write_json
from bertsmith.system.locks import hold_folder
from bertsmith.system.paths import check_outside
from bertsmith.system.terminal import Say
from bertsmith.training.callback import Callback

OUTPUT_NAME = "comparison"
"""Name of the page and of its JSON, without their endings."""


def compare(
    settings: ComparisonSettings,
    callbacks: Sequence[Callback] = (),
    command: str = "the same command",
    log: Say = lambda line: None,
) -> ComparisonReport:
    """Run all incomplete runs and write `comparison.html` and `.json`.

    Args:
        callbacks: follow the steps and evaluations of each pre-training and fine-tuning.
        command: the command line that continues a stopped comparison, for messages.
        log: shows a line to the user.

    Raises:
        BertsmithError: a run is not possible as requested; no run has begun.
        Interrupted: the user asked to stop; the same call continues where it stopped.
    """
    comparison = read_comparison(settings)
    check_outside(settings.out, settings.corpus)  # refuses an output folder within the corpus
    with hold_folder(settings.out):  # makes and locks it
        context = ComparisonContext(comparison, callbacks, command, log)
        results = run_all(context)
        add_peak_memory(context, results)
        report = ComparisonReport(comparison, tuple(results))
        write_json(settings.out / f"{OUTPUT_NAME}.json", report.to_json())
        write_comparison_page(settings.out / f"{OUTPUT_NAME}.html", report)
    return report
