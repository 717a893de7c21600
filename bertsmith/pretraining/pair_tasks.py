"""The tasks on pairs that `--pairs` names."""

from bertsmith.pretraining.classified_pairs import NextSentence, SentenceOrder
from bertsmith.pretraining.contrastive import ContrastivePairs
from bertsmith.pretraining.pair_task import PairTask

PAIR_TASKS: dict[str, PairTask] = {
    task.name: task for task in (NextSentence(), SentenceOrder(), ContrastivePairs())
}


def pair_task_named(name: str) -> PairTask | None:
    """Return the task on pairs of this name; None for "none"."""
    return None if name == "none" else PAIR_TASKS[name]
