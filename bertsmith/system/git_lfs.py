"""Pointers of Git LFS: small texts that stand where a large file has not been fetched."""

from pathlib import Path

POINTER_START = b"version https://git-lfs"
"""First bytes of every pointer."""

MOST_BYTES = 1024
"""Bytes that no pointer exceeds."""


def is_pointer(head: bytes) -> bool:
    """Return whether a file's content, or more than its first `MOST_BYTES`, is a pointer."""
    return head.startswith(POINTER_START) and len(head) <= MOST_BYTES


def is_pointer_file(path: Path) -> bool:
    """Return whether a file is a pointer; one that cannot be read is none."""
    try:
        with path.open("rb") as file:
            return is_pointer(file.read(MOST_BYTES + 1))
    except OSError:
        return False


def describe_pointer(source: object) -> str:
    return (
        f"{source}: a pointer of Git LFS, not the file itself, as the folder was cloned without "
        "git-lfs. Install it, then run 'git lfs pull' in the folder."
    )
