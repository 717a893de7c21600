"""The scores by which `finetune classify --head auto` chose a head, as a part of a run's result.

A head is a way to learn from the labels, such as `linear` or `fine-tuned`. `--head auto` compares
the heads by cross-validation, within a budget of minutes if there is one.
"""

import statistics
from dataclasses import dataclass

from bertsmith.errors import option
from bertsmith.metrics.names import format_score, score_name
from bertsmith.system.counts import count_noun
from bertsmith.system.terminal import align_columns


@dataclass(frozen=True)
class HeadScore:
    """The scores of one head in a cross-validation, and its costs."""

    head: str
    scores: tuple[float, ...]
    """The score of each fold."""
    seconds: float
    """Mean duration of a training."""
    texts_per_second: float
    """Examples of the folds, divided by the time of their prediction."""
    megabytes: float
    """Size of the weights on disk, in MB of 10^6 bytes."""

    @property
    def mean(self) -> float:
        """Mean over the folds."""
        return statistics.fmean(self.scores)


@dataclass(frozen=True)
class LeftOutHead:
    """A head for whose comparison and training the budget had no time."""

    head: str
    minutes: float
    """Estimated length of the run with this head."""


@dataclass(frozen=True)
class HeadChoice:
    """The heads that were compared, and the one that was chosen.

    `heads` is empty if there were too few examples for a comparison.
    """

    metric: str
    """The name of the score in reports, such as accuracy."""
    heads: tuple[HeadScore, ...]
    chosen: str
    unused: tuple[str, ...] = ()
    """Names of the given options that the chosen head has no use for."""
    reason: str = ""
    """Why this head was chosen, if none were compared."""
    has_corpus: bool = False
    """Whether the linear head learns from a corpus, too."""
    average_has_corpus: bool = False
    """Whether a linear head that learned from a corpus is one of the models of the head `average`,
    whose probabilities are averaged."""
    left_out: tuple[LeftOutHead, ...] = ()
    minutes: float | None = None
    """The budget; None without one."""

    def __str__(self) -> str:
        unused = ""
        if self.unused:
            names = ", ".join(map(option, self.unused))
            unused = f"{self.chosen} has no use for {names}: no effect on this model\n"
        if not self.heads:
            return f"{self._describe(self.chosen)} was chosen, since {self.reason}\n{unused}"
        titles = ["± between folds", "seconds to train", "texts/s", "MB"]
        rows = [["head", score_name(self.metric), *titles]]
        for each in self.heads:
            deviation = statistics.stdev(each.scores)
            scores = [format_score(self.metric, value) for value in (each.mean, deviation)]
            speed, size = f"{each.texts_per_second:,.0f}", f"{each.megabytes:,.1f}"
            rows.append([self._describe(each.head), *scores, f"{each.seconds:.1f}", speed, size])
        folds = count_noun(len(self.heads[0].scores), "fold")
        lines = align_columns(rows)
        for head in self.left_out:
            lines.append(
                f"{self._describe(head.head)} was left out: with it, the run would take about "
                f"{head.minutes:.1f} minutes, and {option('minutes')} is {self.minutes:g}"
            )
        chosen = self._describe(self.chosen)
        # The text ends with a line break, so that an empty line comes before the result of the run.
        return "\n".join([*lines, f"{chosen} was chosen, by cross-validation with {folds}", unused])

    def _describe(self, head: str) -> str:
        """Return the name of a head in the report."""
        learns_from_corpus = (head == "linear" and self.has_corpus) or (
            head == "average" and self.average_has_corpus
        )
        return f"{head} + corpus" if learns_from_corpus else head
