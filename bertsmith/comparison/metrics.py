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
from bertsmith.training.objective import title_of_term

COMMON_TITLES = {
    "one_segment_loss": "masked LM, one segment: loss",
    "one_segment_accuracy": "masked LM, one segment: accuracy",
    "two_segments_loss": "masked LM, two segments: loss",
    "two_segments_accuracy": "masked LM, two segments: accuracy",
    "gap_bits_per_byte": "a missing word: bits per byte",
    "gap_accuracy": "a missing word: accuracy",
}
"""Titles of the metrics on the eval rows that are the same for all recipes."""
COMMON_LOSSES = ("one_segment_loss", "two_segments_loss", "gap_bits_per_byte")
"""The metrics among these for which lower is better."""

METHOD = (
    "Each recipe is compared with the first, paired over the seeds: a two-way analysis of variance "
    "(recipe and seed). The noise is assumed to be the same for all recipes, and is estimated from "
    "all of them. Intervals hold at 95 % for all recipes of a metric at once (Student's t, "
    "Bonferroni). A difference is larger than noise if its interval does not contain 0. Only the "
    "spread over seeds is measured. The eval texts are a sample, too, and the same for all "
    "recipes, so a difference of a few texts means little even if every seed shows it."
)

GAPS_NOTE = (
    "A GPT or LSTM sees only the text before the missing word, so its bits are those of the whole "
    "text, read from left to right. BERT and T5 see both sides, so their bits are those of a "
    "pseudo-likelihood: with the same knowledge of the language, they are fewer. An ELMo has a "
    "language model for each side; their mean log-probability, normalized, counts. Compare "
    "a system only with others of its kind."
)


@dataclass(frozen=True)
class Metric:
    """One metric of all recipes: `values[recipe][seed]`, None if a run does not have the metric."""

    name: str
    title: str
    values: Mapping[str, Sequence[float | None]]

    @property
    def is_loss(self) -> bool:
        """Whether lower is better; if not, the metric is a share or a correlation."""
        return self.name in COMMON_LOSSES

    def seed_values(self, recipe: str) -> list[float]:
        """List a recipe's values without missing ones."""
        return [value for value in self.values[recipe] if value is not None]

    def format_value(self, value: float, *, signed: bool = False) -> str:
        """Format a value: a loss as it is, any other metric times 100."""
        sign = "+" if signed else ""
        # With "z", a value that rounds to zero is written as 0.0 instead of -0.0.
        return f"{value:{sign}z.3f}" if self.is_loss else f"{100 * value:{sign}z.1f}"

    def cell(self, recipe: str) -> str:
        """Format mean ± standard deviation; "–" if the recipe does not have the metric."""
        values = self.seed_values(recipe)
        if not values:
            return "–"
        summary = spread(values)
        deviation = "" if summary["sd"] is None else f" ± {self.format_value(summary['sd'])}"
        return self.format_value(summary["mean"]) + deviation

    def differences(self) -> dict[str, Difference]:
        """Compare each recipe with the first over their common seeds.

        The result is empty if the first recipe does not have the metric.
        """
        measured_recipes = [name for name in self.values if self.seed_values(name)]
        if len(measured_recipes) < 2 or measured_recipes[0] != next(iter(self.values)):
            return {}
        # A seed counts only if all of these recipes have the metric for it.
        seeds = zip(*(self.values[name] for name in measured_recipes), strict=True)
        complete_seeds = [values for values in seeds if None not in values]
        if not complete_seeds:
            return {}
        over_seeds = differences(np.array(complete_seeds, dtype=np.float64).T)
        return dict(zip(measured_recipes[1:], over_seeds, strict=True))

    def format_difference(self, difference: Difference) -> str:
        """Format a difference, such as "+0.031 (+0.012 to +0.050, p = 0.004)"."""
        mean = self.format_value(difference.mean, signed=True)
        if difference.low is None or difference.high is None or difference.p is None:
            return f"{mean} (no spread over seeds, so the noise is unknown)"
        low, high = (self.format_value(x, signed=True) for x in (difference.low, difference.high))
        p = "p < 0.001" if difference.p < 0.001 else f"p = {difference.p:.3f}"
        return f"{mean} ({low} to {high}, {p})"


def metrics_of(comparison: Comparison, results: Sequence[RunResult]) -> list[Metric]:
    """Build all metrics: of the common eval rows, other pre-training objectives, and tasks.

    Args:
        results: one for each recipe and seed, with the seeds of each recipe in the same order.
    """
    tasks = {
        task.name: f"{task.name}: {score_name(task.settings.score_key)}"
        for task in comparison.tasks
    }
    names = dict.fromkeys(name for result in results for name in result.scores)
    objective_titles = {
        name: build_title(name) for name in names if name not in COMMON_TITLES and name not in tasks
    }
    titles = {**COMMON_TITLES, **objective_titles, **tasks}

    def values_by_recipe(name: str) -> dict[str, list[float | None]]:
        return {
            recipe.name: [
                result.scores.get(name) for result in results if result.recipe == recipe.name
            ]
            for recipe in comparison.recipes
        }

    return [
        Metric(name, title, values_by_recipe(name))
        for name, title in titles.items()
        if name in names
    ]


def build_title(name: str) -> str:
    """Build the title of a metric from its name, such as `rtd_auc`: objective and metric.

    The name of an objective may have underscores, too, as in `my_loss_accuracy`.
    """
    objective, _, metric = name.rpartition("_")
    metric_name = "area under the ROC curve" if metric == "auc" else "accuracy"
    return f"{title_of_term(objective)}: {metric_name}"


def to_json(metric: Metric) -> dict[str, Any]:
    """Return the values of each recipe and its difference from the first, for `--json`."""
    recipes: dict[str, dict[str, Any]] = {}
    for name, values in metric.values.items():
        measured = metric.seed_values(name)
        summary = spread(measured) if measured else {}
        recipes[name] = {**summary, "values": list(values)}
    return {
        "title": metric.title,
        "larger_is_better": not metric.is_loss,
        "recipes": recipes,
        "differences": {
            name: {**asdict(each), "is_larger_than_noise": each.is_clear}
            for name, each in metric.differences().items()
        },
    }
