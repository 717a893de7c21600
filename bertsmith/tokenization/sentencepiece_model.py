"""Reader of SentencePiece's own file, `spiece.model`.

The file is one protocol buffer, `ModelProto` of sentencepiece_model.proto: a sequence of fields,
each a key (number and wire type) and a value. Only the few fields that decide ids are read.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError

# Field numbers of sentencepiece_model.proto.
PIECES, TRAINER_SPEC, NORMALIZER_SPEC = 1, 2, 3
PIECE_TEXT, PIECE_SCORE, PIECE_TYPE = 1, 2, 3
MODEL_TYPE, BYTE_FALLBACK = 3, 35
CHARSMAP = 2
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
UNIGRAM = 1
MODEL_TYPES = {1: "unigram", 2: "BPE", 3: "word", 4: "char"}


@dataclass(frozen=True)
class SentencePieceModel:
    """Tokens by id (text, log probability, type), and the normalization table."""

    pieces: list[str]
    scores: list[float]
    types: list[int]
    charsmap: bytes

    def of_type(self, type_: int) -> list[str]:
        """List the tokens of a type, in the order of their ids."""
        return [
            piece for piece, found in zip(self.pieces, self.types, strict=True) if found == type_
        ]


class _DamagedError(Exception):
    """Damage in a file; the message says where."""


def read_sentencepiece(content: bytes, path: Path) -> SentencePieceModel:
    """Read a unigram model.

    Raises:
        CheckpointError: damaged, or of another kind.
    """
    try:
        model = list(_fields(content))
        pieces = [dict(_fields(_bytes(value))) for number, value in model if number == PIECES]
        specs = {
            spec: dict(
                _fields(b"".join(_bytes(value) for number, value in model if number == spec))
            )
            for spec in (TRAINER_SPEC, NORMALIZER_SPEC)
        }
        found = SentencePieceModel(
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
    if not found.pieces:
        raise CheckpointError(f"{path}: holds no pieces. Get the file again; it may be cut short.")
    if not any(number == NORMALIZER_SPEC for number, _ in model):
        raise CheckpointError(
            f"{path}: ends behind {len(found.pieces):,} pieces, without what such files end with "
            "(normalizer_spec). Get the file again; it may be cut short."
        )
    if model_type != UNIGRAM or byte_fallback:
        kind = "byte_fallback" if byte_fallback else MODEL_TYPES.get(model_type, str(model_type))
        raise CheckpointError(
            f"{path}: a SentencePiece model of the kind {kind}, and ALBERT's is unigram. Choose an "
            "ALBERT checkpoint."
        )
    if len(found.of_type(UNKNOWN)) != 1:
        raise CheckpointError(
            f"{path}: has {len(found.of_type(UNKNOWN))} unknown pieces, and must have one. Get the "
            "file again."
        )
    return found


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: int for varints, else bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, place = _varint(data, place)
            yield number, value
            continue
        if wire_type == 2:
            size, place = _varint(data, place)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise _DamagedError(f"wire type {wire_type} before byte {place:,}")
        if place + size > len(data):
            raise _DamagedError(f"{size:,} bytes are due at byte {place:,} of {len(data):,}")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Read a number in groups of seven bits, the lowest first.

    Returns it and the place behind it.
    """
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise _DamagedError(f"ends inside a number, at byte {place:,}")
        number |= (data[place] & 0x7F) << shift
        place += 1
        if data[place - 1] < 0x80:
            return number, place
    raise _DamagedError(f"a number without an end before byte {place:,}")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise _DamagedError("a number where text is due")
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise _DamagedError("text where a number is due")
    return value


def _float(value: Any) -> float:
    if not isinstance(value, bytes) or len(value) != 4:
        raise _DamagedError("a score that is no 32-bit number")
    score: float = struct.unpack("<f", value)[0]
    return score
