"""The file modules.json of sentence-transformers, which names the parts of a model.

Before version 2.0 sentence-transformers wrote the model into a subfolder, such as 0_Transformer,
whose name stands in modules.json. bertsmith writes this file for static vectors.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from bertsmith.errors import CheckpointError
from bertsmith.system.checksums import recording_checksums
from bertsmith.system.files import write_json
from bertsmith.system.small_files import SmallFiles

MODULES_FILE = "modules.json"
MODULE_TYPE = "sentence_transformers.models."
"""The beginning of the type of each module in modules.json; the name of the module follows."""
STATIC_MODULE = "StaticEmbedding"
"""Name of the module of sentence-transformers that static vectors are."""


def module_name(module: Mapping[str, Any]) -> str:
    """Return the name of a module of modules.json, such as "Pooling"; "" if it has no type.

    The name is the last part of its type: what stands before it differs between versions.
    """
    return str(module.get("type", "")).rpartition(".")[2]


def open_files(directory: Path) -> SmallFiles:
    """Open a model's small files, also if modules.json says that the model is in a folder inside.

    Raises:
        CheckpointError: as `inner_folder`.
    """
    inner = inner_folder(directory)
    return SmallFiles(directory) if inner is None else SmallFiles(inner, outer=directory)


def model_directory(directory: Path) -> Path:
    """Return the folder that a model's weights are in.

    Raises:
        CheckpointError: as `inner_folder`.
    """
    return inner_folder(directory) or directory


def inner_folder(directory: Path) -> Path | None:
    """Return the folder within `directory` that modules.json names for the model, if any.

    It may be some folders deep (`enc/bert`), and its name may end in a slash.

    Raises:
        CheckpointError: that folder has no config.json, or is not within `directory`.
    """
    files = SmallFiles(directory)
    if not files.has(MODULES_FILE):
        return None
    try:
        modules = files.read_json(MODULES_FILE, content_type=list)
    except CheckpointError:  # readers that need modules.json report its damage
        return None
    for module in modules:
        if isinstance(module, dict) and module_name(module) == "Transformer":
            name = module.get("path")
            if not isinstance(name, str) or PurePosixPath(name) == PurePosixPath():
                return None
            if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
                raise CheckpointError(
                    f"{files.path(MODULES_FILE)}: the model is in the folder {name}, which is not "
                    f"within {directory}. Copy the model into that folder, and name it there."
                )
            if not (directory / name / "config.json").is_file():
                raise CheckpointError(
                    f"{files.path(MODULES_FILE)}: the model is in the folder {name}, which has no "
                    "config.json. Copy or download the whole folder again."
                )
            return directory / name
    return None


def write_static_modules(directory: Path) -> None:
    """Write a modules.json with which sentence-transformers opens a folder of static vectors."""
    modules = [{"idx": 0, "name": "0", "path": ".", "type": MODULE_TYPE + STATIC_MODULE}]
    with recording_checksums(directory, MODULES_FILE):
        write_json(directory / MODULES_FILE, modules)
