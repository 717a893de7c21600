"""Report of the weights that a model took from its folder."""

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN_NAMES = 8


@dataclass(frozen=True)
class LoadReport:
    """Which weights of a folder found their place, by Hugging Face's names.

    `missing` are weights that the model has and the folder has not; they start at random.
    `unused` are weights that the folder has and the model has not, by their stored names.
    `note` says whether loaded weights were changed after loading, and why.
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
