"""The HTML page of a comparison: curves, means, spreads and significant differences."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from bertsmith.comparison.metrics import GAPS_NOTE, METHOD, Metric
from bertsmith.comparison.peak_memory import MEMORY_NOTE
from bertsmith.comparison.report import ComparisonReport, classify_difference
from bertsmith.comparison.runs import EvalPoint
from bertsmith.metrics.differences import Difference
from bertsmith.pages.charts import Chart, Series, round_step
from bertsmith.pages.colors import COLORS
from bertsmith.pages.page import write_page
from bertsmith.pages.scale import Scale

GRID = 60
"""Number of points along a curve at which the runs of a recipe are averaged."""
MIN_DOTS = 3
"""Smallest number of recipes for which scores are drawn over cost, since two show no trend."""


def write_comparison_page(path: Path, report: ComparisonReport) -> None:
    write_page(
        path,
        "comparison/page.html",
        report=report,
        verdict=classify_difference,
        method=METHOD,
        gaps_note=GAPS_NOTE,
        memory_note=MEMORY_NOTE,
        charts=charts(report),
        cost_charts=cost_charts(report),
        scale_of=scale_of,
        has_spread=report.comparison.num_seeds > 1,
    )


def cost_charts(report: ComparisonReport) -> list[Chart]:
    """Draw scores over size and over speed, if `MIN_DOTS` recipes differ in these by a tenth."""
    scores = [task.name for task in report.comparison.tasks]
    if not scores:
        scores = ["one_segment_accuracy", "gap_accuracy"]
    metrics = [metric for metric in report.metrics if metric.name in scores]
    costs = {name: cost for name in report.names if (cost := report.cost(name))}
    if len(costs) < MIN_DOTS:
        return []
    sizes = {name: cost["parameters"] / 1e6 for name, cost in costs.items()}
    speeds = {name: cost["tokens"] / cost["minutes"] / 60e3 for name, cost in costs.items()}
    axes = {"million parameters": sizes, "thousand tokens a second, in training": speeds}
    return [
        _cost_chart(report, metric, label, x_values)
        for label, x_values in axes.items()
        if max(x_values.values()) >= 1.1 * min(x_values.values())
        for metric in metrics
    ]


def _cost_chart(
    report: ComparisonReport, metric: Metric, label: str, x_values: Mapping[str, float]
) -> Chart:
    """Draw a dot for each recipe: its mean score over its size or speed."""
    series = []
    for name, x in x_values.items():
        scores = metric.seed_values(name)
        if scores:
            color = COLORS[report.names.index(name) % len(COLORS)]
            series.append(Series(name, [(x, float(np.mean(scores)))], "dots", color))
    return Chart(f"{metric.title}, over {label}", label, "score", series, is_share=True)


def scale_of(differences: Mapping[str, Difference]) -> Scale:
    """Return a scale around zero that holds the intervals of all differences."""
    bounds = [bound for each in differences.values() for bound in (each.low, each.high)]
    return Scale.around_zero([bound for bound in bounds if bound is not None])


def charts(report: ComparisonReport) -> list[Chart]:
    """Build charts of the common rows' loss over tokens and minutes."""
    axes: list[tuple[str, Callable[[EvalPoint], float]]] = [
        ("million tokens", lambda point: point.tokens / 1e6),
        ("minutes", lambda point: point.minutes),
    ]
    if not any(each.points for each in report.results):
        return []
    return [chart(report, label, x_of) for label, x_of in axes]


def chart(report: ComparisonReport, label: str, x_of: Callable[[EvalPoint], float]) -> Chart:
    """Build one chart with the mean ± standard deviation over seeds of each recipe."""
    series = []
    for index, name in enumerate(report.names):
        runs = [each.points for each in report.results if each.recipe == name and each.points]
        if runs:
            series.append(mean_curve(name, index, runs, x_of))
    losses = [y for each in series for _, y in each.points]
    step = round_step(max(losses) - min(losses))
    has_gaps = report.comparison.has_other_systems
    measured = "A missing word: bits per byte" if has_gaps else "Masked LM on the common rows: loss"
    return Chart(
        title=f"{measured} over {label}",
        x_label=label,
        y_label="bits" if has_gaps else "loss",
        series=series,
        low=step * math.floor(min(losses) / step),
    )


def mean_curve(
    name: str, index: int, runs: Sequence[Sequence[EvalPoint]], x_of: Callable[[EvalPoint], float]
) -> Series:
    """Average the curves of runs over their common range.

    Values between measurements are interpolated linearly, since runs are measured at different
    times.
    """
    curves = [([x_of(each) for each in run], [each.loss for each in run]) for run in runs]
    first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    x = np.linspace(first, last, GRID)
    losses = np.stack([np.interp(x, *curve) for curve in curves])
    mean = losses.mean(axis=0)
    points = np.stack([x, mean], axis=1).tolist()
    band = []
    if len(runs) > 1:
        spread = losses.std(axis=0, ddof=1)
        band = np.stack([x, mean - spread, mean + spread], axis=1).tolist()
    return Series(name, points, "mean", COLORS[index % len(COLORS)], band)
