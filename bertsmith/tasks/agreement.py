"""Agreement of predictions in bf16 or int8 with those in fp32, by what is compared."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.retrieval import unit_length


class Agreement(NamedTuple):
    """Comparison with predictions in fp32.

    `name` is the key in a JSON report, before `_beside_fp32`; `compared` names what was sampled.
    """

    name: str
    figures: dict[str, float]
    compared: str
    found: str

    def sentence(self, precision: str) -> str:
        return f"{precision} beside fp32 on {self.compared}: {self.found}"


def compare_vectors(
    mine: Sequence[NDArray[np.float32]], exact: Sequence[NDArray[np.float32]]
) -> Agreement:
    """Compute the mean and lowest cosine between vectors `[hidden]` of the same texts."""
    ours, theirs = (unit_length(np.stack(side)) for side in (mine, exact))
    cosines = (ours * theirs).sum(1)
    mean, worst = float(cosines.mean()), float(cosines.min())
    return Agreement(
        "cosine",
        {"mean": mean, "worst": worst, "num_texts": len(cosines)},
        f"{len(cosines)} of these texts",
        f"cosine {mean:.5f} on average, {worst:.5f} at worst",
    )


def compare_numbers(mine: Sequence[float], exact: Sequence[float]) -> Agreement:
    """Compute the mean and the largest difference between numbers of the same texts."""
    differences = [abs(one - other) for one, other in zip(mine, exact, strict=True)]
    mean, worst = float(np.mean(differences)), max(differences)
    return Agreement(
        "numbers",
        {"mean": mean, "worst": worst, "num_texts": len(differences)},
        f"{len(differences)} of these texts",
        f"{mean:.4f} off on average, {worst:.4f} at worst",
    )


def compare_decisions(
    mine: Sequence[object], exact: Sequence[object], answer: str, example: str
) -> Agreement:
    """Count the examples whose decision, such as a `label`, is another in fp32."""
    num_changed = sum(one != other for one, other in zip(mine, exact, strict=True))
    return Agreement(
        f"{answer}s",
        {"num_changed": num_changed, f"num_{example}s": len(mine)},
        f"{len(mine)} of these {example}s",
        f"{num_changed} with another {answer}",
    )


def not_compared(max_tokens: int) -> Agreement:
    """Say that no text was short enough for a second computation."""
    return Agreement(
        "nothing",
        {"num_texts": 0, "max_tokens": max_tokens},
        "none of these texts",
        f"each has more than {max_tokens:,} tokens, which would take long. --precision fp32 "
        "computes in it.",
    )
