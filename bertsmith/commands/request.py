"""What a training command was asked for, and how to ask for its continuation."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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
