"""The function that trains each head of text classification.

A head is the part that learns from the labels; `Head` (tasks/settings/classify.py) lists them.
"""

from collections.abc import Callable
from typing import Any

from bertsmith.finetuning.best_head import finetune_best_head
from bertsmith.finetuning.head_training import TRAINING_FUNCTIONS
from bertsmith.tasks.settings.finetune import FinetuneSettings


def training_function_for(settings: FinetuneSettings) -> Callable[..., Any]:
    """Return the function that trains the head of these settings.

    All functions take the same arguments as `finetune`, except `begin_series`.
    """
    head = getattr(settings, "head", "fine-tuned")
    return finetune_best_head if head == "auto" else TRAINING_FUNCTIONS[head]
