"""The resolved settings that the training loop reads, and their check when a run is resumed.

Resolved settings have a value wherever the user left one open. Fields with the metadata `FREE`
(system/compute.py), such as the interval of checkpoints, may change when a run is resumed; all
others must be as before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

from bertsmith.config import spelling, to_jsonable
from bertsmith.errors import ConfigError, option
from bertsmith.system.matrix_products import Precision
from bertsmith.training.best_weights import BestSettings
from bertsmith.training.budget import Budget, EvaluationPlan
from bertsmith.training.settings import OptimSettings

NO_LONGER_COMPARED = ("num_parts",)
"""Settings that earlier versions stored in run.json, and that may now differ."""
OTHER_EXAMPLES = f"the examples of {option('train')} have changed"
OTHER_SHAPE = "the model has another shape"
OTHER_HEAD = "the task has another head"
OTHER_PLAN = (
    f"evaluations come at other times: give {option('steps')}, {option('minutes')} and "
    f"{option('eval_rows')} as before"
)
CONSEQUENCES = (OTHER_SHAPE, OTHER_HEAD, OTHER_PLAN)
"""Differences that follow from other differences. They are named only if there are no others."""
CHANGE_MESSAGES = {
    "corpus_sha256": "the corpus has changed",
    "tokenizer": "the corpus has another tokenizer",
    "word_list_sha256": f"the words of {option('word_list')} have changed",
    "source": f"{option('from')} was {{was}}, is now {{now}}",
    "source_weights": f"the weights of {option('from')} have changed",
    "system": "another command began it",
    "model": OTHER_SHAPE,
    # No parts of the shape. They have other flags, or none, in other commands.
    **dict.fromkeys(
        (
            "model.hidden_dropout_prob", "model.dropout", "model.dropout_rate", "model.resid_pdrop",
            "model.embd_pdrop", "model.attn_pdrop",
        ),
        "the model's dropout was {was}, is now {now}",
    ),
    "model.attention_probs_dropout_prob": (
        "the model's dropout of attention weights was {was}, is now {now}"
    ),
    "model.initializer_range": (
        "the standard deviation of the model's initial weights was {was}, is now {now}"
    ),
    "model.pooling": "the model's pooling was {was}, is now {now}",
    "evaluations.rows": f"{option('eval_rows')} was {{was}}, is now {{now}}",
    "evaluations": OTHER_PLAN,
    "train_sha256": OTHER_EXAMPLES,
    "held_out_sha256": f"the examples of {option('eval')} have changed",
    "weights_sha256": f"the weights of {option('model')} have changed",
    "unlabelled_sha256": f"the texts of {option('unlabelled')} have changed",
    "teaching.teacher": f"the model of {option('teacher')} has changed",
    # Only versions that drew other masks stored this among the settings that must be as before.
    "micro_batch_size": "an earlier version of bertsmith began it, which drew other masks",
    # In a contrastive loss, the texts of these rows are each other's negatives.
    "compared_rows": (
        "the rows of a micro-batch, which are compared, were {was}, and now are {now}: give "
        f"{option('micro_batch_size')} {{was}}, or leave it out"
    ),
    "best.metric": f"{option('metric')} was {{was}}, is now {{now}}",
    # Only without a head may the weights before training be the best (finetuning/resolve.py).
    "best.from_start": OTHER_HEAD,
    "task": "the task was {was}, is now {now}",
    "task_settings.labels": f"the labels of {option('train')} have changed",
    "task_settings.loss.weights": (
        f"{option('class_weights')} was {{was}}, is now {{now}} (weights by label)"
    ),
    "task_settings.activation": f"the model of {option('model')} has another activation",
    "task_settings.teacher_activation": f"the model of {option('teacher')} has another activation",
    "task_settings.trained": f"the columns of {option('train')} have changed",
    "task_settings.folder": f"the settings of the folder of {option('model')} have changed",
    "task_settings.windowing.stride": f"{option('stride')} has changed",
    **{
        f"task_settings.{name}": OTHER_EXAMPLES
        for name in (
            "may_abstain", "threshold", "language", "pairs", "score_range", "note",
            "mean", "deviation", "label_kind",
        )
    },
}  # fmt: skip
"""Messages about settings that differ, where the name of a flag and its values would not say what
to do. The key of a nested table, such as "evaluations", stands for all of its entries."""
DISTILLATION_MESSAGES = {
    "source": (
        "the student began with {was}, and would now begin with {now}: give "
        f"{option('teacher')}, {option('student')} and {option('num_layers')} as before"
    ),
    "source_weights": CHANGE_MESSAGES["teaching.teacher"],
}
"""Messages for pre-training with a teacher, in place of those in `CHANGE_MESSAGES`."""
TRANSLATION_MESSAGES = {"source": f"{option('model')} was {{was}}, is now {{now}}"}
"""Messages for `finetune translate`, in place of those in `CHANGE_MESSAGES`."""


class RunConfig(Protocol):
    """The fields of a resolved configuration, a frozen dataclass, that the training loop reads."""

    @property
    def budget(self) -> Budget:
        """The length of the run. Each call returns a new object, since the loop changes it."""

    @property
    def optim(self) -> OptimSettings: ...
    @property
    def seed(self) -> int: ...
    @property
    def precision(self) -> Precision: ...

    @property
    def num_shares(self) -> int:
        """Number of shares of a step, on all ranks (machines or GPUs) together.

        A share is some of a step's micro-batches, which one worker process computes; see
        `Machine.num_shares`.
        """

    @property
    def evaluations(self) -> EvaluationPlan: ...

    @property
    def eval_every(self) -> int | None:
        """Interval of evaluations in steps; if None, `evaluations.times` are spread evenly."""

    @property
    def checkpoint_every(self) -> int | None:
        """Interval of checkpoints in steps; if None, they are written by the clock."""

    @property
    def keep(self) -> int:
        """Number of most recent checkpoints to keep; 0 writes none."""

    @property
    def best(self) -> BestSettings | None:
        """Settings for choosing the best weights; if None, the last weights are saved."""

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the user on choices made by measuring."""


