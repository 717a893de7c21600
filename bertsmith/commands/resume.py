"""The command line that resumes a run, and the step that it resumes from."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from bertsmith.commands.option_words import with_resume
from bertsmith.commands.output import print_note
from bertsmith.system.launch import read_launch
from bertsmith.training.checkpoint import list_checkpoints
from bertsmith.training.run_folder import RunFolder


def resume_command(line: Sequence[str]) -> str:
    """Return the typed command line with `--resume`, and without `--overwrite`.

    If a launcher such as torchrun started this process as one of several ranks, a shell comment is
    added: with the launcher before the command, the ranks continue the run; without it, one machine
    alone does.
    """
    command = shlex.join(with_resume(line))
    if read_launch() is None:
        return command
    return f"{command}  # with the launcher that started the ranks, or on one machine alone"


def print_resume_state(
    out: Path, *, overwrite: bool, final_key: str = "summary", kind: str = "pre-training"
) -> None:
    """Print on standard error the step that a run resumes from.

    The run is checked before, as it checks itself, so that nothing is printed of a run that is not
    resumed. For a series, several runs in one folder, nothing is printed: it names its runs itself.

    Args:
        overwrite: whether the line has --overwrite, which excludes --resume.
        final_key, kind: as for `RunFolder.check`.

    Raises:
        ConfigError: the run cannot be resumed.
    """
    folder = RunFolder(out)
    if folder.holds_series:
        return
    folder.check(resume=True, overwrite=overwrite, final_key=final_key, kind=kind)
    checkpoints = list_checkpoints(folder.checkpoints_dir)
    if folder.is_trained:
        state = "already trained"
    elif checkpoints:
        state = f"resuming from {checkpoints[-1].name}"
    else:
        state = "no checkpoint yet, starting again"
    print_note(f"{out}: {state}")
