"""Functions that find local model folders, and exchange models with the Hugging Face hub."""

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from bertsmith.errors import (
    CheckpointError,
    ConfigError,
    SettingError,
    option,
    read_error,
)
from bertsmith.errors.system_errors import SYSTEM_ADVICE
from bertsmith.model.head_names import LINEAR_HEAD_FILE, MEMBERS_FOLDER
from bertsmith.system.checksums import SUMMED_FILES, SUMS_FILE, compare_checksums
from bertsmith.system.nested_folder import model_directory
from bertsmith.system.run_state import check_finished
from bertsmith.system.small_files import SmallFiles

TOKENIZER_FILES = ("*.json", "*vocab.txt", "*merges.txt", "*.model")
"""Patterns of the files of configs and tokenizers, in the model's folder and in folders inside."""
CHECKPOINT_FILES = (*TOKENIZER_FILES, "*.safetensors")
"""Patterns of the files of a model with its tokenizer."""
OLD_WEIGHTS = "*pytorch_model*.bin"
"""Pattern of weights that are fetched only if the model has none as .safetensors."""

WEIGHTS = "model.safetensors"
CARD_FILE = "README.md"
CARD_MARK = (
    "# Written by bertsmith from run.json. Remove this line, and bertsmith keeps your changes."
)
"""Line of a README.md that bertsmith wrote, and may write again."""
SENT_FILES = (WEIGHTS, LINEAR_HEAD_FILE, *sorted(SUMMED_FILES), SUMS_FILE, CARD_FILE)
"""Files of a model that are sent to the hub; run.json is not, since it holds paths of this
computer."""
COMPANION = "generator"
"""Folder of the model that an ELECTRA was trained with."""
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
"""Form of a model's name on the hub, such as "google-bert/bert-base-uncased"."""


def is_own_card(directory: Path) -> bool:
    """Return whether bertsmith wrote the card of a folder, and so may replace that card."""
    card = directory / CARD_FILE
    try:
        with card.open(encoding="utf-8", errors="replace") as file:
            return card.is_file() and CARD_MARK in (line.rstrip("\n") for line in file)
    except OSError:
        return False


def find_checkpoint(path: str | Path) -> Path:
    """Resolve a path or hub name ("org/name") to a local folder with a model.

    Raises:
        CheckpointError: there is no such folder, and the hub lacks the model or cannot be reached.
    """
    folder = Path(path)
    try:
        if folder.is_dir():
            return folder
        if folder.exists():
            raise CheckpointError(f"{path}: this is a file. Name the folder of the checkpoint.")
    except OSError as error:  # such as a text in place of the model, which is too long for a path
        shown = str(path) if len(str(path)) <= 60 else f"{str(path)[:60]}…"
        raise CheckpointError(
            f"'{shown}': {error.strerror}. Name the folder of a checkpoint."
        ) from error
    if not is_hub_name(path):
        raise _missing_folder(folder)
    return _fetch(str(path), with_weights=True)


def find_tokenizer(path: str | Path) -> Path:
    """Resolve a hub name ("org/name") to a local folder with the tokenizer of that model.

    The model's weights are not fetched. Other paths are returned as they are.

    Raises:
        CheckpointError: the hub lacks the model or cannot be reached.
    """
    return _fetch(str(path), with_weights=False) if is_hub_name(path) else Path(path)


def is_hub_name(path: str | Path) -> bool:
    """Return whether a path is the name of a model of the hub, "org/name".

    If "org" is an existing folder, the name is taken for a path in it, perhaps a misspelt one.
    """
    return HUB_NAME.fullmatch(str(path)) is not None and not Path(path).parent.is_dir()


def _missing_folder(path: Path) -> CheckpointError:
    """Build the error for a missing folder; it names folders beside it with similar names."""
    parent = path.parent
    hint = ""
    if parent.is_dir() and os.access(parent, os.R_OK):
        folders = [entry.name for entry in parent.iterdir() if entry.is_dir()]
        near = ", ".join(difflib.get_close_matches(path.name, folders))
        if parent != Path():
            hint = f" The folder {parent} has no '{path.name}'."
        hint += f" Near: {near}." if near else ""
    hub = ""
    if len(path.parts) == 1:
        example = "google-bert/bert-base-uncased"
        hub = f", or a model of the Hugging Face hub as org/name, such as {example}"
    return CheckpointError(
        f"{path}: there is no such folder.{hint} Name the folder of a checkpoint{hub}."
    )


