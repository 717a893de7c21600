"""Add to errors of writing where a begun run is, and how to continue it."""

import contextlib
import errno
from collections.abc import Iterator

from bertsmith.errors import InputError, WriteError, option
from bertsmith.system.write_error import write_error
from bertsmith.training.checkpoint import list_checkpoints
from bertsmith.training.run_folder import RunFolder

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The disk or the quota is full, a file is too large, or the disk is broken."""


@contextlib.contextmanager
def naming_the_run(folder: RunFolder, resume_command: str | None) -> Iterator[None]:
    """Add to errors of writing in the block where the begun run is, and how to continue it.

    The error would otherwise say that nothing was changed, and the same command would then refuse
    the folder. A `resume_command` of None stands for a run that cannot be resumed.

    Raises:
        InputError: in place of a WriteError of the block, or of an OSError about the disk
            (`DISK_ERRORS`).
    """
    try:
        yield
    except WriteError as error:
        raise _continued(error, error.__cause__, folder, resume_command) from error.__cause__
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        name = folder.path if error.filename is None else error.filename
        raise _continued(write_error(name, error), error, folder, resume_command) from error


def advice_for_writing(cause: object) -> str:
    """Return advice that a user follows before the run continues, without a full stop."""
    is_full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return "Free some space" if is_full else "Solve that"


def _continued(
    error: WriteError, cause: object, folder: RunFolder, resume_command: str | None
) -> InputError:
    """Build the error that says where the run is, or the earlier run that was put aside.

    If there is neither, return the error as it is. `cause` is the error of the system behind it, by
    which the advice is chosen.
    """
    advice = advice_for_writing(cause)
    if folder.run_path.exists() and resume_command is None:
        return InputError(
            f"{error.problem} What the run has written is in {folder.path}. {advice}, then begin "
            f"again, with {option('overwrite', True)}."
        )
    if folder.run_path.exists():
        checkpoints = list_checkpoints(folder.checkpoints_dir)
        start = f"from {checkpoints[-1].name}, its last checkpoint" if checkpoints else "it"
        return InputError(
            f"{error.problem} The run so far is in {folder.path}. {advice}, then continue {start}, "
            f"with: {resume_command}"
        )
    if folder.earlier_dir.exists():
        return InputError(
            f"{error.problem} The earlier run is in {folder.earlier_dir}. {advice}, then run the "
            "command again."
        )
    return error
