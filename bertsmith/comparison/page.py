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
MIN_RATIO = 1.1
"""Smallest ratio of the largest to the smallest cost over which scores are drawn."""


def write_comparison_page(path: Path, report: ComparisonReport) -> None:
    """Write the page; the arguments below are the values that its template shows, by name."""
    write_page(
        path,
        "comparison/page.html",
        report=report,
        verdict=classify_difference,
        method=METHOD,
        gaps_note=GAPS_NOTE,
        memory_note=MEMORY_NOTE,
        charts=draw_loss_curves(report),
        cost_charts=draw_costs(report),
        scale_of=choose_scale,
        has_spread=report.comparison.num_seeds > 1,
    )


def draw_costs(report: ComparisonReport) -> list[Chart]:
    """Draw the scores over the models' sizes, and over their speeds in training.

    The scores are those of the tasks, or without tasks the accuracies on the common rows. There
    are no charts for fewer than `MIN_DOTS` recipes. The sizes, or speeds, are left out if the
    largest is less than `MIN_RATIO` times the smallest.
    """
    scores = [task.name for task in report.comparison.tasks]
    if not scores:
        scores = ["one_segment_accuracy", "gap_accuracy"]
    metrics = [metric for metric in report.metrics if metric.name in scores]
    costs = {name: cost for name in report.names if (cost := report.cost(name))}
    if len(costs) < MIN_DOTS:
        return []
    sizes = {name: cost["parameters"] / 1e6 for name, cost in costs.items()}
    speeds = {name: cost["tokens"] / (60 * cost["minutes"]) / 1e3 for name, cost in costs.items()}
    axes = {"million parameters": sizes, "thousand tokens a second, in training": speeds}
    return [
        _draw_cost(report, metric, label, cost_of_recipe)
        for label, cost_of_recipe in axes.items()
        if max(cost_of_recipe.values()) >= MIN_RATIO * min(cost_of_recipe.values())
        for metric in metrics
    ]


def _draw_cost(
    report: ComparisonReport, metric: Metric, label: str, cost_of_recipe: Mapping[str, float]
) -> Chart:
    """Draw a dot for each recipe: its mean score over its size or speed.

    Args:
        label: the name of the cost, with its unit.
    """
    series = []
    for name, cost in cost_of_recipe.items():
        scores = metric.seed_values(name)
        if scores:
            color = COLORS[report.names.index(name) % len(COLORS)]
            series.append(Series(name, [(cost, float(np.mean(scores)))], "dots", color))
    return Chart(f"{metric.title}, over {label}", label, "score", series, is_share=True)


def choose_scale(differences: Mapping[str, Difference]) -> Scale:
    """Choose a scale around zero that holds the intervals of all differences."""
    bounds = [bound for each in differences.values() for bound in (each.low, each.high)]
    return Scale.around_zero([bound for bound in bounds if bound is not None])


def draw_loss_curves(report: ComparisonReport) -> list[Chart]:
    """Draw the loss on common rows during training: one chart over tokens, one over minutes.

    Common rows are held-out rows that are the same for all recipes.
    """
    axes: list[tuple[str, Callable[[EvalPoint], float]]] = [
        ("million tokens", lambda point: point.tokens / 1e6),
        ("minutes", lambda point: point.minutes),
    ]
    if not any(each.points for each in report.results):
        return []
    return [_draw_curve_chart(report, label, x_of) for label, x_of in axes]


def _draw_curve_chart(
    report: ComparisonReport, label: str, x_of: Callable[[EvalPoint], float]
) -> Chart:
    """Draw the curve of each recipe: mean ± standard deviation over its runs.

    Args:
        label: the name of the horizontal axis.
        x_of: gives the place of an evaluation on this axis.
    """
    series = []
    for index, name in enumerate(report.names):
        runs = [each.points for each in report.results if each.recipe == name and each.points]
        if runs:
            series.append(average_curves(name, index, runs, x_of))
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


def average_curves(
    name: str, index: int, runs: Sequence[Sequence[EvalPoint]], x_of: Callable[[EvalPoint], float]
) -> Series:
    """Average the curves of a recipe's runs over the range of the horizontal axis that all have.

    Values between measurements are interpolated linearly, since runs are measured at different
    times. If there is no such range, as in short runs with one evaluation each, the result is a dot
    at the mean of the last evaluations.

    Args:
        name: the name of the recipe.
        index: its number, which chooses the color.
    """
    curves = [([x_of(each) for each in run], [each.loss for each in run]) for run in runs]
    color = COLORS[index % len(COLORS)]
    first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if first >= last:
        ends = [(x[-1], loss[-1]) for x, loss in curves]
        x_mean, loss_mean = np.mean(ends, axis=0).tolist()
        return Series(name, [(x_mean, loss_mean)], "dots", color)
    grid = np.linspace(first, last, GRID)
    losses = np.stack([np.interp(grid, x, loss) for x, loss in curves])
    mean = losses.mean(axis=0)
    points = np.stack([grid, mean], axis=1).tolist()
    band = []
    if len(runs) > 1:
        deviation = losses.std(axis=0, ddof=1)
        band = np.stack([grid, mean - deviation, mean + deviation], axis=1).tolist()
    return Series(name, points, "mean", color, band)
