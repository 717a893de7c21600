"""Saving and loading of a model that stores its head in another form than it has in training.

`Task.as_saved` converts the head. A regression, for example, is trained on standardized numbers and
saved for numbers in the labels' unit.
"""

from pathlib import Path

from bertsmith.finetuning.prepared_run import PreparedRun
from bertsmith.model.bert import BertModel
from bertsmith.model.saving import save_model
from bertsmith.model.vocabulary_subset import VocabularySubset
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors

TRAINED_HEAD = "training_state.head.safetensors"
"""File of a checkpoint with the weights of the head as in training, if `model.safetensors` beside
it has them in another form."""


def save_with_head(
    model: BertModel, subset: VocabularySubset, prepared: PreparedRun, out: Path, folder: Path
) -> None:
    """Save a model with the embeddings of its whole vocabulary to `folder`.

    `folder` is that of a checkpoint, which also stores the head as it is in training, or it is
    `out`, that of the whole run.
    """
    with subset.widened(model), prepared.dataset.task.as_saved(model) as trained_head:
        save_model(model, folder, prepared.tokenizer)
    if trained_head and folder != out:
        write_safetensors(folder / TRAINED_HEAD, trained_head)


def read_trained_head(model: BertModel, checkpoint: Path) -> None:
    """Load the head in training from a checkpoint, if it is in a file of its own there."""
    if (file := checkpoint / TRAINED_HEAD).is_file():
        model.load_state_dict(read_safetensors(file), strict=False)
