"""Charts of a run's training curves, from its journal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith.pages.charts import Chart, Point, Series, write_svg
from bertsmith.pages.colors import COLORS, Color
from bertsmith.training.objective import (
    WITHOUT_ACCURACY,
    chances_of_terms,
    list_terms,
    title_of_term,
)

REFERENCE_COLOR: Color = 2
"""Color of dashed lines, which are no curves of the run."""


def draw_curves(
    entries: Sequence[Mapping[str, Any]], path: Path, run: Mapping[str, Any] | None = None
) -> None:
    """Write the charts of `build_charts` as an SVG file.

    Raises:
        InputError: it cannot be written.
    """
    write_svg(path, build_charts(entries, run))


def build_charts(
    entries: Sequence[Mapping[str, Any]], run: Mapping[str, Any] | None = None
) -> list[Chart]:
    """Build a chart of each loss and one of all accuracies, with eval metrics as dots.

    Each loss has its own chart, since one may be ten times another. A dashed line shows the loss of
    a model that knows token frequencies alone, if `run` has this loss. A vertical line shows where
    the short rows at the beginning of the run end, if `run` says that there are some.

    Args:
        entries: the lines of the journal.
        run: the content of run.json.
    """
    run = run or {}
    reference_loss = run.get("data", {}).get("held_out_unigram_entropy")
    settings = run.get("config", {}).get("pretraining", {})
    last_step = max((entry["step"] for entry in entries), default=0)
    start_steps = settings.get("start_steps") or 0
    full_length_mark = []
    if 0 < start_steps < last_step:
        name = f"rows of {settings['max_length']} tokens from here"
        # A mark is drawn at the x of its point, across the chart; the y has no meaning.
        full_length_mark = [Series(name, [(start_steps, 0.0)], "mark", REFERENCE_COLOR)]
    # The terms are the parts of the training loss, such as that of masked LM.
    terms = list_terms(name for entry in entries for name in entry)
    charts = []
    for term in terms:
        series = _series(entries, terms, term, "loss")
        # The reference is the loss of a model that predicts tokens by their frequency alone. It is
        # comparable with the loss of masked LM, which is the first term of each run that has one.
        if series and term == terms[0] and reference_loss is not None:
            series.append(
                Series("token frequency alone", [(0, reference_loss)], "reference", REFERENCE_COLOR)
            )
        if series:
            title = f"Loss: {title_of_term(term)}"
            all_series = [*series, *full_length_mark]
            charts.append(Chart(title, x_label="step", y_label="", series=all_series))
    classified = [term for term in terms if term not in WITHOUT_ACCURACY]
    series = [line for term in classified for line in _series(entries, terms, term, "accuracy")]
    if series:
        chances = chances_of_terms()
        for chance in sorted({chances[term] for term in classified if term in chances}):
            series.append(Series("chance", [(0, chance)], "reference", REFERENCE_COLOR))
        series += full_length_mark
        charts.append(
            Chart("Accuracy", x_label="step", y_label="", series=series, is_share=True, high=1.0)
        )
    return charts


def _series(
    entries: Sequence[Mapping[str, Any]], terms: Sequence[str], term: str, metric: str
) -> list[Series]:
    """Build the lines of a loss term in training and in evals; leave out lines without points.

    Args:
        terms: all loss terms, whose order gives each a color.
        metric: "loss" or "accuracy".
    """
    color = COLORS[terms.index(term) % len(COLORS)]
    label = title_of_term(term)
    lines = [
        Series(f"{label}, training", _points(entries, f"{term}_{metric}"), "line", color),
        Series(f"{label}, eval", _points(entries, f"held_out_{term}_{metric}"), "dots", color),
    ]
    return [line for line in lines if line.points]


def _points(entries: Sequence[Mapping[str, Any]], name: str) -> list[Point]:
    return [(entry["step"], entry[name]) for entry in entries if name in entry]
