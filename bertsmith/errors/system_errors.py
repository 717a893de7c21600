"""What the operating system refuses, and the way out of it."""

import errno
from pathlib import Path
from typing import TypeVar

from bertsmith.errors.kinds import BertsmithError

ErrorT = TypeVar("ErrorT", bound=BertsmithError)

MORE_FILES = "Allow more open files (ulimit -n 4096), then run the command again."
SYSTEM_ADVICE = {
    errno.ENOSPC: "Free some space or choose another folder.",
    errno.EDQUOT: "Your quota is used up: free some space or choose another folder.",
    errno.EFBIG: "The file would be larger than allowed here; choose another folder.",
    errno.EACCES: "Change the permissions or choose another place.",
    errno.EPERM: "Change the permissions or choose another place.",
    errno.EROFS: "The file system is read-only; choose another place.",
    errno.EMFILE: MORE_FILES,
    errno.ENFILE: MORE_FILES,
    errno.ENOMEM: "Close other programs, or use a computer with more memory.",
    errno.EIO: "The disk or the network behind it has failed; choose another place.",
    errno.ENOENT: "Check the spelling.",
    errno.ENOTDIR: "Check the spelling: a file stands where a folder is named.",
    errno.EISDIR: "Name a file in it.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}
"""The way out of what the system refuses."""


def advice_on(error: OSError) -> str:
    """Say what to do about an error of the system."""
    return SYSTEM_ADVICE.get(error.errno or 0, "Check the path, or choose another place.")


def read_error(kind: type[ErrorT], path: Path | str, error: OSError) -> ErrorT:
    """Build the error for a file that the system does not let us read."""
    return kind(f"{path}: cannot be read ({error.strerror or error}). {advice_on(error)}")
