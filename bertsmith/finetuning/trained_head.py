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

    Args:
        subset: the tokens whose embeddings the model has in training; it keeps the other ones.
        out: the folder of the whole run.
        folder: `out`, or the folder of a checkpoint, which also gets the head as it is in training.
    """
    # In the block, the model has all embeddings again, and its head is in the form to save.
    with subset.widened(model), prepared.dataset.task.as_saved(model) as trained_head:
        save_model(model, folder, prepared.tokenizer)
    if trained_head and folder != out:
        write_safetensors(folder / TRAINED_HEAD, trained_head)


def read_trained_head(model: BertModel, checkpoint: Path) -> None:
    """Load the head in its form in training from a checkpoint, if a file of its own stores it."""
    if (file := checkpoint / TRAINED_HEAD).is_file():
        model.load_state_dict(read_safetensors(file), strict=False)
