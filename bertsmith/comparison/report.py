"""The report of a comparison as text and JSON.

A comparison trains several recipes, each with several seeds. A metric is a score, such as a task's
accuracy, of all these runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bertsmith.comparison.metrics import METHOD, Metric, metrics_of, to_json
from bertsmith.comparison.peak_memory import PEAK_MEMORY_KEY
from bertsmith.comparison.recipes import ComparedTask, Comparison
from bertsmith.comparison.runs import RunResult
from bertsmith.config import to_jsonable
from bertsmith.data.corpus import Corpus
from bertsmith.errors import as_flags, option
from bertsmith.metrics.differences import Difference
from bertsmith.metrics.names import score_name
from bertsmith.metrics.spread import spread
from bertsmith.system.terminal import align_columns

Row = tuple[str, ...]

# Verdicts on a difference that shows nothing.
WITHIN = "within noise"
UNKNOWN = "unknown"
UNITS = (
    "Mean ± standard deviation over the seeds. Losses are in nats, or in bits per byte where the "
    "title says so; other scores are shares times 100."
)
"""The line below the table of scores."""


@dataclass(frozen=True)
class ComparisonReport:
    """A comparison with the results of all its runs, as tables whose first row is the heading."""

    comparison: Comparison
    results: tuple[RunResult, ...]

    @property
    def metrics(self) -> list[Metric]:
        return metrics_of(self.comparison, self.results)

    @property
    def names(self) -> list[str]:
        """The names of the recipes; the first is the baseline."""
        return [recipe.name for recipe in self.comparison.recipes]

    @property
    def errors(self) -> list[str]:
        return [error for result in self.results for error in result.errors]

    def cost(self, recipe: str) -> dict[str, float]:
        """Average a recipe's cost over the seeds that have it; empty if all runs failed."""
        costs = [each.cost for each in self.results if each.recipe == recipe]
        names = dict.fromkeys(name for cost in costs for name in cost)
        return {
            name: spread([cost[name] for cost in costs if name in cost])["mean"] for name in names
        }

    def equal(self) -> dict[str, str]:
        """Describe the conditions that are equal for all recipes, by their names."""
        comparison = self.comparison
        settings = self.comparison.settings
        train = Corpus.open(settings.corpus)
        seeds = f"{comparison.num_seeds} (0 to {comparison.num_seeds - 1})"
        return {
            "budget of each run": str(comparison.budget),
            "seeds": seeds if comparison.num_seeds > 1 else "1",
            "corpus": f"{settings.corpus}: {train.num_documents:,} documents, "
            f"{train.num_tokens:,} tokens, a vocabulary of {train.vocab_size:,} tokens",
            "common held-out rows": f"{comparison.final_rows:,} of at most {comparison.max_length} "
            f"tokens ({comparison.eval_rows:,} while training); {self._hidden_tokens()}",
            **{f"task {task.name}": _describe_task(task) for task in comparison.tasks},
        }

    def _hidden_tokens(self) -> str:
        """Describe the tokens that are predicted in the common held-out rows."""
        masked = "the same 15 % masked for all: 80 % as [MASK], 10 % replaced, 10 % left"
        if not self.comparison.has_other_systems:
            return masked
        gaps = "in each the same token is missing for all"
        return f"{gaps}; for BERT and its relatives, on rows of their own, {masked}"

    def differing(self) -> list[Row]:
        """Return a row for each setting that differs, with its value in each recipe."""
        return [
            ("setting", *self.names),
            *(
                (key, *(format_setting(by_recipe[name]) for name in self.names))
                for key, by_recipe in self.comparison.differing_settings().items()
            ),
        ]

    def score_rows(self) -> list[Row]:
        """Return a row for each recipe, with mean and spread of each metric."""
        metrics = self.metrics
        return [
            ("recipe", *(metric.title for metric in metrics)),
            *((name, *(metric.cell(name) for metric in metrics)) for name in self.names),
        ]

    def guesses(self) -> list[Row]:
        """Return a row for each sentence with a gap, with the proposals of each recipe (seed 0)."""
        sentences = self.comparison.sentences
        by_recipe = {each.recipe: each.guesses for each in self.results if each.seed == 0}
        if not sentences or not any(by_recipe.values()):
            return []
        rows: list[Row] = [("sentence", *self.names)]
        for number, sentence in enumerate(sentences):
            cells = []
            for name in self.names:
                guesses = by_recipe.get(name)
                words = [
                    f"{each.token} {each.percent:.1f}"
                    for each in (guesses[number] if guesses else ())
                ]
                cells.append(", ".join(words) or "–")
            rows.append((sentence, *cells))
        return rows

    def cost_rows(self) -> list[Row]:
        """Return a row for each recipe, with the means of its costs."""
        formats = {
            "parameters": ",.0f",
            "steps": ",.0f",
            "M tokens": ".2f",
            "minutes": ".2f",
            "tokens/s": ",.0f",
            "peak memory (MB)": ",.0f",
        }
        rows: list[Row] = [("recipe", *formats)]
        for name in self.names:
            cost = self.cost(name)
            if cost:  # empty if all runs of the recipe failed
                cost["M tokens"] = cost["tokens"] / 1e6
                cost["tokens/s"] = cost["tokens"] / (60 * cost["minutes"])
            if PEAK_MEMORY_KEY in cost:
                cost["peak memory (MB)"] = cost[PEAK_MEMORY_KEY] / 1e6
            cells = (f"{cost[key]:{spec}}" if key in cost else "–" for key, spec in formats.items())
            rows.append((name, *cells))
        return rows

    def difference_rows(self) -> list[Row]:
        """Return a row for each metric of each recipe but the first, with the difference to it."""
        return [
            ("metric", "recipe", f"difference from {self.names[0]}", "verdict"),
            *(
                (
                    metric.title,
                    name,
                    metric.format_difference(difference),
                    classify_difference(metric, difference),
                )
                for metric in self.metrics
                for name, difference in metric.differences().items()
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "recipes": {
                recipe.name: {"settings": to_jsonable(recipe.job), "cost": self.cost(recipe.name)}
                for recipe in self.comparison.recipes
            },
            "equal": self.equal(),
            "differing": self.comparison.differing_settings(),
            "method": METHOD,
            "figures": {metric.name: to_json(metric) for metric in self.metrics},
            "runs": [result.to_json() for result in self.results],
            "errors": self.errors,
        }

    def __str__(self) -> str:
        rows = [*transposed(self.score_rows()), *transposed(self.cost_rows())[1:]]
        lines = [*align_columns(rows, str.ljust), "", UNITS, *self.verdicts()]
        if self.errors:
            lines += ["", "failed:", *(f"  {error}" for error in self.errors)]
        return "\n".join(lines)

    def verdicts(self) -> list[str]:
        """List the differences that are larger than noise, after a line that counts them.

        The line also counts the differences whose noise is unknown.
        """
        rows = self.difference_rows()[1:]
        clear = [row for row in rows if row[-1] not in (WITHIN, UNKNOWN)]
        head = f"larger than noise: {len(clear)} of {len(rows)} differences from {self.names[0]}"
        if num_unknown := sum(row[-1] == UNKNOWN for row in rows):
            head += f"; the noise of {num_unknown} is unknown"
            if self.comparison.num_seeds == 1:
                head += f" with one seed: give {as_flags(option('seeds', 2))} or more"
        lines = [f"  {title}: {name} {words}, {verdict}" for title, name, words, verdict in clear]
        return [head, *lines]


def classify_difference(metric: Metric, difference: Difference) -> str:
    """Classify a difference from the first recipe: better, worse, within noise, or unknown."""
    if difference.low is None:
        return UNKNOWN
    if not difference.is_clear:
        return WITHIN
    return "better" if (difference.mean < 0) == metric.is_loss else "worse"


def format_setting(value: Any) -> str:
    """Format the value of a setting as a recipe spells it; a dash stands for None."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _describe_task(task: ComparedTask) -> str:
    settings = task.settings
    return (
        f"{task.task.name}, {settings.train.name} and {settings.eval.name}; "
        f"{score_name(settings.score_key)} of the best weights, chosen by these scores, so "
        f"slightly optimistic for all; cls_attention {settings.cls_attention}"
    )


def transposed(rows: Sequence[Row]) -> list[Row]:
    """Return a table's columns as rows."""
    return list(zip(*rows, strict=True))
