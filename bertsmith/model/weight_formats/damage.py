"""The error for files of weights that are damaged."""

from pathlib import Path

from bertsmith.errors import CheckpointError


def damaged(file: Path, reason: str) -> CheckpointError:
    """Build the error for a file whose content cannot be trusted."""
    return CheckpointError(
        f"{file}: truncated or altered ({reason}). Copy or download the file again."
    )
