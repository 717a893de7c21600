"""The systems that write a text from another one, by the `model_type` of their folders."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError
from bertsmith.lineage.encoder_decoder import EncoderDecoder
from bertsmith.lineage.t5_folder import load_t5, save_t5
from bertsmith.lineage.transformer_folder import load_transformer, save_transformer
from bertsmith.model.config_file import CONFIG_FILE
from bertsmith.model.hub import find_checkpoint
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Writer:
    """A system's way from its folder and back."""

    load: Callable[[Path], EncoderDecoder]
    save: Callable[[Any, Path, Tokenizer], None]


WRITERS = {
    "marian": Writer(load_transformer, save_transformer),
    "t5": Writer(load_t5, save_t5),
}


def find_writer(path: str | Path) -> tuple[Writer, Path]:
    """Return the system of a folder, or of a model of the hub, and the folder.

    Without a system of ours it is the Transformer, whose `load` then says what was found.

    Raises:
        CheckpointError: there is no such folder, or no config.json in it.
    """
    directory = find_checkpoint(path)
    try:
        settings = SmallFiles(directory).read_json(CONFIG_FILE)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(
            f"{directory}: there is no config.json. Name the folder of a checkpoint."
        ) from error
    return WRITERS.get(settings.get("model_type", ""), WRITERS["marian"]), directory
