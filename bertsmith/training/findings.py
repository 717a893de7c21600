"""Detect problems of a run from its journal and run.json, such as a plateau or overfitting.

Each problem becomes a `Finding`: what was measured, and advice. On the *plateau* at the start of
pre-training, a model predicts tokens by their frequencies alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Literal

from bertsmith.metrics.names import score_name
from bertsmith.system.counts import count_noun, percent
from bertsmith.training.journal import is_held_out
from bertsmith.training.objective import chances_of_terms

LEARNING_STEPS = 100
"""Number of steps in which a model learns little more than how frequent words are. A run with fewer
is not examined by its steps."""
LEARNED_SHARE = 0.98
"""A run is on the plateau if its eval loss is at least this share of the loss by token frequencies
alone. Random variation of a loss is about a hundredth."""
MAX_ABOVE_CHANCE = 0.05
"""An accuracy at most this much above the accuracy of guessing counts as guessing."""
WAIT_FRACTION = 0.1
"""If a larger share of the steps' time was spent waiting for batches, it is reported."""
CLIPPED_SHARE = 0.95
"""If at least this share of the second half of the steps was clipped, it is reported."""
GRADIENT_RISE = 4.0
"""The gradient norm is reported if its median of the last quarter of the steps is larger than that
of the second quarter by more than this factor."""
OVERFITTING_RATIO = 1.02
"""If the last eval loss is more than this many times the lowest one, it is reported."""
TOKEN_TERMS = ("mlm", "lm", "forward")
"""Losses of language models: masked tokens, next tokens, and next tokens of an ELMo. Token
frequencies alone can predict these tokens, too."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about a run that the user should know, with advice."""

    code: str
    """Name of the fact for programs, such as "plateau"."""
    severity: Literal["info", "warn", "error"]
    step: int | None
    """The step at which it was seen; None if it is about many steps."""
    evidence: str
    """Measured values, as the beginning of a sentence."""
    advice: str
    """Advice for the user, as a sentence."""


def diagnose(entries: Iterable[Mapping[str, Any]], run: Mapping[str, Any]) -> list[Finding]:
    """Find the problems of a run, finished or not, by its journal entries and `run.json`."""
    steps: list[Mapping[str, Any]] = []
    evals: list[Mapping[str, Any]] = []
    for entry in entries:
        (evals if is_held_out(entry) else steps).append(entry)
    return [*_find_in_loss(steps, evals, run), *_find_in_steps(steps, run)] if steps else []


def find_plateau(result: Mapping[str, Any]) -> Finding | None:
    """Return a finding if a language model is on its plateau, by its eval loss or its steps.

    Args:
        result: the number of "steps"; if known, the last eval's losses by journal name, and
            "held_out_unigram_entropy", the loss by token frequencies alone. "source" or "made_of"
            is set if the run began with a trained model, which was past its plateau before.
    """
    steps = int(result["steps"])
    losses = (result.get(f"held_out_{term}_loss") for term in TOKEN_TERMS)
    loss = next((loss for loss in losses if loss is not None), None)
    entropy = result.get("held_out_unigram_entropy")
    if loss is None or entropy is None:
        began_trained = bool(result.get("source") or result.get("made_of"))
        is_on_plateau = steps < LEARNING_STEPS and not began_trained
        evidence = f"so far {count_noun(steps, 'step')}, and no eval loss"
    else:
        is_on_plateau = loss >= LEARNED_SHARE * entropy
        evidence = f"eval loss {loss:.3f}, by token frequency alone {entropy:.3f}"
    advice = "The model is no better than token frequencies yet: train longer."
    return Finding("plateau", "warn", steps, evidence, advice) if is_on_plateau else None


def _find_in_loss(
    steps: Sequence[Mapping[str, Any]], evals: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
) -> Iterator[Finding]:
    """Look for a plateau, for accuracies of guessing, and for overfitting."""
    # The last eval's metrics, and facts about the data, such as held_out_unigram_entropy.
    last = {**run.get("data", {}), **(evals[-1] if evals else {}), "steps": steps[-1]["step"]}
    if any(f"{term}_loss" in steps[-1] for term in TOKEN_TERMS):
        plateau = find_plateau({**last, "source": run.get("source")})
        if plateau is not None:
            yield plateau
    for term, chance in chances_of_terms().items():
        accuracy = last.get(f"held_out_{term}_accuracy", 1.0)  # no accuracy: nothing to report
        if accuracy <= chance + MAX_ABOVE_CHANCE and len(steps) >= LEARNING_STEPS:
            evidence = f"{score_name(term)} is right in {percent(accuracy)} of the eval rows"
            evidence += f"; guessing gives {percent(chance, 0)}"
            yield Finding(f"{term}_at_chance", "info", last["steps"], evidence, "Give more steps.")
    # The first loss in the entry of an eval is the total loss or, without one, its first term.
    eval_name = next((name for name in last if name.endswith("_loss")), "")
    train_name = eval_name.removeprefix("held_out_")
    # If several evals have the same loss, the step of the last of them is kept.
    step_of_loss = {entry[eval_name]: entry["step"] for entry in evals if eval_name in entry}
    if len(step_of_loss) < 3 or train_name not in steps[-1]:
        return
    lowest = min(step_of_loss)
    best_step = step_of_loss[lowest]
    if last[eval_name] <= OVERFITTING_RATIO * lowest:
        return
    # Overfitting: since the best eval, the train loss fell further, while the eval loss rose.
    before = [entry[train_name] for entry in steps if entry["step"] <= best_step]
    after = [entry[train_name] for entry in steps if entry["step"] > best_step]
    if before and after and fmean(after) < fmean(before[-len(after) :]):
        evidence = f"eval loss {lowest:.3f} at step {best_step:,}, {last[eval_name]:.3f} at the end"
        advice = "The train loss still falls: train only up to that step, or on more text."
        yield Finding("overfitting", "warn", best_step, evidence, advice)


def _find_in_steps(steps: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> Iterator[Finding]:
    """Look for rising gradients, for steps that are nearly all clipped, and for slow batches."""
    if len(steps) < LEARNING_STEPS:
        return
    norms = [entry["gradient_norm"] for entry in steps]
    # The first quarter is left out: norms are large when training begins.
    quarter = len(norms) // 4
    earlier, later = median(norms[quarter : 2 * quarter]), median(norms[-quarter:])
    if later > GRADIENT_RISE * earlier:
        evidence = f"the gradient norm rose from {earlier:.3g} to {later:.3g}"
        yield Finding("gradient_rises", "warn", None, evidence, "Try a lower learning rate.")
    limit = run.get("settings", {}).get("optim", {}).get("max_grad_norm", 0.0)
    is_clipped = [norm > limit > 0 for norm in norms[-2 * quarter :]]
    if fmean(is_clipped) >= CLIPPED_SHARE:
        evidence = f"nearly all later steps are clipped to a norm of {limit:g}"
        advice = "Try a larger limit of the gradient norm, or a lower learning rate."
        yield Finding("gradient_clipped", "info", None, evidence, advice)
    waited = run.get("summary", {}).get("data_wait_fraction", 0.0)
    if waited > WAIT_FRACTION:
        evidence = f"the run waited for batches in {100 * waited:.0f} % of the steps' time"
        yield Finding("data_wait", "warn", None, evidence, "Leave a core free for making batches.")
