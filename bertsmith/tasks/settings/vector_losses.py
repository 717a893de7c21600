"""Catalog of the losses of `finetune embed`, in which each loss of bertsmith has an entry.

The command line reads the entries, so this module imports no torch. A loss of the user's own needs
no entry: `--loss module:function` names it.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from bertsmith.errors import SettingError

Loss = Literal["contrastive", "cosine", "cosent", "angle"]
"""The losses of bertsmith."""


@dataclass(frozen=True, kw_only=True)
class VectorLossEntry:
    """The function of a loss, its help text, and the examples that it needs."""

    implementation: str
    """The function, as "module:function". It takes a `RelatedVectors`, the vectors and scores of a
    group of examples, and returns the loss summed over the group, a scalar tensor."""
    summary: str = ""
    """Sentence for `--help` on what the loss teaches."""
    kind: Literal["pairs", "scored"] | None = None
    """Kind of examples that the loss learns from: pairs that belong together, or pairs with a
    score. None if it can learn from both."""
    compares_rows: bool = True
    """Whether the loss compares the rows (examples) of a group with one another."""


VECTOR_LOSSES: dict[str, VectorLossEntry] = {
    "contrastive": VectorLossEntry(
        implementation="bertsmith.tasks.vector_losses:contrastive_loss",
        summary="a text must be nearer to its own partner than to those of other rows (pairs and "
        "triples; scores are ignored)",
        kind="pairs",
    ),
    "cosine": VectorLossEntry(
        implementation="bertsmith.tasks.vector_losses:cosine_loss",
        summary="the cosine of two texts must be their score",
        kind="scored",
        compares_rows=False,
    ),
    "cosent": VectorLossEntry(
        implementation="bertsmith.tasks.vector_losses:cosent_loss",
        summary="cosines must have the order of the scores",
        kind="scored",
    ),
    "angle": VectorLossEntry(
        implementation="bertsmith.tasks.vector_losses:angle_loss",
        summary="as cosent, with AnglE's similarity in place of the cosine",
        kind="scored",
    ),
}
"""Losses by their name in `--loss`, the names of `Loss`."""

LOSS_HELP = " ".join(
    [
        "Loss.",
        *(f"{name}: {entry.summary}." for name, entry in VECTOR_LOSSES.items()),
        "auto, the default: cosine if the training file has scores, else contrastive.",
        "Or your own as module:function.",
    ]
)
"""The help text of `--loss`."""


def is_own_loss(name: object) -> bool:
    """Return whether a value of `--loss` names a function of the user's, as module:function."""
    return isinstance(name, str) and ":" in name


def loss_entry(name: str) -> VectorLossEntry:
    """Return the entry of a loss; for the user's own loss, an entry that allows all examples."""
    return VectorLossEntry(implementation=name) if is_own_loss(name) else VECTOR_LOSSES[name]


def check_loss(name: str) -> None:
    """Check the form of a value of `--loss`.

    Raises:
        SettingError: the value is neither "auto", nor in the catalog, nor "module:function".
    """
    if name != "auto" and name not in VECTOR_LOSSES and not is_own_loss(name):
        raise SettingError("loss", name, ["auto", *VECTOR_LOSSES, "module:function"])


def loss_name(value: str | Callable[..., Any]) -> str:
    """Convert a loss from a call of Python, which may be a function, to its name.

    Raises:
        SettingError: the function is not found by its name in its module.
    """
    if isinstance(value, str):
        return value
    module, name = getattr(value, "__module__", ""), getattr(value, "__name__", "")
    # Only a function at the top of its module is found there by its name.
    if not name or getattr(sys.modules.get(module), name, None) is not value:
        raise SettingError(
            "loss",
            value,
            "a name, or a function at the top of a module",
            "Other processes import the function by its name, so define it there with def, and "
            "not inside another function. An object with settings, such as a MatryoshkaLoss, has "
            "no name of its own: give 'module:name', a string.",
        )
    return f"{module}:{name}"
