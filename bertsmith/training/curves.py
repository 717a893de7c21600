"""Training curves of a run's journal, as a PNG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.system.files import atomic_write
from bertsmith.training.journal import is_held_out
from bertsmith.training.objective import TERM_NAMES

MAX_POINTS = 400
"""Points of a curve; more are averaged in groups, since there are no more pixels to show them."""


def draw_curves(
    entries: Sequence[Mapping[str, Any]], path: Path, reference_loss: float | None = None
) -> None:
    """Plot losses and accuracies, with eval metrics as dots.

    `reference_loss`, drawn as a dashed line, is the first term's loss of a unigram model.
    """
    from matplotlib.figure import Figure

    steps = [entry for entry in entries if not is_held_out(entry)]
    held_out = [entry for entry in entries if is_held_out(entry)]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    losses, accuracies = figure.subplots(1, 2)
    for axes, kind in ((losses, "loss"), (accuracies, "accuracy")):
        for number, term in enumerate(_terms(entries)):
            name = f"{term}_{kind}"
            color, label = f"C{number}", TERM_NAMES.get(term, term)
            x, y = _thinned(steps, name)
            axes.plot(x, y, color=color, linewidth=1.2, alpha=0.7, label=f"{label}, training")
            x, y = _column(held_out, f"held_out_{name}")
            axes.plot(x, y, "o-", color=color, markersize=4, label=f"{label}, eval")
        axes.set(xlabel="step", title=kind, ylim=(0, None))
        axes.grid(alpha=0.3)
    if reference_loss is not None:
        losses.axhline(
            reference_loss, color="0.4", linestyle="--", linewidth=1, label="token frequency alone"
        )
    losses.legend(fontsize=8)
    accuracies.set_ylim(0, 1)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)


def _terms(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for entry in entries for name in entry)
    return [
        name.removesuffix("_loss")
        for name in names
        if name.endswith("_loss") and not name.startswith("held_out_")
    ]


def _column(entries: Sequence[Mapping[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    found = [(entry["step"], entry[name]) for entry in entries if name in entry]
    return np.array([step for step, _ in found]), np.array([value for _, value in found])


def _thinned(entries: Sequence[Mapping[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and values, averaged down to `MAX_POINTS`."""
    x, y = _column(entries, name)
    groups = max(1, min(MAX_POINTS, len(x)))
    if len(x) == 0:
        return x, y
    parts = zip(np.array_split(x, groups), np.array_split(y, groups), strict=True)
    means = np.array([(part_x.mean(), part_y.mean()) for part_x, part_y in parts])
    return means[:, 0], means[:, 1]
