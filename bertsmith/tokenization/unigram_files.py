"""Files of unigram tokenizers (ALBERT): reading and writing.

`tokenizer.json` is read if it exists, else SentencePiece's `spiece.model`. A setting that would
change token ids and is not supported is rejected by name, as in `tokenizer_files`.
"""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError
from bertsmith.system.checksums import recording_checksums
from bertsmith.system.files import write_json
from bertsmith.system.json_text import shown_json
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.sentencepiece_model import (
    CONTROL,
    UNKNOWN,
    USER_DEFINED,
    SentencePieceModel,
    read_sentencepiece,
)
from bertsmith.tokenization.tokenizer_config import config_settings, folder_settings, follow_config
from bertsmith.tokenization.tokenizer_files import (
    PLAIN_CLASS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    Json,
    TokenizerSource,
    bert_post_processor,
    check_parts,
    read_added_tokens,
    read_bert_post_processor,
    read_value,
    shared_config,
    tokenizer_object,
)
from bertsmith.tokenization.unigram_normalizer import SPACE

# The type of each part that a tokenizer.json must have.
UNIGRAM_KINDS = {
    "model": "Unigram",
    "normalizer": "Sequence",
    "pre_tokenizer": "Sequence",
    "decoder": "Metaspace",
}
# Part, key and value of the settings whose other values would change ids.
UNIGRAM_FIXED = (("model", "byte_fallback", False),)
COMMA_PENALTY = 100.0
"""Subtracted from the score of a number with a comma, since ALBERT reads `9,` as two tokens. It is
far larger than the scores of tokens, so that the two tokens have the higher sum. A spiece.model has
the scores without it, a tokenizer.json those with it."""

# Parts of a tokenizer.json's normalizer, and the steps of `UnigramNormalizer` that they are.
QUOTE_STEPS = [
    {"type": "Replace", "pattern": {"String": quotes}, "content": '"'} for quotes in ("``", "''")
]
MANY_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
STEP_OF_TYPE = {"NFKD": "decompose", "StripAccents": "strip_accents", "Lowercase": "lowercase"}
ACCENT_STEPS = ("decompose", "strip_accents")

DEFAULT_NAMES = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "[MASK]",
}
"""ALBERT's special tokens by the names of their arguments."""


def read_unigram(source: TokenizerSource) -> tuple[list[str], list[float], Json]:
    """Read the vocabulary, its scores and the `UnigramTokenizer` settings of a file.

    Args:
        source: the file, with the parsed content of a tokenizer.json (`root`, None for a
            spiece.model) and of the tokenizer_config.json beside it (`config`).

    Raises:
        CheckpointError: the file is damaged, or holds a tokenizer of another kind.
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
        score - COMMA_PENALTY if ends_number_with_comma(piece) else score
        for piece, score in zip(model.pieces, model.scores, strict=True)
    ]


def _model_settings(model: SentencePieceModel, config: Json, model_path: Path) -> Json:
    """Return the `UnigramTokenizer` settings of a model file and the tokenizer_config.json."""
    path = model_path.with_name(TOKENIZER_CONFIG_FILE)
    settings = folder_settings(config, names={}, vocab=model.pieces, path=path)
    settings["unk_token"] = model.of_type(UNKNOWN)[0]
    settings["charsmap"] = model.charsmap
    settings["steps"] = _albert_steps(
        lowercase=read_value(config, "do_lower_case", bool, path, default=True),
        keep_accents=read_value(config, "keep_accents", bool, path, default=False),
    )
    settings.setdefault("added_tokens", _added_tokens(model, settings))
    return settings


def _added_tokens(model: SentencePieceModel, settings: Json) -> list[AddedToken]:
    """List the special tokens, and the model's control and user-defined tokens."""
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
    """Read the vocabulary, its scores and the settings from `root`, the content of the file."""
    parts = check_parts(root, UNIGRAM_KINDS, UNIGRAM_FIXED, path)
    vocab, scores = _read_pieces(read_value(parts["model"], "vocab", list, path), path)
    unk_id = read_value(parts["model"], "unk_id", int, path)
    if not 0 <= unk_id < len(vocab):
        raise CheckpointError(
            f"{path}: unk_id is {unk_id}, and the vocabulary has {len(vocab):,} pieces. Get the "
            "file again."
        )
    _check_spaces(parts["pre_tokenizer"], path)
    steps, charsmap = _read_steps(read_value(parts["normalizer"], "normalizers", list, path), path)
    added = read_value(root, "added_tokens", list, path, default=[])
    settings = config_settings(config, path.with_name(TOKENIZER_CONFIG_FILE)) | {
        "steps": _follow_config(steps, config, path),
        "charsmap": charsmap,
        "unk_token": vocab[unk_id],
        "added_tokens": read_added_tokens(added, vocab, path),
    }
    processor = read_value(root, "post_processor", dict, path)
    return vocab, scores, settings | read_bert_post_processor(processor, path)


def _follow_config(steps: tuple[str, ...], config: Json, path: Path) -> tuple[str, ...]:
    """Return the steps, with case and accents as tokenizer_config.json says (`follow_config`)."""
    flags = {
        "lowercase": "lowercase" in steps,
        "keep_accents": not set(ACCENT_STEPS) & set(steps),
    }
    before = dict(flags)
    names = {"do_lower_case": "lowercase", "keep_accents": "keep_accents"}
    defaults = {"do_lower_case": True, "keep_accents": False}
    follow_config(flags, config, kind="unigram", names=names, defaults=defaults, path=path)
    if flags == before:
        return steps
    return _albert_steps(lowercase=flags["lowercase"], keep_accents=flags["keep_accents"])


