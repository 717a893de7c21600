"""The settings of a command that matter when a launcher starts it as several ranks.

A launcher, such as torchrun, starts one command as several processes, its ranks. If one of them
fails, torchrun starts all again, and the run is to continue.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from bertsmith.system.launch import LAUNCH, read_launch_id
from bertsmith.system.run_state import read_run
from bertsmith.system.small_files import SmallFiles


@dataclass(frozen=True)
class LaunchSettings:
    """The settings that a launch needs; each command may have them in another group of settings."""

    out: Path | None
    """Output folder; None for a command without one."""
    can_resume: bool
    """Whether the command has --resume."""
    threads: int | None
    """Number of processor threads of each rank; None if the command line does not say."""

    @property
    def has_run_to_resume(self) -> bool:
        """Whether the output folder has a run that this launch began, and that can be resumed.

        If the launcher has no id for its launches, any run in the folder counts.
        """
        if not self.can_resume or self.out is None or not (self.out / "run.json").exists():
            return False
        launch_id = read_launch_id()
        return not launch_id or read_run(SmallFiles(self.out)).get(LAUNCH) == launch_id


def read_launch_settings(settings: Any) -> LaunchSettings:
    """Find the settings that a launch needs among those of any command.

    Args:
        settings: the result of the command's `parse`, a dataclass or a tuple of them; some of their
            fields are dataclasses, too.
    """
    return LaunchSettings(
        out=_find(settings, "out"),
        can_resume=_find(settings, "resume") is not None,
        threads=_find(settings, "threads"),
    )


def _find(settings: Any, name: str) -> Any:
    """Return the setting of this name, from the outermost group that has one; None without."""
    groups: Sequence[Any] = ()
    if isinstance(settings, tuple):
        groups = settings
    elif is_dataclass(settings):
        if hasattr(settings, name):
            return getattr(settings, name)
        groups = [getattr(settings, field.name) for field in fields(settings)]
    values = (_find(group, name) for group in groups)
    return next((value for value in values if value is not None), None)
