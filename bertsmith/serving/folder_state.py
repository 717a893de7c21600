"""The state of a model's files, by which a server notices that they have changed."""

import contextlib
from pathlib import Path

from bertsmith.model.head_names import MEMBERS_FOLDER

FolderState = tuple[tuple[str, int, int], ...]
"""Path, size and time of change of each file of a model's folder."""


def folder_state(path: Path) -> FolderState:
    """Return path, size and time of change of each file in a model's folder and its subfolders.

    If the model averages several models, the folders of the other ones (`members/NAME`) are looked
    through, too. Other deep folders, such as the checkpoints of a run, are not part of the model.
    """
    folders = [path, *(path / MEMBERS_FOLDER).glob("*")]
    files = [file for folder in folders for depth in ("*", "*/*") for file in folder.glob(depth)]
    states = []
    for file in sorted(files):
        with contextlib.suppress(OSError):  # the file has just been removed
            if file.is_file():
                status = file.stat()
                states.append((str(file.relative_to(path)), status.st_size, status.st_mtime_ns))
    return tuple(states)
