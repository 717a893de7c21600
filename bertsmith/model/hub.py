"""The folder of a model: one on this machine, or fetched from the Hugging Face hub."""

import difflib
import os
import re
from pathlib import Path

from bertsmith.errors import SYSTEM_ADVICE, CheckpointError, read_error

CHECKPOINT_FILES = (
    "*.json", "*.safetensors", "pytorch_model*.bin", "vocab.txt", "merges.txt", "*.model",
)  # fmt: skip


def find_checkpoint(path: str | Path) -> Path:
    """The folder that `path` names, fetched from the hub if it is no folder but "org/name".

    Where "org" is a folder here, the name is taken for a path with a slip in it.

    Raises:
        CheckpointError: there is no such folder, and the hub cannot be reached or has it not.
    """
    wanted = Path(path)
    try:
        if wanted.is_dir():
            return wanted
        if wanted.exists():
            raise CheckpointError(f"{path}: this is a file. Name the folder of the checkpoint.")
    except OSError as error:  # a text in the model's place is too long for a name
        raise CheckpointError(
            f"'{str(path)[:60]}…': {error.strerror}. Name the folder of a checkpoint."
        ) from None
    if wanted.parent.is_dir() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(path)):
        raise _missing_folder(wanted)
    return _fetch(str(path))


def _missing_folder(path: Path) -> CheckpointError:
    """The error for a folder that is not there, with those beside it that have a similar name."""
    parent, found = path.parent, ""
    if parent.is_dir() and os.access(parent, os.R_OK):
        folders = [entry.name for entry in parent.iterdir() if entry.is_dir()]
        near = ", ".join(difflib.get_close_matches(path.name, folders))
        if parent != Path():
            found = f" {parent}/ is a folder here and has no {path.name}."
        found += f" Near: {near}." if near else ""
    hub = ", or a model of the Hugging Face hub as org/name" if len(path.parts) == 1 else ""
    return CheckpointError(
        f"{path}: there is no such folder.{found} Name the folder of a checkpoint{hub}."
    )


def _fetch(name: str) -> Path:
    """Download a model of the Hugging Face hub, or find it in the hub's own cache."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise CheckpointError(
            f"{name}: there is no such folder. If it is a model on the Hugging Face hub, "
            "install the package huggingface_hub, or download the model into a folder."
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=list(CHECKPOINT_FILES)))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        if isinstance(error, OSError) and error.errno in SYSTEM_ADVICE and error.filename:
            raise read_error(CheckpointError, error.filename, error) from error
        raise CheckpointError(
            f"{name}: there is no such folder, and the Hugging Face hub did not give a model of "
            "that name. Check the spelling and the network, or name a folder."
        ) from error
