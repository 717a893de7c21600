"""Attention of [CLS] at the start of fine-tuning: as pre-trained, or uniform over all tokens.

`auto` decides by the pre-training run: its loss shows whether anything was learned about pairs of
segments, the only task that trains the attention of [CLS].
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bertsmith.errors import ConfigError
from bertsmith.model.bert import TOKEN_HEADS, BertModel
from bertsmith.model.heads import PAIR_HEADS
from bertsmith.model.model_folder import ModelFolder
from bertsmith.model.reinitialize import has_own_queries, reset_queries
from bertsmith.pretraining.objective import PAIR_TERMS
from bertsmith.tasks.settings import FinetuneSettings

GUESSING = math.log(2)
"""Loss (nats) of guessing whether B follows A."""
LEARNT = 0.95 * GUESSING
"""Loss below which [CLS] has learned something about pairs. With tiny models of some minutes, at
0.68 and 0.69 a reset gained 1 to 4 points on SST-2; at 0.52 it gained 0 to 2, but RTE lost 2.
Nothing was measured in between (`benchmarks/results/own-texts-imdb.md`)."""


def begin_attention(
    model: BertModel, folder: ModelFolder, settings: FinetuneSettings, head: str | None
) -> None:
    """Reset the last layer's queries to zero if the settings say so.

    A reset is noted in `model.load_report.note`.

    Args:
        model: that of the folder, with the head `head` of a task.
        settings: those of the fine-tuning.
        head: the head that reads the model; None for the task that compares vectors.

    Raises:
        ConfigError: a reset is asked for, and no head reads [CLS] or layers share their attention.
    """
    is_read = head is not None and head not in TOKEN_HEADS and model.config.pooling != "mean"
    reason = ""
    if settings.cls_attention == "reset":
        if not is_read:
            raise ConfigError(
                "--cls-attention: found reset; allowed are auto and keep, as no head of this task "
                "and model judges a text by [CLS]. Leave it out."
            )
        reason = "as asked for"
    elif settings.cls_attention == "auto" and is_read and can_learn(model, settings):
        reason = reason_to_reset(folder.run)
    if not reason:
        return
    reset_queries(model)
    assert model.load_report is not None
    note = (
        f"Reset last-layer queries to zero: [CLS] starts as the mean over tokens. Reason: {reason}"
    )
    model.load_report = replace(model.load_report, note=note)


def can_learn(model: BertModel, settings: FinetuneSettings) -> bool:
    """Return whether the last layer has trainable, pre-trained queries of its own."""
    is_frozen = settings.freeze_layers >= model.config.num_layers
    return has_own_queries(model) and not (is_frozen or settings.from_scratch)


def reason_to_reset(run: Mapping[str, Any]) -> str:
    """Return the reason for a reset after a pre-training, in words; empty if none.

    Only runs from random weights are judged: an earlier model may have learned more than the run's
    own texts show.
    """
    config, held_out = mapping(run, "config"), mapping(mapping(run, "summary"), "held_out")
    if run.get("command") != "pretrain" or config.get("source") != "":
        return ""
    losses = [held_out.get(f"held_out_{PAIR_TERMS[pairs]}_loss") for pairs in PAIR_HEADS]
    loss = next((loss for loss in losses if isinstance(loss, float)), None)
    if loss is not None and loss >= LEARNT:
        return (
            f"pre-training had not taught it where to look (loss on pairs {loss:.3f}, guessing has "
            f"{GUESSING:.3f}); --cls-attention keep would leave it as it was"
        )
    pairs = mapping(config, "pretraining").get("pairs")
    if pairs in ("none", "contrastive"):
        return (
            f"--pairs {pairs} does not train [CLS]; --cls-attention keep would leave it as it was"
        )
    return ""


def mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping under a name; empty if there is none."""
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}
