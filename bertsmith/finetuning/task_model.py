"""The model that a fine-tuning begins with: a folder's model with the task's head."""

from typing import Any

from bertsmith.model.bert import BertModel
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.loading import build
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import TaskDataset, named_settings


def build_for_task(
    folder: ModelFolder, settings: FinetuneSettings, dataset: TaskDataset[Any]
) -> BertModel:
    """Build the folder's model with the task's head.

    A stored head is kept if it was trained for exactly the same labels.
    """
    task = dataset.task
    heads = [] if task.head is None else [task.head]
    num_labels = len(task.labels) or None  # None for a task without labels, such as answers
    with drawing_from(settings.seed):
        model = build(folder, heads, num_labels)
        if settings.from_scratch:  # keep the shape alone, with all weights drawn anew
            new_heads = build_heads(model.config, heads, num_labels)
            has_pooler = model.pooler is not None
            new_model = BertModel(model.config, new_heads, pooler=has_pooler)
            model.load_state_dict(new_model.state_dict())
        labels = dict(enumerate(task.labels))
        if model.id2label not in ({}, labels):  # the stored head is for other labels
            model.heads.apply(model.initialize)
        assert model.load_report is not None
        # Weights that the folder lacks, and that are not the encoder's, are those of a new head.
        encoder_prefix = family_named(model.config.model_type).prefix
        lacks_head = any(not name.startswith(encoder_prefix) for name in model.load_report.missing)
        if lacks_head or model.id2label != labels or settings.from_scratch:
            task.begin_head(model, dataset.train)
        else:
            # A folder may have the head in another form than training, such as for numbers in
            # their own unit.
            task.continue_head(model)
    model.id2label = labels
    model.task_settings = named_settings(task)
    return model
