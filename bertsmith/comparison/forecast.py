"""Forecast of the time that the pre-training runs of a comparison will take."""

from collections.abc import Sequence
from typing import Any

import torch

from bertsmith.comparison.recipe import Recipe
from bertsmith.system.counts import count_noun


def describe_duration(pending: Sequence[Recipe[Any]], num_tasks: int) -> str:
    """Describe how long the runs will take.

    Args:
        pending: the recipe of each run that is not complete.
        num_tasks: the number of tasks that each run is fine-tuned on.
    """
    runs = count_noun(len(pending), "run")
    seconds: dict[str, float] = {}
    for recipe in pending:
        if recipe.name not in seconds:
            try:
                seconds[recipe.name] = recipe.estimate_seconds()
            except (MemoryError, torch.OutOfMemoryError):
                # This recipe's runs will fail; those of the others need not.
                return f"{runs} to go; too little memory to time '{recipe.name}'."
    total = sum(seconds[recipe.name] for recipe in pending)
    tasks = f", and fine-tuning on {count_noun(num_tasks, 'task')} each" if num_tasks else ""
    return f"{runs} to go: about {format_time(total)} of pre-training here{tasks}."


def format_time(seconds: float) -> str:
    """Format a rough time.

    >>> format_time(1.2), format_time(200), format_time(9000)
    ('1 second', '3.3 minutes', '2.5 hours')
    """
    if seconds < 90:
        return count_noun(round(seconds), "second")
    return f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
