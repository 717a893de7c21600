"""Whether pre-training has trained the attention of [CLS].

Only the prediction of pairs trains the attention of [CLS] in the last layer. If the model learned
nothing about pairs, fine-tuning does better when [CLS] begins as the mean over all tokens.
"""

import math
from collections.abc import Mapping
from typing import Any

from bertsmith.model.head_names import PAIR_HEADS
from bertsmith.model.pretraining_catalog import PAIR_TASKS

WITHOUT_HEAD = ("none", *(name for name in PAIR_TASKS if name not in PAIR_HEADS))
"""Values of `--pairs` that give [CLS] no head, and so do not train its attention."""
GUESSING = math.log(2)
"""Loss (nats) of guessing whether B follows A."""
LEARNED = 0.95 * GUESSING
"""Loss below which [CLS] has learned something about pairs. With tiny models of some minutes, at
0.68 and 0.69 a reset gained 1 to 4 points on SST-2; at 0.52 it gained 0 to 2, but RTE lost 2.
Nothing was measured in between (`benchmarks/results/cls-attention.md`)."""


def reason_to_reset(run: Mapping[str, Any]) -> str:
    """Return why the attention of [CLS] is to be reset after a pre-training; empty if it is not.

    The returned text completes the sentence "This model's pre-training …".

    A run that continued a model is judged only if that model already had a reason, too: the model
    may have learned more about pairs than this run's texts show.

    Args:
        run: the run.json of a model folder.
    """
    config = _table(run, "config")
    held_out = _table(_table(run, "summary"), "held_out")
    was_untaught = config.get("source") == "" or _table(run, "source").get("reason_to_reset")
    if run.get("command") != "pretrain" or not was_untaught:
        return ""
    losses = [held_out.get(f"held_out_{PAIR_TASKS[head].term}_loss") for head in PAIR_HEADS]
    loss = next((loss for loss in losses if isinstance(loss, float)), None)
    if loss is not None and loss >= LEARNED:
        return (
            f"taught [CLS] next to nothing (its loss on pairs is {loss:.3f}, guessing has "
            f"{GUESSING:.3f})"
        )
    pairs = _table(config, "pretraining").get("pairs")
    if pairs in WITHOUT_HEAD:
        return f"did not train [CLS] (pairs {pairs})"
    return ""


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a table of run.json; empty if it is missing or no table."""
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}
