"""The systems that write one text from another, by the `model_type` of their folders."""

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
class Writer:
    """The functions that load a system from a folder, and save it."""

    load: Callable[[Path], EncoderDecoder]
    save: Callable[[Any, Path, Tokenizer], None]


WRITERS = {
    "marian": Writer(load_transformer, save_transformer),
    "t5": Writer(load_t5, save_t5),
}


def find_writer(path: str | Path) -> tuple[Writer, Path]:
    """Return the writer for a folder, or for a model of the hub, and the folder.

    For another `model_type` it is the writer of the Transformer, whose `load` raises an error that
    says what the folder holds.

    Raises:
        CheckpointError: there is no such folder, or no config.json in it.
    """
    directory = find_checkpoint(path)
    return WRITERS.get(read_model_type(directory), WRITERS["marian"]), directory