def _fetch(name: str, *, with_weights: bool) -> Path:
    """Download a model of the hub, or only its tokenizer and config; return the local folder.

    The folder is in the cache of the hub's client. Files that it has already are not downloaded.
    """
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise CheckpointError(
            f"{name}: there is no such folder. If it is a model on the Hugging Face hub, "
            "install the package huggingface_hub, or download the model into a folder."
        ) from error
    try:
        patterns = CHECKPOINT_FILES if with_weights else TOKENIZER_FILES
        folder = Path(snapshot_download(name, allow_patterns=list(patterns)))
        # Most models have their weights as .safetensors, many also as .bin, which is then not
        # needed.
        if with_weights and not any(model_directory(folder).glob("*.safetensors")):
            snapshot_download(name, allow_patterns=[OLD_WEIGHTS])
            if not any(model_directory(folder).glob(OLD_WEIGHTS)):
                # Without a network the client gives the files that it has, perhaps those of the
                # tokenizer alone. This call then fails; otherwise the hub has no weights.
                HfApi().model_info(name)
        return folder
    except (_transport_error(HfHubHTTPError), HFValidationError, OSError) as error:
        # Not the network but this computer is at fault, such as a full disk.
        if isinstance(error, OSError) and error.errno in SYSTEM_ADVICE and error.filename:
            raise read_error(CheckpointError, error.filename, error) from error
        raise CheckpointError(
            f"{name}: there is no such folder, and the Hugging Face hub did not give a model of "
            "that name. Check the spelling and the network, or name a folder."
        ) from error


def _transport_error(hub_error: type[Exception]) -> type[Exception]:
    """Return the base class of all errors of the HTTP library that the hub's client uses.

    Versions of the client use different libraries. In each of them `hub_error`, an error of the
    client, derives from the base class of its library.
    """
    return hub_error.__bases__[0]


@dataclass(frozen=True)
class Pushed:
    """A model that was sent to the hub: its address there, and the files that were sent."""

    url: str
    files: tuple[str, ...]
    num_bytes: int
    """Sum of the sizes of the files."""


def push_model(directory: Path, name: str, *, private: bool = False) -> Pushed:
    """Send the model of a folder to the Hugging Face hub, as one commit.

    If the hub has no repository of that name, it is created. The hub's token is read from the
    variable HF_TOKEN, or from `hf auth login`. Nothing in the folder is changed, and only
    `SENT_FILES` are sent.

    Raises:
        ConfigError: `name` is not "org/name", there is no token or no package huggingface_hub, or
            the repository is public although `private` is set.
        CheckpointError: the folder is incomplete, or the hub did not take the model.
    """
    if not HUB_NAME.fullmatch(name):
        raise SettingError(
            "name",
            name,
            "org/name, such as anna/reviews-bert, of letters, digits and '-', '_', '.'",
            "Give your name on the hub first.",
        )
    files = _files_to_send(directory)
    try:
        from huggingface_hub import HfApi, get_token
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise ConfigError(
            f"{name}: the package huggingface_hub is not installed, which sends models. Run: "
            "pip install huggingface_hub"
        ) from error
    if get_token() is None:
        raise ConfigError(
            f"{name}: found no token of the Hugging Face hub. Make one that may write at "
            "https://huggingface.co/settings/tokens, then set the variable HF_TOKEN to it."
        )
    api = HfApi()
    try:
        url = api.create_repo(name, private=private or None, exist_ok=True)
        if private and not api.repo_info(name).private:
            raise ConfigError(
                f"{name}: this repository is public, and {option('private', True)} was given. Make "
                "it private on the hub, choose another name, or leave out "
                f"{option('private', True)}."
            )
        api.upload_folder(
            repo_id=name,
            folder_path=directory,
            allow_patterns=list(files),
            commit_message="Upload a model of bertsmith",
        )
    except ConfigError:
        raise
    except (_transport_error(HfHubHTTPError), OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{name}: {_describe_refusal(error)}") from error
    return Pushed(str(url), files, sum((directory / file).stat().st_size for file in files))


def _files_to_send(directory: Path) -> tuple[str, ...]:
    """Return the paths of a model's files, below its folder.

    Raises:
        CheckpointError: there is no model, or its training run has not finished.
    """
    if not directory.is_dir():
        raise _missing_folder(directory)
    folder = SmallFiles(directory)
    for needed in ("config.json", WEIGHTS):
        if not folder.has(needed):
            raise CheckpointError(
                f"{directory}: there is no {needed}. Name the folder of a model of bertsmith."
            )
    check_finished(folder)
    compare_checksums(folder)
    others = [COMPANION, *(f"{MEMBERS_FOLDER}/{name}" for name in _members(directory))]
    paths = (*SENT_FILES, *(f"{other}/{name}" for other in others for name in SENT_FILES))
    return tuple(name for name in paths if folder.has(name))


def _members(directory: Path) -> list[str]:
    """List the folders in `MEMBERS_FOLDER`, the other models of an average of several models."""
    folder = directory / MEMBERS_FOLDER
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _describe_refusal(error: Exception) -> str:
    """Say why the hub did not take a model, by the status of its response if there is one."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (
            f"the hub refused the token ({status}). It needs the right to write there: make one at "
            "https://huggingface.co/settings/tokens, and set the variable HF_TOKEN to it."
        )
    first_line = str(getattr(error, "server_message", None) or error).strip().partition("\n")[0]
    cause = f"{type(error).__name__}: {first_line}"
    if status is not None:
        return f"the hub refused the model ({status}, {cause})."
    if isinstance(error, ValueError):
        return f"the hub refused the model ({cause}). Correct that, such as the head of README.md."
    return (
        f"the hub could not be reached ({cause}). Check the network, HF_ENDPOINT and "
        "HF_HUB_OFFLINE; nothing here was changed."
    )