def build_identity(config: RunConfig, objective: Mapping[str, Any]) -> dict[str, Any]:
    """Return as plain JSON what must not change when a run is resumed.

    Args:
        config: the resolved settings; fields that are `FREE` are left out.
        objective: facts about the data, from `Objective.identity`.
    """
    return drop_none({**same_fields(config), **objective})


def same_fields(config: Any) -> dict[str, Any]:
    """Return as plain JSON the fields of a dataclass that are not `FREE`, with nested ones."""
    values = {}
    for field in fields(config):
        if field.metadata.get("resume") == "free":
            continue
        value = getattr(config, field.name)
        is_table = is_dataclass(value)
        # `spelling` drops the "_" of names such as `from_`.
        values[spelling(field.name)] = same_fields(value) if is_table else to_jsonable(value)
    return values


def drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop entries that are None, also in nested tables.

    A setting that a run of an earlier version does not have is then equal to one that is None.

    >>> drop_none({"steps": 9, "minutes": None, "best": {"patience": None}})
    {'steps': 9, 'best': {}}
    """
    return {
        name: drop_none(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def check_same(directory: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to continue a run under another configuration.

    Args:
        directory: the folder of the run.
        before: the configuration in its run.json.
        now: that of the command that resumes it.

    Raises:
        ConfigError: settings or data differ. The message lists them, except for those that follow
            from others.
    """
    old = {name: value for name, value in flatten(before) if name not in NO_LONGER_COMPARED}
    new = dict(flatten(now))
    differing = [name for name in old | new if old.get(name) != new.get(name)]
    sentences = [describe_change(name, old, new) for name in differing]
    causes = [sentence for sentence in sentences if sentence not in CONSEQUENCES]
    if differing:
        raise ConfigError(
            f"{directory}: cannot be resumed: {'; '.join(dict.fromkeys(causes or sentences))}. "
            f"Use the settings and data that it began with, or begin a new run in another "
            f"{option('out')}."
        )


def describe_change(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe a setting of run.json that differs, by its flag or its text in `CHANGE_MESSAGES`.

    >>> from bertsmith.errors import as_flags
    >>> as_flags(describe_change("optim.weight_decay", {"optim.weight_decay": 0.1}, {}))
    '--weight-decay was 0.1, is now not set'
    """
    messages = CHANGE_MESSAGES
    if "teaching.teacher" in now:
        messages = CHANGE_MESSAGES | DISTILLATION_MESSAGES
    elif now.get("system") == "translate":
        messages = CHANGE_MESSAGES | TRANSLATION_MESSAGES
    # "a.b.c", then the tables "a.b" and "a" that it is in
    keys = [name.rsplit(".", count)[0] for count in range(name.count(".") + 1)]
    key = next((key for key in keys if key in messages), None)
    template = f"{option(name)} was {{was}}, is now {{now}}" if key is None else messages[key]
    return template.format(was=_show_value(before, name), now=_show_value(now, name))


def _show_value(values: Mapping[str, Any], name: str) -> str:
    return repr(values[name]) if name in values else "not set"


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
