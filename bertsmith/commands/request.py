"""Settings of a training command, and the command line that resumes it."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from bertsmith.training.checkpoint import list_checkpoints
from bertsmith.training.run_folder import RunFolder

SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True)
class Request(Generic[SettingsT]):
    """Settings, and the command line that resumes the run."""

    settings: SettingsT
    resume_command: str


def resume_command(args: Sequence[str], prog: str) -> str:
    """Return the command line as it was typed, with `--resume`."""
    words = [word for word in args if word not in ("--resume", "--overwrite")]
    return f"{shlex.join([*prog.split(), *words])} --resume"


def tell_where_it_resumes(out: Path) -> None:
    """Print the step that a run resumes from on standard error, if it exists."""
    folder = RunFolder(out)
    if not folder.run_path.exists():
        return
    found = list_checkpoints(folder.checkpoints_dir)
    place = f"goes on from {found[-1].name}" if found else "has no checkpoint yet and begins anew"
    if "summary" in folder.read_run():
        place = "is trained already"
    print(f"{out}: {place}", file=sys.stderr)
