"""The result of a fine-tuning, as it is printed and stored."""

from dataclasses import dataclass
from typing import Any

from bertsmith.errors import option
from bertsmith.finetuning.notes import notes_on
from bertsmith.finetuning.results import LINEAR_BASELINE, FineTuningResult
from bertsmith.metrics.report import Report
from bertsmith.system.counts import count_noun
from bertsmith.system.notebook import html_lines
from bertsmith.training.trainer import Summary


@dataclass(frozen=True, kw_only=True)
class FineTuned(FineTuningResult):
    """The result of a run: scores of the saved model, and statistics.

    `FineTuningResult` has the fields that are the same for all heads, such as `evaluation`, the
    scores, and `choice`, the heads that `--head auto` compared.
    """

    load_report: str
    """The weights that were loaded, and those that began at random, in words."""
    best_step: int
    """The step whose weights were saved; without eval examples the last one."""
    best_score: float | None
    """The score by which the best weights were chosen; None without eval examples."""
    learning_rate: float
    """The largest learning rate of the schedule."""
    training: Summary
    """Steps, time and speed of the training."""
    noun: str = "text"
    """Noun for an example in messages."""
    layer_shares: tuple[float, ...] = ()
    """Weights of an ELMo's layers in the mean that the classifier reads: first that of the
    characters, then that of each LSTM. Empty for other models."""
    layer_gamma: float | None = None
    """Factor of the mean of an ELMo's layers; None for other models."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; only that of an ELMo has `layer_shares` and `layer_gamma`."""
        facts = super().to_json()
        if self.layer_gamma is None:
            facts.pop("layer_shares", None)
            facts.pop("layer_gamma", None)
        return facts

    def __str__(self) -> str:
        lines = self._lines()
        if self.choice is not None:
            lines = [str(self.choice), *lines]
        if self.evaluation is None:
            return "\n".join(lines)
        return "\n".join([*lines, *self._score_lines(*self._advice())])

    def _repr_mimebundle_(self, **include: Any) -> dict[str, str]:
        """Return the text for IPython, which would show all fields of the dataclass."""
        return {"text/plain": str(self)}

    def _repr_html_(self) -> str | None:
        lines = html_lines(self._lines())
        if self.evaluation is None:
            return lines
        # A task from outside the package may have its own kind of report, which is shown as text.
        if not isinstance(self.evaluation, Report):
            return None
        remarks = [*map(str, self.baselines), *self._advice()]
        return lines + self.evaluation._repr_html_() + html_lines(remarks)

    def _lines(self) -> list[str]:
        """Describe the run, with remarks on it."""
        trained = (
            f"trained on {count_noun(self.num_train, self.noun)} {self.target}: "
            f"{count_noun(self.training.steps, 'step')} in {self.training.elapsed_seconds:.1f} s"
        )
        if self.evaluation is not None:
            trained += f"; best after step {self.best_step:,}"
        lines = [
            trained,
            f"model in {self.out} (with curves.svg and journal.jsonl)",
        ]
        if self.layer_gamma is not None:
            shares = ", ".join(f"{100 * share:.1f}" for share in self.layer_shares)
            lines.append(
                f"layers are mixed by {shares} % (characters first, then each LSTM), times "
                f"{self.layer_gamma:.3f}"
            )
        if self.best_step == 0:
            lines.append(
                "training did not improve the model, so the initial weights were kept; a lower "
                "learning rate may help"
            )
        return lines + notes_on(vars(self))

    def _advice(self) -> list[str]:
        """Recommend another way of training if its baseline scores better than the model."""
        scores = self.evaluation.to_json()
        advice = []
        for baseline in self.baselines:
            # The first score of a baseline is the most important one.
            name, value = next(iter(baseline.scores.items()))
            # No advice if the report lacks this score: 1.0 is the best value that it can have.
            if value <= scores.get(name, 1.0):
                continue
            if baseline.key == "cosine" and self.task == "regress":
                advice.append(
                    "the cosine scores better: for pairs like these, try `bertsmith finetune embed`"
                )
            # `--head auto` has compared this head already, without the eval texts.
            if baseline.key == LINEAR_BASELINE and self.choice is None:
                advice.append(
                    "the linear head scores better here: train with "
                    f"{option('head', 'linear')}, or with {option('head', 'auto')}, which compares "
                    "all heads without the eval texts"
                )
        return advice
