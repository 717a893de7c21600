"""What a training command was asked for, and how to ask for its continuation."""

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
    """Settings, and the words that continue the run after it was stopped."""

    settings: SettingsT
    resume_command: str


def resume_command(args: Sequence[str], prog: str) -> str:
    """The command line as it was typed, with `--resume`."""
    words = [word for word in args if word not in ("--resume", "--overwrite")]
    return f"{shlex.join([*prog.split(), *words])} --resume"


def tell_where_it_resumes(out: Path) -> None:
    """Say on standard error from which step a run goes on; nothing where there is none."""
    folder = RunFolder(out)
    if not folder.run_path.exists():
        return
    found = list_checkpoints(folder.checkpoints_dir)
    place = f"goes on from {found[-1].name}" if found else "has no checkpoint yet and begins anew"
    if "summary" in folder.read_run():
        place = "is trained already"
    print(f"{out}: {place}", file=sys.stderr)
