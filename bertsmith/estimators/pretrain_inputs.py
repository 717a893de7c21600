"""The inputs of a `pretrain` call, so that a repeated call can use what an earlier call built.

Before it trains, `pretrain` learns a vocabulary and builds a corpus, which takes time. If it is
stopped there, the same call uses both again. A hidden file beside the model's folder holds the
inputs until that folder holds a run.
"""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertsmith.data.documents import Texts, TextsInMemory
from bertsmith.data.settings import CorpusSettings
from bertsmith.data.sources import find_sources
from bertsmith.system.files import write_json
from bertsmith.system.json_text import parse_json
from bertsmith.tokenization.auto import load_tokenizer


@dataclass(frozen=True)
class PretrainInputs:
    """The hidden file with the inputs of a call, and the names of the folders that it has built.

    The names are "tokenizer" and "corpus".
    """

    path: Path

    def read_built(self, inputs: Any) -> list[str]:
        """Return the names of the folders that an earlier call with these inputs built."""
        with suppress(
            OSError, ValueError, KeyError, TypeError
        ):  # there is no file, or a damaged one
            content = parse_json(self.path.read_text(encoding="utf-8"))
            if content["inputs"] == inputs:
                return list(content["built"])
        return []

    def write(self, inputs: Any, built: Sequence[str]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {"inputs": inputs, "built": built})

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def describe_inputs(
    texts: Texts,
    tokenizer: Path | None,
    vocab_size: int,
    reading: CorpusSettings,
) -> Any:
    """Describe the inputs on which a vocabulary and a corpus depend, as plain JSON.

    Raises:
        CheckpointError: the folder `tokenizer` holds no tokenizer.
    """
    return {
        "texts": _digest(texts) if isinstance(texts, TextsInMemory) else _list_files(texts),
        "tokenizer": None if tokenizer is None else load_tokenizer(tokenizer).fingerprint,
        "vocab_size": vocab_size,
        "corpus": asdict(reading),
    }


def _digest(texts: TextsInMemory) -> str:
    """Compute the SHA-256 of texts, in hexadecimal."""
    digest = hashlib.sha256()
    for text in texts.iter_texts():
        content = str(text).encode("utf-8", "surrogatepass")
        # The length marks where a text ends, since a text may hold any character.
        digest.update(f"{len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def _list_files(paths: Iterable[str | Path]) -> list[list[Any]]:
    """List each file with its size in bytes and its time of change in nanoseconds."""
    sources, _ = find_sources(paths)
    stats = [(source.path, source.path.stat()) for source in sources]
    return [[str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, stat in stats]