def _albert_steps(*, lowercase: bool, keep_accents: bool) -> tuple[str, ...]:
    accents = () if keep_accents else ACCENT_STEPS
    case = ("lowercase",) if lowercase else ()
    # UnigramTokenizer leaves the last step out if the file has no charsmap.
    return ("quotes", *accents, *case, "charsmap")


def _read_pieces(entries: Sequence[Any], path: Path) -> tuple[list[str], list[float]]:
    """Read the vocabulary's list of [text, score] pairs."""
    for id_, entry in enumerate(entries):
        match entry:
            case [str(), int() | float() as score] if math.isfinite(score):
                continue
        raise CheckpointError(
            f"{path}: piece {id_:,} is {shown_json(entry)}, where a text and its score are "
            "due. Get the file again."
        )
    return [piece for piece, _ in entries], [float(score) for _, score in entries]


def _read_steps(entries: Sequence[Any], path: Path) -> tuple[tuple[str, ...], bytes]:
    """Read the parts of a normalizer; return the names of the steps, and the charsmap."""
    steps: list[str] = []
    charsmap = b""
    rest = list(entries)
    while rest:
        entry = rest.pop(0)
        kind = entry.get("type") if isinstance(entry, dict) else None
        # Two entries, one for each kind of quotes, are together one step.
        if entry == QUOTE_STEPS[0] and rest[:1] == QUOTE_STEPS[1:]:
            rest.pop(0)
            steps.append("quotes")
        elif isinstance(kind, str) and kind in STEP_OF_TYPE and set(entry) == {"type"}:
            steps.append(STEP_OF_TYPE[kind])
        elif kind == "Precompiled" and "charsmap" not in steps:
            charsmap = _read_table(read_value(entry, "precompiled_charsmap", str, path), path)
            steps.append("charsmap")
        elif entry != MANY_SPACES:  # collapsing spaces changes no word
            raise CheckpointError(
                f"{path}: its normalizer holds {shown_json(entry)}, which is not one of "
                "ALBERT's steps. Choose an ALBERT checkpoint."
            )
    return tuple(steps), charsmap


def _read_table(base64_text: str, path: Path) -> bytes:
    """Decode a charsmap, which JSON holds in base 64."""
    try:
        return base64.b64decode(base64_text, validate=True)
    except binascii.Error as error:
        raise CheckpointError(
            f"{path}: 'precompiled_charsmap' is not base 64 ({error}). Get the file again."
        ) from error


def _check_spaces(pre_tokenizer: Json, path: Path) -> None:
    """Check that words are cut at white space and begin with `▁`."""
    match pre_tokenizer.get("pretokenizers"):
        case [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁"} as metaspace]:
            # Older files have `add_prefix_space` in place of `prepend_scheme`.
            older_scheme = "always" if metaspace.get("add_prefix_space", True) else "never"
            scheme = metaspace.get("prepend_scheme", older_scheme)
            if scheme == "always" and metaspace.get("split", True):
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
    own = {
        "do_lower_case": "lowercase" in steps,
        "keep_accents": not set(ACCENT_STEPS) & set(steps),
    }
    config = shared_config(_tokenizer_class(ids, settings), own, ids, settings)
    with recording_checksums(directory, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE):
        write_json(directory / TOKENIZER_FILE, _tokenizer_object(pieces, ids, settings))
        write_json(directory / TOKENIZER_CONFIG_FILE, config)


def _tokenizer_class(ids: Mapping[str, int], settings: Json) -> str:
    """Return the class of transformers that tokenizes as these settings do.

    AlbertTokenizer has fixed steps and 1 as the id of the unknown token, so it is returned only if
    the settings are ALBERT's.
    """
    accents = ACCENT_STEPS if "decompose" in settings["steps"] else ()
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
    """Build the content of tokenizer.json."""
    metaspace = {
        "type": "Metaspace",
        "replacement": SPACE,
        "prepend_scheme": "always",
        "split": True,
    }
    return tokenizer_object(
        ids,
        settings,
        normalizer={
            "type": "Sequence",
            "normalizers": _step_objects(settings["steps"], settings["charsmap"]),
        },
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace],
        },
        post_processor=bert_post_processor(ids, settings),
        decoder=metaspace,
        model={
            "type": "Unigram",
            "unk_id": ids[settings["unk_token"]],
            "vocab": [list(entry) for entry in pieces],
            "byte_fallback": False,
        },
    )


def _step_objects(steps: Sequence[str], charsmap: bytes) -> list[Json]:
    """Return the parts of a tokenizer.json's normalizer for these steps."""
    table = base64.b64encode(charsmap).decode("ascii")
    objects: dict[str, list[Json]] = {
        **{step: [{"type": type_}] for type_, step in STEP_OF_TYPE.items()},
        "quotes": QUOTE_STEPS,
        "charsmap": [{"type": "Precompiled", "precompiled_charsmap": table}],
    }
    return [entry for step in steps for entry in objects[step]]
