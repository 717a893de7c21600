"""What a folder holds."""


def contents(folder):
    """Return the bytes of each file below a folder, by its path in there."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
