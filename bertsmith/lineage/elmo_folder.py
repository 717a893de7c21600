"""Loading and saving an ELMo as a folder of our own form; transformers has no such model.

The `FolderMap` describes how config.json and the names of weights in the folder correspond to our
model; here they are those of the model itself.
"""

from pathlib import Path

from bertsmith.errors import CheckpointError
from bertsmith.lineage.elmo import Elmo, ElmoConfig
from bertsmith.lineage.system_folder import FolderMap, load_system, save_system
from bertsmith.model.hub import find_checkpoint
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer

ELMO_FOLDER = FolderMap(
    noun="an ELMo",
    architecture="Elmo",
    config=ElmoConfig,
    build=Elmo,
    fixed={"model_type": "elmo"},
    names_in_folder=lambda name: (name,),
    clean_weights=lambda directory, tensors: tensors,
    advice="Load a model that 'bertsmith pretrain elmo' trained.",
)


def load_elmo(path: str | Path) -> Elmo:
    """Load an ELMo with the characters of its pieces: in fp32, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: there is no such folder, or it is incomplete, damaged, or of another model.
    """
    directory = find_checkpoint(path)
    model = load_system(ELMO_FOLDER, directory)
    tokenizer = load_tokenizer(directory)
    _check_vocabulary(directory, model, tokenizer, "Use the tokenizer saved with the checkpoint.")
    model.set_characters(tokenizer)
    return model


def save_elmo(model: Elmo, directory: str | Path, tokenizer: Tokenizer) -> None:
    """Write a folder; weights have torch's names and are in fp32.

    The folder needs the tokenizer, from which the characters of the pieces come. Each file is
    replaced whole or not at all.

    Raises:
        CheckpointError: the tokenizer has more or fewer tokens than the model predicts.
    """
    advice = "Save the tokenizer that the model was trained with."
    _check_vocabulary(Path(directory), model, tokenizer, advice)
    save_system(ELMO_FOLDER, model, Path(directory), tokenizer)


def _check_vocabulary(directory: Path, model: Elmo, tokenizer: Tokenizer, advice: str) -> None:
    """Check that the model predicts each token of the tokenizer, and no others.

    Raises:
        CheckpointError: it does not; the message ends with `advice`.
    """
    if tokenizer.vocab_size != model.config.vocab_size:
        raise CheckpointError(
            f"{directory}: the tokenizer has {tokenizer.vocab_size:,} tokens, the model predicts "
            f"{model.config.vocab_size:,}. {advice}"
        )
