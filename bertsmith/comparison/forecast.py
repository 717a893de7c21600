"""The time that the pre-trainings of a comparison will take, before they begin."""

from collections.abc import Sequence

from bertsmith.comparison.recipes import Recipe
from bertsmith.data.shards import Corpus
from bertsmith.pretraining.auto_size import tokens_per_second
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.resolve import resolve_pretraining
from bertsmith.system.counts import count_noun
from bertsmith.training.budget import EVALUATION_LIMIT
from bertsmith.training.machine import computing_on


def pretraining_seconds(recipe: Recipe) -> float:
    """Estimate the seconds of one run by its budget, or by timing a few of its steps."""
    job = recipe.job
    if job.training.minutes is not None:
        return 60 * job.training.minutes
    corpus = Corpus.open(job.corpus)
    with computing_on(job.training) as machine:
        config = resolve_pretraining(job, corpus, machine)
        objective = build_objective(config, corpus)
        speed = tokens_per_second(objective, config.model, machine, config.optim.optimizer)
    step = objective.start_steps + 1  # of full length
    tokens = sum(batch.num_tokens for batch in objective.micro_batches(step))
    assert job.training.steps is not None
    return (1 + EVALUATION_LIMIT) * job.training.steps * tokens / speed


def describe_duration(pending: Sequence[Recipe], num_tasks: int) -> str:
    """Describe how long the runs will take; `pending` has a recipe once for each of its runs."""
    seconds = {
        recipe.name: pretraining_seconds(recipe) for recipe in {r.name: r for r in pending}.values()
    }
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
