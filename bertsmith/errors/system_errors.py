"""Advice on errors of the operating system."""

import errno
from typing import TypeVar

from bertsmith.errors.kinds import BertsmithError

ErrorT = TypeVar("ErrorT", bound=BertsmithError)

MORE_FILES = "Allow more open files (ulimit -n 4096), then run the command again."
SYSTEM_ADVICE = {
    errno.ENOSPC: "Free some space or choose another folder.",
    errno.EDQUOT: "Your quota is used up: free some space or choose another folder.",
    errno.EFBIG: "The file would be larger than allowed here; choose another folder.",
    errno.EACCES: "Change the permissions or choose another path.",
    errno.EPERM: "Change the permissions or choose another path.",
    errno.EROFS: "The file system is read-only; choose another path.",
    errno.EMFILE: MORE_FILES,
    errno.ENFILE: MORE_FILES,
    errno.ENOMEM: "Close other programs, or use a computer with more memory.",
    errno.EIO: "The disk or the network behind it has failed; choose another path.",
    errno.ENOENT: "Check the spelling.",
    errno.ENOTDIR: "Check the spelling: the path goes through a file as if it were a folder.",
    errno.EISDIR: "Name a file in it.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}
"""Advice by the error number of the operating system."""


def advice_on(error: OSError) -> str:
    """Return what to do about an error of the operating system."""
    return SYSTEM_ADVICE.get(error.errno or 0, "Check the path, or choose another one.")


def read_error(kind: type[ErrorT], path: object, error: OSError) -> ErrorT:
    """Build an error of type `kind` for a file that cannot be read."""
    return kind(f"{path}: cannot be read ({error.strerror or error}). {advice_on(error)}")
