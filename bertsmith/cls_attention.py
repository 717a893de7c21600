"""What [CLS] looks at as fine-tuning begins: what pre-training taught it, or all tokens alike.

`auto` decides by the run that pre-trained the model: it tells whether anything was learnt of pairs
of segments, the only task from which [CLS] learns what to read.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertsmith.errors import ConfigError
from bertsmith.model.bert import TOKEN_HEADS, BertModel
from bertsmith.model.query_reset import has_own_queries, reset_queries
from bertsmith.tasks.pretraining import PAIR_TERMS
from bertsmith.tasks.settings import ClsAttention

GUESSING = math.log(2)
"""The loss (nats) of guessing whether B follows A."""
LEARNT = 0.95 * GUESSING
"""Below it, [CLS] has learnt something of pairs. With tiny models of some minutes, at 0.68 and 0.69
a reset gained 1 to 4 points on SST-2, at 0.52 none, and RTE lost 3."""


def begin_attention(
    model: BertModel, directory: Path, head: str | None, wanted: ClsAttention
) -> None:
    """Reset the last layer's queries where that is wanted, and say so in `model.load_report.note`.

    Args:
        model: loaded from `directory`, with the head `head` of a task.
        directory: the model's folder.
        head: what reads the model; None for the task that compares vectors.
        wanted: as `FinetuneSettings.cls_attention`.

    Raises:
        ConfigError: a reset is asked for, and nothing reads [CLS] or layers share their attention.
    """
    is_read = head is not None and head not in TOKEN_HEADS and model.config.pooling != "mean"
    if wanted == "reset" and not is_read:
        raise ConfigError(
            "--cls-attention: found reset; this task, or this model's pooling, does not read [CLS]."
            " Leave it out."
        )
    reason = "as asked for" if wanted == "reset" else ""
    if wanted == "auto" and is_read and has_own_queries(model):
        reason = reason_to_reset(directory)
    if not reason:
        return
    reset_queries(model)
    assert model.load_report is not None
    note = f"[CLS] began by looking at all tokens alike (queries at zero): {reason}"
    model.load_report = replace(model.load_report, note=note)


def reason_to_reset(directory: Path) -> str:
    """Why the folder's [CLS] knows nothing to look for, in words; empty if it may."""
    run = run_of(directory)
    held_out = mapping(mapping(run, "summary"), "held_out")
    if run.get("command") != "pretrain" or not held_out:
        return ""
    losses = [held_out.get(f"held_out_{term}_loss") for term in PAIR_TERMS.values()]
    loss = next((loss for loss in losses if isinstance(loss, float)), None)
    if loss is not None and loss >= LEARNT:
        return (
            f"pre-training had not taught it where to look (loss on pairs {loss:.3f}, guessing has "
            f"{GUESSING:.3f}); --cls-attention keep leaves it"
        )
    if loss is None and mapping(run, "settings").get("from", directory) is None:
        return (
            "pre-training, which began at random, asked nothing of it; --cls-attention keep leaves "
            "it"
        )
    return ""


def run_of(directory: Path) -> Mapping[str, Any]:
    """What a folder tells of the run that made it; nothing where none is told."""
    try:
        run = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # a model needs no run, and others write files
        return {}
    return run if isinstance(run, Mapping) else {}


def mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The mapping of this name; an empty one where there is none."""
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}
