"""Report of the weights that a model took from its folder."""

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN_NAMES = 8
"""Number of names of weights that a message lists at most."""


@dataclass(frozen=True)
class LoadReport:
    """The weights that a model took from a folder (`matched`), by Hugging Face's names.

    `missing` are weights of the model that the folder lacks; they start at random. `unused` are
    weights of the folder that the model lacks, by their stored names. `note` says whether loaded
    weights were changed after loading, and why.
    """

    matched: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        parts = [f"Loaded {len(self.matched)} weights"]
        if self.missing:
            parts.append(
                f"{len(self.missing)} missing ones start at random: {list_weights(self.missing)}"
            )
        if self.unused:
            parts.append(f"{len(self.unused)} were not needed: {list_weights(self.unused)}")
        return "; ".join(parts) + "."


def list_weights(names: Sequence[str]) -> str:
    """Name the first of these weights, and say how many more there are."""
    shown = ", ".join(names[:SHOWN_NAMES])
    rest = len(names) - SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
