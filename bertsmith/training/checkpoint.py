"""Save and load the checkpoints of a run.

A checkpoint is a complete Hugging Face folder with two more files: `training_state.safetensors`
(the optimizer's moments, and the best weights if the run keeps them) and `training_state.json`
(progress, the settings and data that the run depends on, and a SHA-256 of every file). It appears
whole or not at all. It has no states of random generators: batches and dropout are functions of the
seed and the step.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bertsmith.errors import CheckpointError, read_error
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors
from bertsmith.system.files import atomic_dir, remove_folder, sha256_file, write_json
from bertsmith.system.json_text import parse_json
from bertsmith.system.locks import try_lock
from bertsmith.system.small_files import read_small_file

STATE_FILE = "training_state.json"
TENSORS_FILE = "training_state.safetensors"
FOLDER_PATTERN = re.compile(r"step-\d{8,}")
REPLACED_PATTERN = re.compile(r"\.(step-\d{8,})\.[a-z0-9_]{8}\.old")
"""Temporary name of a checkpoint while another of its step takes its place (`atomic_dir`). Group 1
is its own name."""


@dataclass
class TrainingState:
    """Progress of a run.

    `elapsed_seconds` is the time of the whole run, `step_seconds` that of its steps alone, and
    `evaluation_seconds` that of its evaluations alone.
    """

    identity: Mapping[str, Any]
    """Settings and facts about the data, which must be the same when the run is resumed."""
    step: int = 0
    """Number of finished steps."""
    elapsed_seconds: float = 0.0
    real_tokens: int = 0
    step_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    """The part of `step_seconds` in which the run waited for a batch."""
    evaluation_seconds: float = 0.0
    last_evaluation_seconds: float = 0.0

    @property
    def data_wait_fraction(self) -> float:
        """The share of the steps' time in which the run waited for a batch."""
        return self.data_wait_seconds / max(1e-9, self.step_seconds)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are intact, without its weights: `load_model(path)` loads them.

    `tensors` are those that `save_checkpoint` wrote: the optimizer's state, and the best weights.
    """

    path: Path
    state: TrainingState
    tensors: dict[str, Tensor]


def newest_checkpoint(directory: Path) -> Checkpoint | None:
    """Load and check the newest checkpoint in a folder; None if there is none.

    Raises:
        CheckpointError: it is damaged.
    """
    checkpoints = list_checkpoints(directory)
    return load_checkpoint(checkpoints[-1]) if checkpoints else None


def list_checkpoints(directory: Path) -> list[Path]:
    """List the checkpoints in a folder by their names, oldest first."""
    if not directory.is_dir():
        return []
    folders = [path for path in directory.iterdir() if FOLDER_PATTERN.fullmatch(path.name)]
    return sorted(folders, key=lambda path: int(path.name.removeprefix("step-")))


def save_checkpoint(
    directory: Path,
    save: Callable[[Path], None],
    tensors: Mapping[str, Tensor],
    state: TrainingState,
    keep: int,
) -> Path:
    """Write `directory/step-<state.step>` and remove all but the newest `keep`, 1 or more.

    `save` writes the model folder (`model/saving.py`). `tensors` are stored beside it by name, in
    any shape and dtype.

    Raises:
        InputError: the disk is full or cannot be written; earlier checkpoints are as they were.
    """
    path = directory / f"step-{state.step:08d}"
    with atomic_dir(path) as folder:
        save(folder)
        write_safetensors(folder / TENSORS_FILE, tensors)
        written = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        digests = {file.relative_to(folder).as_posix(): sha256_file(file) for file in written}
        facts = {**asdict(state), "files": digests}
        write_json(folder / STATE_FILE, {**facts, "sha256": _digest(facts)})
    with contextlib.suppress(OSError):  # removing is not essential: the new one is complete
        for old in list_checkpoints(directory)[:-keep]:
            remove_folder(old)
    return path


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the state and its tensors, and check every file.

    Raises:
        CheckpointError: a file is missing, truncated or altered; the message names it and says what
            to do.
    """
    facts = _read_state(path)
    for name, expected in facts.pop("files").items():
        file = path / name
        if not file.is_file() or sha256_file(file) != expected:
            fault = "altered" if file.is_file() else "missing"
            raise _damaged(path, f"{name} is {fault}")
    try:
        state = TrainingState(**facts)
    except TypeError:
        raise CheckpointError(
            f"{path / STATE_FILE}: written by another version of bertsmith. Continue with that "
            "version, or begin the run again."
        ) from None
    return Checkpoint(path, state, read_safetensors(path / TENSORS_FILE))


def clear_leftovers(directory: Path) -> None:
    """Remove unfinished checkpoints of killed processes, but none that is being written (locked).

    A process may have been killed while it replaced a checkpoint by a new one of the same step. The
    old checkpoint then gets its name back.
    """
    for path in directory.glob(".step-*"):
        with contextlib.suppress(OSError):  # another process may be faster
            replaced = REPLACED_PATTERN.fullmatch(path.name)
            if replaced is not None and not (directory / replaced[1]).exists():
                path.rename(directory / replaced[1])
            elif (lock := try_lock(path)) is not None:
                try:
                    remove_folder(path)
                finally:
                    os.close(lock)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        facts = parse_json(read_small_file(path / STATE_FILE))
        digest = facts.pop("sha256")
    except FileNotFoundError:
        raise _damaged(path, f"{STATE_FILE} is missing") from None
    except OSError as error:
        raise read_error(CheckpointError, path / STATE_FILE, error) from error
    except (ValueError, KeyError, AttributeError, TypeError):  # other JSON, or none
        raise _damaged(path, f"{STATE_FILE} is not readable") from None
    if digest != _digest(facts):
        raise _damaged(path, f"{STATE_FILE} is altered")
    return dict(facts)


def _damaged(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: this checkpoint is damaged: {reason}. Remove the folder to resume from the one "
        "before it, or from the beginning if there is none."
    )


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
