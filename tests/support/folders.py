"""Read all files of a folder, to compare folders."""


def contents(folder):
    """Return the bytes of each file below a folder, by its path relative to the folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
