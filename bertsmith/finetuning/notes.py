"""Notes on a fine-tuning's start, examples and scores, which its printed result shows."""

from collections.abc import Mapping
from typing import Any

from bertsmith.system.counts import line_with_count

NOTES = {
    "num_train_windowed": (
        "training text was longer than the model reads and was read in windows",
        "training texts were longer than the model reads and were read in windows",
    ),
    "num_train_truncated": (
        "training text was longer than the model, or a step, can hold; part of it was left out",
        "training texts were longer than the model, or a step, can hold; part of each was left out",
    ),
    "num_train_skipped": (
        "training row without text or label was skipped",
        "training rows without text or label were skipped",
    ),
    "num_overlap": (
        "of the eval texts is also in the training file, so these scores may be too high",
        "of the eval texts are also in the training file, so these scores may be too high",
    ),
}
"""Notes on the counts in fields of `FineTuned`, in singular and plural; the count goes before."""

CHOSEN_BY_SCORES = "the best weights were chosen by these scores, so they are slightly optimistic"
NOT_SCORED = (
    "no example was set aside, so nothing was scored, and the weights of the last step were kept"
)


def notes_on(result: Mapping[str, Any]) -> list[str]:
    """List notes on a run's start, examples and scores, from the fields of `FineTuned`.

    The last note says by which scores the weights were chosen. If the field `evaluation` is None,
    it says that nothing was scored.

    Args:
        result: the fields of `FineTuned`, or the totals of several runs, which have the field
            `evaluation` only if nothing was scored.
    """
    notes = notes_on_examples(result)
    if result["start_note"]:
        notes.insert(0, result["start_note"])
    is_unscored = "evaluation" in result and result["evaluation"] is None
    notes.append(NOT_SCORED if is_unscored else CHOSEN_BY_SCORES)
    return notes


def notes_on_examples(result: Mapping[str, Any]) -> list[str]:
    """List notes on a run's examples, from the fields of its result that `NOTES` names."""
    notes = [line for name, note in NOTES.items() for line in line_with_count(result[name], *note)]
    return notes + [f"of the training data, {note}" for note in result["notes"]]
