"""Kinds of tokenizers, and detection of the kind that a folder holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertsmith.errors import CheckpointError
from bertsmith.system.sums import check_sums
from bertsmith.tokenization.tokenizer_files import (
    TOKENIZER_FILE,
    VOCAB_FILE,
    read_config,
    read_object,
)

if TYPE_CHECKING:
    from bertsmith.tokenization.tokenizer import Tokenizer

Kind = Literal["wordpiece", "byte-bpe", "unigram"]

MERGES_FILE = "merges.txt"
VOCAB_JSON = "vocab.json"
SENTENCEPIECE_FILE = "spiece.model"
KIND_FILES: Mapping[str, Kind] = {
    VOCAB_FILE: "wordpiece",
    MERGES_FILE: "byte-bpe",
    SENTENCEPIECE_FILE: "unigram",
}
"""File that each kind has beside tokenizer.json, and that suffices without it."""
MODEL_KINDS: Mapping[str, Kind] = {
    "WordPiece": "wordpiece",
    "BPE": "byte-bpe",
    "Unigram": "unigram",
}


@dataclass(frozen=True)
class Source:
    """Kind, file and parsed settings of a tokenizer to be read.

    `root` is the content of a tokenizer.json, None for other files; `config` that of the
    tokenizer_config.json beside it, None where a file was named by itself.
    """

    kind: Kind
    file: Path
    root: dict[str, Any] | None
    config: dict[str, Any] | None


@cache
def kinds() -> "Mapping[Kind, type[Tokenizer]]":
    """Return the class of each kind.

    They are imported only now, as each of them builds on `tokenizer`, which imports this module.
    """
    from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
    from bertsmith.tokenization.unigram import UnigramTokenizer
    from bertsmith.tokenization.wordpiece import WordPieceTokenizer

    return {
        "wordpiece": WordPieceTokenizer,
        "byte-bpe": ByteBpeTokenizer,
        "unigram": UnigramTokenizer,
    }


def find(path: Path) -> Source:
    """Find the tokenizer of a folder or file.

    Raises:
        CheckpointError: none, a damaged one, or tokenizers of two kinds.
    """
    check_sums(path)
    if path.is_file():
        return _of_file(path)
    if (path / TOKENIZER_FILE).is_file():
        source = _of_json(path / TOKENIZER_FILE, read_config(path))
        _check_alone(path, source.kind, TOKENIZER_FILE)
        return source
    for name, kind in KIND_FILES.items():
        if (path / name).is_file():
            _check_alone(path, kind, name)
            return Source(kind, path / name, None, read_config(path))
    state = "has neither" if path.is_dir() else "does not exist, so it has neither"
    others = f"{MERGES_FILE} with {VOCAB_JSON}, nor {SENTENCEPIECE_FILE}"
    raise CheckpointError(
        f"{path}: {state} {TOKENIZER_FILE} nor {VOCAB_FILE}, nor {others}. Name a folder that has "
        "one of them, or a vocab.txt."
    )


def _of_file(path: Path) -> Source:
    if path.name in (VOCAB_JSON, MERGES_FILE):
        return Source("byte-bpe", path.with_name(MERGES_FILE), None, None)
    if path.suffix == ".json":
        return _of_json(path, None)
    return Source("unigram" if path.suffix == ".model" else "wordpiece", path, None, None)


def _of_json(path: Path, config: dict[str, Any] | None) -> Source:
    root = read_object(path)
    model = root.get("model")
    name = model.get("type") if isinstance(model, dict) else None
    kind: Kind = "wordpiece"  # its reader rejects content of no kind
    if isinstance(name, str):
        kind = MODEL_KINDS.get(name, kind)
    elif isinstance(model, dict) and "merges" in model:  # old files leave the name out
        kind = "byte-bpe"
    elif isinstance(model, dict) and isinstance(model.get("vocab"), list):
        kind = "unigram"
    return Source(kind, path, root, config)


def _check_alone(directory: Path, kind: Kind, name: str) -> None:
    """Reject a folder with the files of another kind, beside or alone."""
    present = {file: found for file, found in KIND_FILES.items() if (directory / file).is_file()}
    if present and (kind not in present.values() or len(present) > 1):
        other = next(file for file, found in present.items() if found != kind)
        raise CheckpointError(
            f"{directory}: {name} is a {kind} tokenizer and {other} a {present[other]} one. Remove "
            "the file that does not belong to the model."
        )
