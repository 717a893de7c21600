"""Detect problems of a run from its journal and run.json, such as a plateau."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Literal

from bertsmith.metrics.names import score_name
from bertsmith.system.counts import count_noun, percent
from bertsmith.training.journal import is_held_out
from bertsmith.training.objective import CHANCE_OF_TERM

LEARNING_STEPS = 100
"""Steps in which a model learns little more than how frequent words are."""
LEARNED_SHARE = 0.98
"""A loss above this share of the unigram loss is a plateau; random variation is about a hundredth.
"""
MAX_ABOVE_CHANCE = 0.05
"""Accuracies that exceed that of guessing by at most this count as guesses."""
WAIT_FRACTION = 0.1
"""Share of the steps' time spent waiting for batches that is reported."""
CLIPPED_SHARE = 0.95
"""Share of clipped steps that is reported."""
RISE = 4.0
"""Factor by which the gradient norm must rise to be reported."""
WORSE = 1.02
"""Ratio of the last eval loss to the lowest one that is reported as overfitting."""
TOKEN_TERMS = ("mlm", "lm", "forward")
"""Loss terms over the tokens of the text, which token frequencies alone can predict, too."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about a run that the user should know."""

    code: str
    severity: Literal["info", "warn", "error"]
    step: int | None
    evidence: str
    advice: str


def diagnose(entries: Iterable[Mapping[str, Any]], run: Mapping[str, Any]) -> list[Finding]:
    """Find the problems of a run, finished or not, by its journal entries and `run.json`."""
    steps: list[Mapping[str, Any]] = []
    evals: list[Mapping[str, Any]] = []
    for entry in entries:
        (evals if is_held_out(entry) else steps).append(entry)
    return [*_find_in_loss(steps, evals, run), *_find_in_steps(steps, run)] if steps else []


def find_plateau(result: Mapping[str, Any]) -> Finding | None:
    """Return a finding if a language model is on its plateau, by its eval loss or its steps."""
    steps = int(result["steps"])
    losses = (result.get(f"held_out_{term}_loss") for term in TOKEN_TERMS)
    loss = next((loss for loss in losses if loss is not None), None)
    entropy = result.get("held_out_unigram_entropy")
    if loss is None or entropy is None:
        is_on_plateau = steps < LEARNING_STEPS
        evidence = f"so far {count_noun(steps, 'step')}, and no eval loss"
    else:
        is_on_plateau = loss >= LEARNED_SHARE * entropy
        evidence = f"eval loss {loss:.3f}, by token frequency alone {entropy:.3f}"
    advice = "The model is no better than token frequencies yet: train longer."
    return Finding("plateau", "warn", steps, evidence, advice) if is_on_plateau else None


def _find_in_loss(
    steps: Sequence[Mapping[str, Any]], evals: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
) -> Iterator[Finding]:
    last = {**run.get("data", {}), **(evals[-1] if evals else {}), "steps": steps[-1]["step"]}
    if any(f"{term}_loss" in steps[-1] for term in TOKEN_TERMS) and (plateau := find_plateau(last)):
        yield plateau
    for term, chance in CHANCE_OF_TERM.items():
        accuracy = last.get(f"held_out_{term}_accuracy", 1.0)
        if accuracy <= chance + MAX_ABOVE_CHANCE and len(steps) >= LEARNING_STEPS:
            evidence = f"{score_name(term)} is right in {percent(accuracy)} of the eval rows"
            evidence += f"; guessing gives {percent(chance, 0)}"
            yield Finding(f"{term}_at_chance", "info", last["steps"], evidence, "Give more steps.")
    eval_name = next((name for name in last if name.endswith("_loss")), "")
    train_name = eval_name.removeprefix("held_out_")
    step_of_loss = {entry[eval_name]: entry["step"] for entry in evals if eval_name in entry}
    if len(step_of_loss) < 3 or train_name not in steps[-1]:
        return
    lowest = min(step_of_loss)
    best_step = step_of_loss[lowest]
    if last[eval_name] <= WORSE * lowest:
        return
    before = [entry[train_name] for entry in steps if entry["step"] <= best_step]
    after = [entry[train_name] for entry in steps if entry["step"] > best_step]
    if before and fmean(after) < fmean(before[-len(after) :]):
        evidence = f"eval loss {lowest:.3f} at step {best_step:,}, {last[eval_name]:.3f} at the end"
        advice = "The train loss still falls: train only up to that step, or on more text."
        yield Finding("overfitting", "warn", best_step, evidence, advice)


def _find_in_steps(steps: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> Iterator[Finding]:
    if len(steps) < LEARNING_STEPS:
        return
    norms = [entry["gradient_norm"] for entry in steps]
    quarter = len(norms) // 4
    earlier, later = median(norms[quarter : 2 * quarter]), median(norms[-quarter:])
    if later > RISE * earlier:
        evidence = f"the gradient norm rose from {earlier:.3g} to {later:.3g}"
        yield Finding("gradient_rises", "warn", None, evidence, "Try a lower learning rate.")
    limit = run.get("settings", {}).get("optim", {}).get("max_grad_norm", 0.0)
    if fmean(norm > limit > 0 for norm in norms[-2 * quarter :]) >= CLIPPED_SHARE:
        evidence = f"nearly all later steps are clipped to a norm of {limit:g}"
        advice = "Try a larger limit of the gradient norm, or a lower learning rate."
        yield Finding("gradient_clipped", "info", None, evidence, advice)
    waited = run.get("summary", {}).get("data_wait_fraction", 0.0)
    if waited > WAIT_FRACTION:
        evidence = f"the run waited for batches in {100 * waited:.0f} % of the steps' time"
        yield Finding("data_wait", "warn", None, evidence, "Leave a core free for making batches.")
