"""The attention of [CLS] at the start of fine-tuning: as pre-trained, or uniform over all tokens.

The attention is uniform if the queries of the last layer are zero: all attention scores are then
equal. With `--cls-attention auto`, the queries are reset to zero if the run.json of the
pre-training says that [CLS] learned next to nothing (pretraining/cls_attention.py).
"""

from dataclasses import replace

from bertsmith.errors import ConfigError, option
from bertsmith.model.bert import TOKEN_HEADS, BertModel
from bertsmith.model.model_folder import ModelFolder
from bertsmith.model.reinitialize import has_own_queries, reset_queries
from bertsmith.pretraining.cls_attention import reason_to_reset
from bertsmith.tasks.settings.finetune import ClsAttention, FinetuneSettings
from bertsmith.training.run_folder import CONFIG, RunFolder


def reset_cls_queries(
    model: BertModel, folder: ModelFolder, settings: FinetuneSettings, head: str | None
) -> ClsAttention:
    """Reset the last layer's queries to zero if the settings ask for it, or `auto` decides so.

    Returns "reset" or "keep". After a reset, `model.load_report.note` tells the reason.

    Args:
        model: the model of the folder, with the head `head` of a task.
        head: the head of the task; None for the task that compares vectors.

    Raises:
        ConfigError: the settings ask for a reset, but no head reads [CLS], or layers share their
            attention.
    """
    # Whether the head reads [CLS] alone, and not all tokens or their mean.
    is_read = head is not None and head not in TOKEN_HEADS and model.config.pooling == "first_token"
    note = ""  # stays empty if nothing is reset
    if settings.cls_attention == "reset":
        if not is_read:
            raise ConfigError(
                f"{option('cls_attention')}: found reset; allowed are auto and keep, since no head "
                "of this task and model reads [CLS]. Leave it out."
            )
        note = f"The attention of [CLS] was reset, as set by {option('cls_attention', 'reset')}."
    elif settings.cls_attention == "auto" and settings.resume:
        # A resumed run keeps the decision of its beginning.
        at_beginning = RunFolder(settings.out).read_run()[CONFIG]["cls_attention"]
        if at_beginning == "reset":
            note = "The attention of [CLS] was reset when the run began."
    elif (
        settings.cls_attention == "auto"
        and is_read
        and can_learn(model, settings)
        and (reason := reason_to_reset(folder.run))  # the folder's run.json
    ):
        note = (
            f"This model's pre-training {reason}, so its attention was reset "
            f"({option('cls_attention', 'keep')} turns that off)."
        )
    if not note:
        return "keep"
    reset_queries(model)
    assert model.load_report is not None
    model.load_report = replace(model.load_report, note=note)
    return "reset"


def can_learn(model: BertModel, settings: FinetuneSettings) -> bool:
    """Return whether the last layer has trainable, pre-trained queries of its own."""
    is_frozen = settings.freeze_layers >= model.config.num_layers
    return has_own_queries(model) and not (is_frozen or settings.from_scratch)
