"""Files of unigram tokenizers (ALBERT): reading and writing.

`tokenizer.json` is read if it exists, else SentencePiece's `spiece.model`. A setting that would
change token ids and is not supported is rejected by name, as in `tokenizer_files`.
"""

import base64
import binascii
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError
from bertsmith.system.checksums import recording_sums
from bertsmith.system.files import write_json
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.tokenizer_config import config_settings, folder_settings, follow_config
from bertsmith.tokenization.tokenizer_files import (
    PLAIN_CLASS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    Json,
    TokenizerSource,
    check_parts,
    frame_object,
    member,
    read_added_tokens,
    read_frame,
    shared_config,
    tokenizer_object,
)

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
        specs = {
            spec: dict(
                _fields(b"".join(_bytes(value) for number, value in model if number == spec))
            )
            for spec in (TRAINER_SPEC, NORMALIZER_SPEC)
        }
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
            f"{path}: ends behind {len(parsed.pieces):,} pieces, without what such files end with "
            "(normalizer_spec). Get the file again; it may be cut short."
        )
    if model_type != UNIGRAM or byte_fallback:
        kind = "byte_fallback" if byte_fallback else MODEL_TYPES.get(model_type, str(model_type))
        raise CheckpointError(
            f"{path}: a SentencePiece model of the kind {kind}, and ALBERT's is unigram. Choose an "
            "ALBERT checkpoint."
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
    for shift in range(0, 70, 7):
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
    return struct.unpack("<f", value)[0]


SPACE = "▁"
UNIGRAM_KINDS = {
    "model": "Unigram",
    "normalizer": "Sequence",
    "pre_tokenizer": "Sequence",
    "decoder": "Metaspace",
}
UNIGRAM_FIXED = (("model", "byte_fallback", False),)
COMMA_PENALTY = 100.0
"""Subtracted from the score of a number with a comma, since ALBERT reads `9,` as two tokens."""

QUOTE_STEPS = [
    {"type": "Replace", "pattern": {"String": quotes}, "content": '"'} for quotes in ("``", "''")
]
MANY_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
STEP_KINDS = {"NFKD": "decompose", "StripAccents": "strip_accents", "Lowercase": "lowercase"}


def read_unigram(source: TokenizerSource) -> tuple[list[str], list[float], Json]:
    """Read the vocabulary, its scores and the `UnigramTokenizer` settings of a file.

    Raises:
        CheckpointError: damaged, or a tokenizer of another kind.
    """
    config = source.config or {}
    if source.root is not None:
        return _read_tokenizer_json(source.path, source.root, config)
    model = read_sentencepiece(source.files.read(source.name), source.path)
    return model.pieces, _albert_scores(model), _model_settings(model, config, source.path)


def ends_number_with_comma(piece: str) -> bool:
    """Return whether a token is a number and a comma, which ALBERT's original tokenizer divides."""
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def _albert_scores(model: SentencePieceModel) -> list[float]:
    """Return the scores, those of numbers with a comma lowered by `COMMA_PENALTY`."""
    return [
        score - COMMA_PENALTY * ends_number_with_comma(piece)
        for piece, score in zip(model.pieces, model.scores, strict=True)
    ]


def _model_settings(model: SentencePieceModel, config: Json, file: Path) -> Json:
    path = file.with_name(TOKENIZER_CONFIG_FILE)
    settings = folder_settings(config, {}, model.pieces, path)
    settings["unk_token"] = model.of_type(UNKNOWN)[0]
    settings["charsmap"] = model.charsmap
    settings["steps"] = _albert_steps(
        lowercase=member(config, "do_lower_case", bool, path, True),
        keep_accents=member(config, "keep_accents", bool, path, False),
    )
    settings.setdefault("added_tokens", _marked_tokens(model, settings))
    return settings


ACCENT_STEPS = ("decompose", "strip_accents")
DEFAULT_NAMES = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "[MASK]",
}


