"""Pointers of Git LFS: small texts in place of large files that have not been fetched."""

from pathlib import Path

POINTER_START = b"version https://git-lfs"
"""First bytes of a pointer."""

MAX_POINTER_BYTES = 1024
"""Largest size of a pointer."""


def is_pointer(head: bytes) -> bool:
    """Return whether a file is a pointer.

    Args:
        head: the first `MAX_POINTER_BYTES` + 1 bytes of the file, or all of them if it is shorter.
    """
    return head.startswith(POINTER_START) and len(head) <= MAX_POINTER_BYTES


def is_pointer_file(path: Path) -> bool:
    """Return whether a file is a pointer; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return is_pointer(file.read(MAX_POINTER_BYTES + 1))
    except OSError:
        return False


def describe_pointer(source: object) -> str:
    return (
        f"{source} is a pointer of Git LFS, not the file itself: the folder was cloned without "
        "git-lfs. Install git-lfs, then run 'git lfs pull' in the folder."
    )
