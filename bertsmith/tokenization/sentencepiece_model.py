"""Reading of SentencePiece's model files, such as `spiece.model`: tokens and normalization table.

Such a file is a protobuf message: fields with numbers, some of which are messages themselves. Their
numbers are those of `sentencepiece_model.proto`. Only unigram models are read.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError

# Numbers of the fields: of the whole file, of a piece, of the trainer's settings (TRAINER_SPEC),
# and of the normalizer's settings (NORMALIZER_SPEC).
PIECES, TRAINER_SPEC, NORMALIZER_SPEC = 1, 2, 3
PIECE_TEXT, PIECE_SCORE, PIECE_TYPE = 1, 2, 3
MODEL_TYPE, BYTE_FALLBACK = 3, 35
CHARSMAP = 2
# Values of a piece's type and of the model's type.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
UNIGRAM = 1
MODEL_TYPES = {1: "unigram", 2: "BPE", 3: "word", 4: "char"}


@dataclass(frozen=True)
class SentencePieceModel:
    """Tokens by id (text, log probability, type), and the normalization table."""

    pieces: list[str]
    scores: list[float]
    types: list[int]
    """`NORMAL`, `UNKNOWN`, `CONTROL`, `USER_DEFINED`, or another number."""
    charsmap: bytes
    """The table as `CharacterMap` reads it; empty if the model has none."""

    def of_type(self, type_: int) -> list[str]:
        """List the tokens of a type, in the order of their ids."""
        return [
            piece
            for piece, piece_type in zip(self.pieces, self.types, strict=True)
            if piece_type == type_
        ]


class _DamagedError(Exception):
    """Damage in a file; the message says where."""


def read_sentencepiece(content: bytes, path: Path) -> SentencePieceModel:
    """Read a unigram model.

    Raises:
        CheckpointError: the file is damaged, or holds a model of another kind.
    """
    try:
        model = list(_fields(content))
        pieces = [dict(_fields(_bytes(value))) for number, value in model if number == PIECES]
        # Protobuf merges the fields of a message that occurs several times; so do joined bytes.
        specs = {
            spec: dict(
                _fields(b"".join(_bytes(value) for number, value in model if number == spec))
            )
            for spec in (TRAINER_SPEC, NORMALIZER_SPEC)
        }
        # A field that is absent has its default: empty text, a score of 0, the type NORMAL.
        parsed = SentencePieceModel(
            pieces=[_bytes(piece.get(PIECE_TEXT, b"")).decode("utf-8") for piece in pieces],
            scores=[_float(piece.get(PIECE_SCORE, bytes(4))) for piece in pieces],
            types=[_int(piece.get(PIECE_TYPE, NORMAL)) for piece in pieces],
            charsmap=_bytes(specs[NORMALIZER_SPEC].get(CHARSMAP, b"")),
        )
        model_type = _int(specs[TRAINER_SPEC].get(MODEL_TYPE, UNIGRAM))
        byte_fallback = specs[TRAINER_SPEC].get(BYTE_FALLBACK, 0)
    except (_DamagedError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{path}: not a SentencePiece model, or damaged ({error}). Get the file again."
        ) from error
    if not parsed.pieces:
        raise CheckpointError(f"{path}: holds no pieces. Get the file again; it may be cut short.")
    if not any(number == NORMALIZER_SPEC for number, _ in model):
        raise CheckpointError(
            f"{path}: ends after {len(parsed.pieces):,} pieces, without the normalizer_spec "
            "that follows them. Get the file again; it may be cut short."
        )
    if model_type != UNIGRAM or byte_fallback:
        kind = "byte_fallback" if byte_fallback else MODEL_TYPES.get(model_type, str(model_type))
        raise CheckpointError(
            f"{path}: a SentencePiece model of the kind {kind}; bertsmith reads the kind unigram, "
            "which ALBERT has. Choose an ALBERT checkpoint."
        )
    if len(parsed.of_type(UNKNOWN)) != 1:
        raise CheckpointError(
            f"{path}: has {len(parsed.of_type(UNKNOWN))} unknown pieces, and must have one. Get "
            "the file again."
        )
    return parsed


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each protobuf field: an int for varints, else bytes."""
    offset = 0
    while offset < len(data):
        key, offset = _varint(data, offset)
        # Wire types: 0 is a varint, 1 and 5 have 8 and 4 bytes, 2 has its size before its bytes.
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, offset = _varint(data, offset)
            yield number, value
            continue
        if wire_type == 2:
            size, offset = _varint(data, offset)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise _DamagedError(f"wire type {wire_type} before byte {offset:,}")
        if offset + size > len(data):
            raise _DamagedError(f"{size:,} bytes are due at byte {offset:,} of {len(data):,}")
        yield number, data[offset : offset + size]
        offset += size


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """Read a number in groups of seven bits, the lowest first.

    The result is the number and the offset after it.
    """
    number = 0
    for shift in range(0, 70, 7):  # 64 bits take at most ten bytes
        if offset >= len(data):
            raise _DamagedError(f"ends inside a number, at byte {offset:,}")
        number |= (data[offset] & 0x7F) << shift
        offset += 1
        if data[offset - 1] < 0x80:
            return number, offset
    raise _DamagedError(f"a number without an end before byte {offset:,}")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise _DamagedError("a number instead of text")
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise _DamagedError("text instead of a number")
    return value


def _float(value: Any) -> float:
    if not isinstance(value, bytes) or len(value) != 4:
        raise _DamagedError("a score that is not a 32-bit number")
    number: float = struct.unpack("<f", value)[0]
    if not math.isfinite(number):
        raise _DamagedError(f"the score {number}")
    return number
