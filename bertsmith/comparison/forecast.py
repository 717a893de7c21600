"""The time that the pre-trainings of a comparison will take, before they begin."""

from collections.abc import Sequence
from typing import Any

from bertsmith.comparison.recipe import Recipe
from bertsmith.system.counts import count_noun


def describe_duration(pending: Sequence[Recipe[Any]], num_tasks: int) -> str:
    """Describe how long the runs will take; `pending` has a recipe once for each of its runs."""
    seconds: dict[str, float] = {}
    for recipe in pending:
        if recipe.name not in seconds:
            seconds[recipe.name] = recipe.estimate_seconds()
    total = sum(seconds[recipe.name] for recipe in pending)
    more = f", and fine-tuning on {count_noun(num_tasks, 'task')} each" if num_tasks else ""
    runs = count_noun(len(pending), "run")
    return f"{runs} to go: about {format_time(total)} of pre-training here{more}."


def format_time(seconds: float) -> str:
    """Format a rough time.

    >>> format_time(40), format_time(200), format_time(9000)
    ('40 seconds', '3.3 minutes', '2.5 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
