"""Resolved settings of training, and the check that a resumed run has the same.

Fields that change no result are marked `FREE`; all others must be the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from bertsmith.config import spelling, to_jsonable
from bertsmith.errors import ConfigError
from bertsmith.system.matrix_products import Precision
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import Budget, EvaluationPlan
from bertsmith.training.optim import OptimSettings


@dataclass(frozen=True)
class RunConfig:
    """Resolved settings of training."""

    budget: Budget
    optim: OptimSettings
    seed: int
    precision: Precision
    num_processes: int
    """Number of a step's micro-batches that are computed at the same time."""
    identity: Mapping[str, Any]
    """Plain JSON that a resumed run must share."""
    evaluations: EvaluationPlan
    eval_every: int | None = None
    """Interval of evaluations in steps; without it, `evaluations.times` of them are spread evenly.
    """
    checkpoint_every: int | None = None
    """Interval of checkpoints in steps; without it, they are written by the clock."""
    keep: int = 2
    """Number of most recent checkpoints to keep; 0 writes none."""
    best: BestSettings | None = None
    """Choice of the weights to save; without it, the last are saved."""
    notes: str = ""
    """Choices made by measuring, for the user."""


def same_fields(config: Any) -> dict[str, Any]:
    """Return the fields that a resumed run must share, as plain JSON."""
    return {
        spelling(field.name): same_fields(value) if is_dataclass(value) else to_jsonable(value)
        for field in fields(config)
        for value in (getattr(config, field.name),)
        if field.metadata.get("resume") != "free"
    }


def drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop entries that are None, in nested tables, too.

    >>> drop_none({"steps": 9, "minutes": None, "best": {"patience": None}})
    {'steps': 9, 'best': {}}
    """
    return {
        name: drop_none(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def check_same(place: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to continue a run under another configuration.

    Raises:
        ConfigError: lists every setting that differs, with both values.
    """
    old, new = dict(flatten(before)), dict(flatten(now))
    differing = [
        CHANGED.get(name, "{name} was {was}, is now {now}").format(
            name=name, was=_shown(old, name), now=_shown(new, name)
        )
        for name in old | new
        if old.get(name) != new.get(name)
    ]
    if differing:
        raise ConfigError(
            f"{place}: cannot be resumed: {'; '.join(differing)}. Give what it began with, or "
            "begin a new run in another --out."
        )


def _shown(values: Mapping[str, Any], name: str) -> str:
    return repr(values[name]) if name in values else "not set"


DIVIDED = "steps are divided otherwise ({name} was {was}, is now {now}): give as many --threads"
CHANGED = {
    "corpus_sha256": "the corpus has changed",
    "train_sha256": "the examples of --train have changed",
    "held_out_sha256": "the examples of --eval have changed",
    "weights_sha256": "the weights of --model have changed",
    "unlabelled_sha256": "the texts of --unlabelled have changed",
    "micro_batch_size": DIVIDED + " as before, or --micro-batch-size {was}",
    "num_parts": DIVIDED + " as before",
    "task_settings.windowing.stride": "--stride has changed",
    "source": "--from was {was}, is now {now}",
}
"""Messages on settings whose values do not tell what to do."""


def flatten(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of nested tables with dotted keys.

    >>> dict(flatten({"model": {"preset": "tiny"}, "seed": 1}))
    {'model.preset': 'tiny', 'seed': 1}
    """
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
