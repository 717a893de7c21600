"""Decide from the run.json of a pre-training whether it has trained the attention of [CLS].

Only a head that reads [CLS], such as the head of next sentence prediction, trains the attention of
[CLS] in the last layer. If the model learned nothing about pairs, fine-tuning does better when the
last layer's queries are reset to zero, so that [CLS] begins as the mean over all tokens.
"""

import math
from collections.abc import Mapping
from typing import Any

from bertsmith.model.pretraining_catalog import PAIR_TASKS

GUESSING = math.log(2)
"""Loss (nats) of guessing one of two labels, such as whether segment B follows segment A."""
LEARNED = 0.95 * GUESSING
"""Loss (nats) below which [CLS] has learned something about pairs. With tiny models that were
trained for some minutes, a reset gained 1 to 4 points on SST-2 if the loss was 0.68 or 0.69. With a
loss of 0.52 it gained 0 to 2, but RTE lost 2. Nothing was measured in between
(`benchmarks/results/cls-attention.md`)."""


def reason_to_reset(run: Mapping[str, Any]) -> str:
    """Return why the attention of [CLS] is to be reset after a pre-training; empty if it is not.

    The returned text completes the sentence "This model's pre-training …". A run may have continued
    another model, which may have learned more about pairs than this run's texts show. Then there is
    only a reason if there was one for that model, too.

    Args:
        run: the run.json of a model folder.
    """
    config = _table(run, "config")
    held_out = _table(_table(run, "summary"), "held_out")
    is_new_model = config.get("source") == ""
    # A run that continued a model has noted the reason to reset that model, if there was one.
    began_untaught = is_new_model or _table(run, "source").get("reason_to_reset")
    if run.get("command") != "pretrain" or not began_untaught:
        return ""
    losses = [
        held_out.get(f"held_out_{task.term}_loss") for task in PAIR_TASKS.values() if task.has_head
    ]
    loss = next((loss for loss in losses if isinstance(loss, float)), None)
    if loss is not None and loss >= LEARNED:
        return (
            f"taught [CLS] next to nothing (its loss on pairs is {loss:.3f}, guessing has "
            f"{GUESSING:.3f})"
        )
    pairs = _table(config, "pretraining").get("pairs")
    # Only a head reads [CLS]. A pair task of a module that is not imported is unknown.
    if pairs == "none" or (pairs in PAIR_TASKS and not PAIR_TASKS[pairs].has_head):
        return f"did not train [CLS] (pairs {pairs})"
    return ""


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a table of run.json; empty if it is missing or no table."""
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}
