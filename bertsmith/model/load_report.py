"""Report of the weights that a model took from its folder."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.system.counts import count_noun

SHOWN_NAMES = 8
"""Number of names of weights that a message lists at most."""


@dataclass(frozen=True)
class LoadReport:
    """The weights that a model took from a folder, and those that only one of the two has.

    `matched` are the weights that the model took, and `missing` those of the model that the folder
    lacks; they start at random. Both have Hugging Face's names. `unused` are weights of the folder
    that the model lacks, by their stored names. `note` says whether loaded weights were changed
    after loading, and why; it is empty if they were not, and no part of `str(report)`.
    """

    matched: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        parts = [f"Loaded {count_noun(len(self.matched), 'weight')}"]
        if self.missing:
            count = count_noun(len(self.missing), "missing one starts", "missing ones start")
            parts.append(f"{count} at random: {list_weights(self.missing)}")
        if self.unused:
            count = count_noun(len(self.unused), "was", "were")
            parts.append(f"{count} not needed: {list_weights(self.unused)}")
        return "; ".join(parts) + "."


def list_weights(names: Sequence[str]) -> str:
    """Name the first of these weights, and say how many more there are."""
    shown = ", ".join(names[:SHOWN_NAMES])
    rest = len(names) - SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
