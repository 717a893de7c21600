"""The pair tasks of the catalog, whose classes are imported when a run needs them."""

from pkgutil import resolve_name

from bertsmith.model.pretraining_catalog import PAIR_TASKS
from bertsmith.pretraining.pair_task import PairTask


def pair_task_named(name: str) -> PairTask | None:
    """Import and build the pair task of this name; None for "none"."""
    if name == "none":
        return None
    task: type[PairTask] = resolve_name(PAIR_TASKS[name].implementation)
    return task(name)
