"""Training budgets and their conversion to the length of a run.

Minutes are wall-clock time. Tokens and operations are converted to steps: their mean number per
step is computed from a sample of the run's batches before the run begins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypedDict

import numpy as np

from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.model.config import BertConfig
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.flops import flops_per_token
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.resolve import resolve_unmeasured
from bertsmith.training.objective import Objective

Unit = Literal["minutes", "tokens", "flops", "steps"]
BUDGET_UNITS: tuple[Unit, ...] = ("minutes", "tokens", "flops", "steps")

SAMPLED_STEPS = 64
"""Number of steps of which the cost is computed, to estimate the mean cost of a step."""
MAX_STEPS = 1_000_000_000
"""Largest number of steps of a run; a larger one is a typing error."""


class RunLength(TypedDict):
    """The length of a run, by the names of the settings of training; one of the two is None."""

    minutes: float | None
    steps: int | None


@dataclass(frozen=True)
class ComparisonBudget:
    """An amount of training: minutes, real tokens, floating-point operations or steps."""

    amount: float
    unit: Unit

    def __str__(self) -> str:
        match self.unit:
            case "flops":
                return f"{self.amount:.3g} FLOPs"
            case "minutes":
                return f"{self.amount:g} minutes"
            case _:
                return f"{self.amount:,.0f} {self.unit}"

    def known_length(self) -> RunLength | None:
        """Return the length that the budget itself gives; None if it depends on the job.

        Raises:
            ConfigError: there are too many steps.
        """
        match self.unit:
            case "minutes":
                return {"minutes": self.amount, "steps": None}
            case "steps":
                check_steps(self.amount)
                return {"minutes": None, "steps": round(self.amount)}
            case _:
                return None


def bert_training_length(budget: ComparisonBudget, job: PretrainJob) -> RunLength:
    """Convert a budget to the length of a BERT's run.

    Raises:
        BertsmithError: the job cannot be run.
    """
    # Both are built for every budget, even if the objective is not needed: so a job that cannot be
    # run is an error before the first run.
    config = resolve_unmeasured(job)
    objective = build_objective(config)
    length = budget.known_length()
    if length is not None:
        return length
    steps = steps_for(budget.amount, _cost_of(budget, objective, config.model))
    if job.pretraining.has_open_shares:
        # Settings that are shares of the run, such as of short rows, depend on the number of steps.
        objective = build_objective(
            resolve_unmeasured(job.with_training(steps=steps, minutes=None))
        )
        steps = steps_for(budget.amount, _cost_of(budget, objective, config.model))
    return {"minutes": None, "steps": steps}


def _cost_of(
    budget: ComparisonBudget, objective: Pretraining, config: BertConfig
) -> Callable[[int], float]:
    """Return the function that computes the cost of a step, by its number, in the budget's unit."""
    if budget.unit == "tokens":
        return partial(count_tokens, objective)
    model = objective.new_model(config)
    # The first steps may have shorter rows, and so fewer operations for each token.
    start_steps = objective.start_steps
    full = flops_per_token(objective, model, start_steps + 1)
    short = flops_per_token(objective, model, 1) if start_steps else full

    def count_flops(step: int) -> float:
        per_token = short if step <= start_steps else full
        return per_token * count_tokens(objective, step)

    return count_flops


def budget_of(amounts: dict[Unit, float | None], source: str) -> ComparisonBudget:
    """Build the budget from the one amount that is not None.

    Args:
        source: the file that gives the amounts, for messages; empty for options.

    Raises:
        ConfigError: no amount or several are given, or the amount is not above 0.
    """
    budgets = {unit: amount for unit, amount in amounts.items() if amount is not None}
    if len(budgets) != 1:
        listed = " and ".join(
            f"{unit} = {amount:g}" if source else option(unit, amount)
            for unit, amount in budgets.items()
        )
        location = f"{source}: " if source else ""
        raise ConfigError(
            f"{location}found {listed or 'no budget'}; all recipes have the same budget. Give one "
            f"of {', '.join(map(option, BUDGET_UNITS))}."
        )
    ((unit, amount),) = budgets.items()
    if not 0 < amount < np.inf:
        raise SettingError(unit, amount, "a finite number above 0", source=source)
    if unit == "steps" and not float(amount).is_integer():
        raise SettingError(unit, amount, "a whole number above 0", source=source)
    return ComparisonBudget(amount, unit)


def steps_for(amount: float, cost: Callable[[int], float]) -> int:
    """Estimate the number of steps that together cost about `amount`.

    Args:
        cost: the cost of a step by its number, from 1; it is computed for up to `SAMPLED_STEPS`
            evenly spaced steps.

    >>> steps_for(1000, lambda step: 9 if step <= 50 else 11)
    99
    """
    estimate = amount / cost(1)
    check_steps(estimate)
    last = max(1, round(estimate))
    sampled = np.unique(np.linspace(1, last, min(last, SAMPLED_STEPS)).round().astype(int))
    mean_cost = float(np.mean([cost(step) for step in sampled.tolist()]))
    return max(1, round(amount / mean_cost))


def check_steps(steps: float) -> None:
    """Raise ConfigError for more than `MAX_STEPS` steps."""
    if steps > MAX_STEPS:
        raise ConfigError(
            f"budget: found {steps:.3g} steps; allowed is at most {MAX_STEPS:,}. Give a smaller "
            "budget."
        )


def count_tokens(objective: Objective[Any, Any], step: int) -> float:
    """Count the real tokens, special ones included, of the step with this number, from 1."""
    return sum(batch.num_tokens for batch in objective.micro_batches(step))
