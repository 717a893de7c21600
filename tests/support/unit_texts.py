"""Files of text that are divided into several work units, with some documents twice."""

from pathlib import Path

from tiny_tokenizers import TEXT


def write_texts(folder: Path) -> Path:
    """Write a file of documents and a table into a new folder; return the folder."""
    folder.mkdir()
    (folder / "a.txt").write_text("\n\n".join(f"{TEXT[:n]} {n % 70}" for n in range(1, 99)))
    (folder / "b.csv").write_text("text\n" + "".join(f"{n % 30} rivers\n" for n in range(50)))
    return folder
