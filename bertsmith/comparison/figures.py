"""Metrics of a comparison by recipe: mean, spread over seeds, significant differences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bertsmith.comparison.recipes import Comparison
from bertsmith.comparison.runs import RunResult
from bertsmith.metrics.differences import Difference, differences
from bertsmith.metrics.names import score_name
from bertsmith.metrics.spread import spread
from bertsmith.training.objective import TERM_NAMES

LOSS = "loss"
COMMON = {
    "one_segment_loss": "masked LM, one segment: loss",
    "one_segment_accuracy": "masked LM, one segment: accuracy",
    "two_segments_loss": "masked LM, two segments: loss",
    "two_segments_accuracy": "masked LM, two segments: accuracy",
}

METHOD = (
    "Each recipe is compared with the first, paired over the seeds: a two-way analysis of variance "
    "(recipe and seed), its noise estimated from all recipes together and taken to be the same for "
    "all. Intervals hold at 95 % for all recipes of a figure at once (Student's t, Bonferroni). A "
    "difference is larger than noise where its interval does not hold 0. Only the "
    "spread over seeds is measured. The eval texts are a sample too, the same for all recipes, so "
    "a difference of a few texts means little even if every seed shows it."
)


@dataclass(frozen=True)
class Figure:
    """One metric of all recipes: `values[recipe][seed]`, None where a run lacks it."""

    name: str
    title: str
    values: Mapping[str, Sequence[float | None]]

    @property
    def is_loss(self) -> bool:
        """Whether lower is better; other metrics are shares: higher is better."""
        return self.name in COMMON and self.name.endswith(LOSS)

    def seed_values(self, recipe: str) -> list[float]:
        """List a recipe's values without missing ones."""
        return [value for value in self.values[recipe] if value is not None]

    def shown(self, value: float, *, signed: bool = False) -> str:
        """Format a value: losses as they are, shares times 100."""
        sign = "+" if signed else ""
        # z: what rounds to zero is 0.0, never -0.0.
        return f"{value:{sign}z.3f}" if self.is_loss else f"{100 * value:{sign}z.1f}"

    def cell(self, recipe: str) -> str:
        """Format mean ± standard deviation; – where the recipe lacks the metric."""
        values = self.seed_values(recipe)
        if not values:
            return "–"
        figures = spread(values)
        deviation = "" if figures["sd"] is None else f" ± {self.shown(figures['sd'])}"
        return self.shown(figures["mean"]) + deviation

    def differences(self) -> dict[str, Difference]:
        """Compare each recipe with the first over their common seeds.

        Empty where the first recipe lacks the metric.
        """
        with_any = [name for name in self.values if self.seed_values(name)]
        if len(with_any) < 2 or with_any[0] != next(iter(self.values)):
            return {}
        columns = zip(*(self.values[name] for name in with_any), strict=True)
        whole = [column for column in columns if None not in column]
        if not whole:
            return {}
        over_seeds = differences(np.array(whole, dtype=np.float64).T)
        return dict(zip(with_any[1:], over_seeds, strict=True))

    def in_words(self, difference: Difference) -> str:
        """Format a difference, such as "+0.031 (+0.012 to +0.050, p = 0.004)"."""
        mean = self.shown(difference.mean, signed=True)
        if difference.low is None or difference.high is None or difference.p is None:
            return f"{mean} (no spread over seeds: nothing is known about noise)"
        low, high = (self.shown(x, signed=True) for x in (difference.low, difference.high))
        p = "p < 0.001" if difference.p < 0.001 else f"p = {difference.p:.3f}"
        return f"{mean} ({low} to {high}, {p})"


def figures_of(comparison: Comparison, results: Sequence[RunResult]) -> list[Figure]:
    """Build all metrics, of common rows, further objectives and tasks."""
    tasks = {
        task.name: f"{task.name}: {score_name(task.settings.score_key)}"
        for task in comparison.tasks
    }
    names = dict.fromkeys(name for result in results for name in result.figures)
    own = {name: title_of(name) for name in names if name not in COMMON and name not in tasks}
    titles = {**COMMON, **own, **tasks}

    def values_of(name: str) -> dict[str, list[float | None]]:
        return {
            recipe.name: [each.figures.get(name) for each in results if each.recipe == recipe.name]
            for recipe in comparison.recipes
        }

    return [Figure(name, title, values_of(name)) for name, title in titles.items() if name in names]


def title_of(name: str) -> str:
    term, _, kind = name.partition("_")
    told = "area under the ROC curve" if kind == "auc" else "accuracy"
    return f"{TERM_NAMES.get(term, term)}: {told}"


def to_json(figure: Figure) -> dict[str, Any]:
    by_recipe = figure.differences()
    return {
        "title": figure.title,
        "larger_is_better": not figure.is_loss,
        "recipes": {
            name: {
                **(spread(figure.seed_values(name)) if figure.seed_values(name) else {}),
                "values": list(values),
            }
            for name, values in figure.values.items()
        },
        "differences": {
            name: {**asdict(each), "is_larger_than_noise": each.is_clear}
            for name, each in by_recipe.items()
        },
    }
