"""Find the model of a tokenizer: the one in its folder, or the one whose tokenizer it extends.

An extended tokenizer has new tokens, and a folder without weights. A file in this folder names the
model, so that pre-training on a corpus of the tokenizer can continue it.
"""

from pathlib import Path

from bertsmith.errors import CheckpointError
from bertsmith.model.hub import is_hub_name
from bertsmith.system.files import write_json
from bertsmith.system.json_text import parse_json
from bertsmith.system.nested_folder import model_directory

ORIGIN_NAME = "extension.json"
"""File in an extended tokenizer's folder that names the model."""
KEY = "extends"
"""Key of the model in this file."""
WEIGHT_NAMES = ("model.safetensors", "pytorch_model.bin")
"""Names of the files that hold a model's weights, if these are not in shards."""


def note_origin(folder: Path, model: Path) -> None:
    """Write the model that an extended tokenizer was made for into the tokenizer's folder.

    The path of a folder becomes absolute, since later commands may run in another folder.

    Raises:
        InputError: the file cannot be written.
    """
    origin = model.absolute() if model.exists() else model
    write_json(folder / ORIGIN_NAME, {KEY: str(origin)})


def model_of_tokenizer(tokenizer: Path) -> Path | None:
    """Return the model that training on a corpus of this tokenizer can continue; None without one.

    The path of a model inside the current folder is relative.
    """
    if _has_weights(tokenizer):
        return tokenizer
    try:
        origin = parse_json((tokenizer / ORIGIN_NAME).read_text(encoding="utf-8"))[KEY]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # the tokenizer is no extension, or the file was edited
    model = Path(str(origin))
    # Before the path is made relative: `models/mine` would then look like a name of the hub.
    is_from_hub = is_hub_name(model)
    if model.is_relative_to(Path.cwd()):
        model = model.relative_to(Path.cwd())
    return model if _has_weights(model) or is_from_hub else None


def _has_weights(folder: Path) -> bool:
    try:
        folder = model_directory(folder)
    except CheckpointError:  # the folder inside that modules.json names is missing
        return False
    # A file, or the index of its shards
    names = [f"{name}{end}" for name in WEIGHT_NAMES for end in ("", ".index.json")]
    return (folder / "config.json").is_file() and any((folder / name).is_file() for name in names)