def _marked_tokens(model: SentencePieceModel, settings: Json) -> list[AddedToken]:
    """List the special tokens and the model's control and user-defined ones."""
    names = {name: settings.get(name, default) for name, default in DEFAULT_NAMES.items()}
    tokens = {
        token: AddedToken(token, lstrip=name == "mask_token") for name, token in names.items()
    }
    for type_ in (CONTROL, USER_DEFINED):
        for piece in model.of_type(type_):
            tokens.setdefault(piece, AddedToken(piece, special=type_ == CONTROL))
    return list(tokens.values())


def _read_tokenizer_json(
    path: Path, root: Json, config: Json
) -> tuple[list[str], list[float], Json]:
    parts = check_parts(root, UNIGRAM_KINDS, UNIGRAM_FIXED, path)
    vocab, scores = _read_pieces(member(parts["model"], "vocab", list, path), path)
    unk_id = member(parts["model"], "unk_id", int, path)
    if not 0 <= unk_id < len(vocab):
        raise CheckpointError(
            f"{path}: unk_id is {unk_id}, and the vocabulary has {len(vocab):,} pieces. Get the "
            "file again."
        )
    _check_spaces(parts["pre_tokenizer"], path)
    steps, charsmap = _read_steps(member(parts["normalizer"], "normalizers", list, path), path)
    added = member(root, "added_tokens", list, path, [])
    settings = config_settings(config, path.with_name(TOKENIZER_CONFIG_FILE)) | {
        "steps": _follow_config(steps, config, path),
        "charsmap": charsmap,
        "unk_token": vocab[unk_id],
        "added_tokens": read_added_tokens(added, vocab, path),
    }
    frame = read_frame(member(root, "post_processor", dict, path), path)
    return vocab, scores, settings | frame


def _follow_config(steps: tuple[str, ...], config: Json, path: Path) -> tuple[str, ...]:
    """Return the steps with the case and accents of tokenizer_config.json (`follow_config`)."""
    flags = {
        "lowercase": "lowercase" in steps,
        "keep_accents": not set(ACCENT_STEPS) & set(steps),
    }
    before = dict(flags)
    names = {"do_lower_case": "lowercase", "keep_accents": "keep_accents"}
    defaults = {"do_lower_case": True, "keep_accents": False}
    follow_config(flags, config, "unigram", names, defaults, path)
    if flags == before:
        return steps
    return _albert_steps(lowercase=flags["lowercase"], keep_accents=flags["keep_accents"])


def _albert_steps(*, lowercase: bool, keep_accents: bool) -> tuple[str, ...]:
    accents = () if keep_accents else ACCENT_STEPS
    return ("quotes", *accents, *(["lowercase"] if lowercase else []), "charsmap")


def _read_pieces(entries: Sequence[Any], path: Path) -> tuple[list[str], list[float]]:
    for id_, entry in enumerate(entries):
        match entry:
            case [str(), int() | float() as score] if math.isfinite(score):
                continue
        raise CheckpointError(
            f"{path}: piece {id_:,} is {json.dumps(entry)[:60]}, where a text and its score are "
            "due. Get the file again."
        )
    return [piece for piece, _ in entries], [float(score) for _, score in entries]


def _read_steps(entries: Sequence[Any], path: Path) -> tuple[tuple[str, ...], bytes]:
    steps: list[str] = []
    charsmap = b""
    rest = list(entries)
    while rest:
        entry = rest.pop(0)
        kind = entry.get("type") if isinstance(entry, dict) else None
        if entry == QUOTE_STEPS[0] and rest[:1] == QUOTE_STEPS[1:]:
            rest.pop(0)
            steps.append("quotes")
        elif isinstance(kind, str) and kind in STEP_KINDS and set(entry) == {"type"}:
            steps.append(STEP_KINDS[kind])
        elif kind == "Precompiled" and "charsmap" not in steps:
            charsmap = _read_table(member(entry, "precompiled_charsmap", str, path), path)
            steps.append("charsmap")
        elif entry != MANY_SPACES:  # collapsing spaces changes no word
            raise CheckpointError(
                f"{path}: its normalizer holds {json.dumps(entry)[:60]}, which is not one of "
                "ALBERT's steps. Choose an ALBERT checkpoint."
            )
    return tuple(steps), charsmap


