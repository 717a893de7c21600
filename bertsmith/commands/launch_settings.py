"""The settings of a command that matter when a launcher starts it as several ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any


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
        """Whether the output folder has a run that can be resumed."""
        return self.can_resume and self.out is not None and (self.out / "run.json").exists()


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
