"""Folders of sentence-transformers before 2.0, whose model is in a folder such as 0_Transformer.

modules.json beside that folder names it.
"""

from pathlib import Path

from bertsmith.errors import CheckpointError
from bertsmith.system.small_files import SmallFiles

MODULES_FILE = "modules.json"


def open_files(directory: Path) -> SmallFiles:
    """Open the files of a model, those of the model itself from the folder that it is in.

    Raises:
        CheckpointError: modules.json names a folder for the model, which is not there.
    """
    inner = inner_folder(directory)
    return SmallFiles(directory) if inner is None else SmallFiles(inner, outer=directory)


def model_directory(directory: Path) -> Path:
    """Return the folder that a model's weights are in."""
    return inner_folder(directory) or directory


def inner_folder(directory: Path) -> Path | None:
    """Return the folder within `directory` that modules.json names for the model, if any."""
    files = SmallFiles(directory)
    if not files.has(MODULES_FILE):
        return None
    try:
        modules = files.read_json(MODULES_FILE, list)
    except CheckpointError:  # told where these modules are needed
        return None
    for module in modules:
        if isinstance(module, dict) and str(module.get("type", "")).endswith(".Transformer"):
            name = module.get("path")
            if not isinstance(name, str) or not name or Path(name).name != name:
                return None
            if not (directory / name / "config.json").is_file():
                raise CheckpointError(
                    f"{files.path(MODULES_FILE)}: the model is in the folder {name}, which has no "
                    "config.json. Copy or download the whole folder again."
                )
            return directory / name
    return None