def _read_table(written: str, path: Path) -> bytes:
    """Decode a charsmap, which JSON holds in base 64."""
    try:
        return base64.b64decode(written, validate=True)
    except binascii.Error as error:
        raise CheckpointError(
            f"{path}: 'precompiled_charsmap' is not base 64 ({error}). Get the file again."
        ) from error


def _check_spaces(pre_tokenizer: Json, path: Path) -> None:
    """Check that words are cut at white space and begin with `▁`."""
    match pre_tokenizer.get("pretokenizers"):
        case [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁"} as mark]:
            scheme = "always" if mark.get("add_prefix_space", True) else "never"
            if mark.get("prepend_scheme", scheme) == "always" and mark.get("split", True):
                return
    raise CheckpointError(
        f"{path}: its pre_tokenizer is not ALBERT's (WhitespaceSplit, then Metaspace that puts ▁ "
        "before every word). Choose an ALBERT checkpoint."
    )


def write_unigram(
    directory: Path,
    pieces: Sequence[tuple[str, float]],
    ids: Mapping[str, int],
    settings: Json,
) -> None:
    """Write tokenizer.json and tokenizer_config.json, each atomically.

    Args:
        directory: created if missing; other files in it stay.
        pieces: the tokens of the unigram model with their scores, by id.
        ids: the id of every token, added ones included.
        settings: the result of `UnigramTokenizer.settings`.
    """
    steps = settings["steps"]
    own = {"do_lower_case": "lowercase" in steps, "keep_accents": "decompose" not in steps}
    config = shared_config(_tokenizer_class(ids, settings), own, ids, settings)
    with recording_sums(directory, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE):
        write_json(directory / TOKENIZER_FILE, _tokenizer_object(pieces, ids, settings))
        write_json(directory / TOKENIZER_CONFIG_FILE, config)


def _tokenizer_class(ids: Mapping[str, int], settings: Json) -> str:
    """Return the class of transformers that tokenizes as these settings do.

    AlbertTokenizer has fixed steps, so it is returned only if the settings are ALBERT's.
    """
    accents = () if "decompose" not in settings["steps"] else ACCENT_STEPS
    case = ("lowercase",) if "lowercase" in settings["steps"] else ()
    table = ("charsmap",) if settings["charsmap"] else ()
    is_alberts = (
        settings["steps"] == ("quotes", *accents, *case, *table)
        and ids[settings["unk_token"]] == 1
        and (settings["cls_token"], settings["sep_token"]) == ("[CLS]", "[SEP]")
    )
    return "AlbertTokenizer" if is_alberts else PLAIN_CLASS


def _tokenizer_object(
    pieces: Sequence[tuple[str, float]], ids: Mapping[str, int], settings: Json
) -> Json:
    mark = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    return tokenizer_object(
        ids,
        settings,
        normalizer={
            "type": "Sequence",
            "normalizers": _step_objects(settings["steps"], settings["charsmap"]),
        },
        pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, mark]},
        post_processor=frame_object(ids, settings),
        decoder=mark,
        model={
            "type": "Unigram",
            "unk_id": ids[settings["unk_token"]],
            "vocab": [list(entry) for entry in pieces],
            "byte_fallback": False,
        },
    )


def _step_objects(steps: Sequence[str], charsmap: bytes) -> list[Json]:
    kinds = {step: [{"type": kind}] for kind, step in STEP_KINDS.items()}
    table = base64.b64encode(charsmap).decode("ascii")
    precompiled = {"type": "Precompiled", "precompiled_charsmap": table}
    objects: dict[str, list[Json]] = {**kinds, "quotes": QUOTE_STEPS, "charsmap": [precompiled]}
    return [entry for step in steps for entry in objects[step]]
