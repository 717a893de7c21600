"""The functions that load and save each encoder–decoder, by the `model_type` of its folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.lineage.encoder_decoder import EncoderDecoder
from bertsmith.lineage.system_folder import read_model_type
from bertsmith.lineage.t5_folder import load_t5, save_t5
from bertsmith.lineage.transformer_folder import load_transformer, save_transformer
from bertsmith.model.hub import find_checkpoint
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class EncoderDecoderFolder:
    """The functions that load one kind of encoder–decoder from its folder, and save it."""

    load: Callable[[Path], EncoderDecoder]
    save: Callable[[Any, Path, Tokenizer], None]


ENCODER_DECODER_FOLDERS = {
    "marian": EncoderDecoderFolder(load_transformer, save_transformer),
    "t5": EncoderDecoderFolder(load_t5, save_t5),
}
"""Maps the `model_type` in config.json to the functions; a Transformer has the type `marian`."""


def find_encoder_decoder(path: str | Path) -> tuple[EncoderDecoderFolder, Path]:
    """Return the functions for a folder, or for a model of the hub, and the path of the folder.

    For an unknown `model_type` the functions of the Transformer are returned: their `load` raises
    an error that describes what the folder holds.

    Raises:
        CheckpointError: there is no such folder, or no config.json in it.
    """
    directory = find_checkpoint(path)
    model_type = read_model_type(directory)
    folder = ENCODER_DECODER_FOLDERS.get(model_type, ENCODER_DECODER_FOLDERS["marian"])
    return folder, directory
