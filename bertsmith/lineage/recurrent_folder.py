"""Loading and saving an LSTM or GRU as a folder of our own form; transformers has no such model.

The `FolderMap` describes how config.json and the names of weights in the folder correspond to our
model; here they are those of the model itself.
"""

from pathlib import Path

from bertsmith.lineage.recurrent import RecurrentConfig, RecurrentLanguageModel
from bertsmith.lineage.system_folder import FolderMap, load_system, save_system
from bertsmith.tokenization.tokenizer import Tokenizer

RECURRENT_FOLDER = FolderMap(
    noun="a recurrent language model",
    architecture="RecurrentLanguageModel",
    config=RecurrentConfig,
    build=RecurrentLanguageModel,
    fixed={"model_type": "recurrent"},
    names_in_folder=lambda name: (name,),
    clean_weights=lambda directory, tensors: tensors,
    advice="Load a model that 'bertsmith pretrain lstm' trained.",
)


def load_recurrent(path: str | Path) -> RecurrentLanguageModel:
    """Load a recurrent language model: in fp32, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: there is no such folder, or it is incomplete, damaged, or of another model.
    """
    return load_system(RECURRENT_FOLDER, path)


def save_recurrent(
    model: RecurrentLanguageModel, directory: str | Path, tokenizer: Tokenizer | None = None
) -> None:
    """Write a folder; weights have torch's names and are in fp32.

    Each file is replaced whole or not at all.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
    """
    save_system(RECURRENT_FOLDER, model, Path(directory), tokenizer)
