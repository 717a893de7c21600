"""Reading and writing of the parts of tokenizer files that all kinds of tokenizers have.

The kinds are WordPiece, byte-level BPE and unigram, whose readers (`wordpiece_files` and so on)
call these functions. Each takes the path of its file, for messages.
A setting that would change token ids and is not supported is refused by name. Truncation and
padding stored in a tokenizer.json are ignored: here they are arguments of a call.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError
from bertsmith.system.json_text import shown_json
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.added_tokens import AddedToken

VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SPECIAL_NAMES = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
PLAIN_CLASS = "PreTrainedTokenizerFast"
"""Class of transformers that reads tokenizer.json, and special tokens' names from its config."""
MIN_MAX_LENGTH = 3
"""Smallest `model_max_length`: two special tokens and one of the text."""
TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
"""Keys of an added token in tokenizer.json, and fields of `AddedToken`."""

Json = dict[str, Any]


@dataclass(frozen=True)
class TokenizerSource:
    """The file `name` of the folder `files`, from which a tokenizer is read, and parsed settings.

    `root` is the content of a tokenizer.json, None for other files. `config` is the content of the
    tokenizer_config.json beside it, None if the user named a single file instead of a folder.
    """

    files: SmallFiles
    name: str
    root: Json | None
    config: Json | None

    @property
    def path(self) -> Path:
        return self.files.path(self.name)


def listed_tokens(listed: Json, vocab: Sequence[str], path: Path) -> tuple[AddedToken, ...]:
    """Read the added tokens of an `added_tokens_decoder`, whose keys are ids.

    Raises:
        CheckpointError: an entry is damaged, or its token has another id in the vocabulary.
    """
    entries = [
        {**read_value(listed, id_, dict, path), "id": int(id_) if id_.isdecimal() else id_}
        for id_ in listed
    ]
    return read_added_tokens(entries, vocab, path)


def check_parts(
    root: Json, kinds: Mapping[str, str], fixed: Sequence[tuple[str, str, Any]], path: Path
) -> Mapping[str, Json]:
    """Check and return the parts of a tokenizer.json by name.

    Args:
        root: the content of the file.
        kinds: the type that each part must have. A decoder may be absent, since it decides no ids.
            A normalizer must be absent if `kinds` does not name one.
        fixed: part, key and the only value that is supported; the key may be absent or null.

    Raises:
        CheckpointError: a part is of another type, or a setting has another value.
    """
    parts = {
        name: {} if root.get(name) is None else read_value(root, name, dict, path) for name in kinds
    }
    types = {name: part.get("type") for name, part in parts.items()}
    if not parts["decoder"]:
        types["decoder"] = kinds["decoder"]
    wrong = [name for name in kinds if types[name] != kinds[name]]
    if "model" in wrong:
        raise CheckpointError(
            f"{path}: its model is {types['model'] or 'absent'}, and only WordPiece, BPE and "
            "Unigram are supported. Choose another checkpoint."
        )
    if wrong:
        raise CheckpointError(
            f"{path}: its {wrong[0]} is {types[wrong[0]] or 'absent'}, and where the model is "
            f"{kinds['model']}, only {kinds[wrong[0]]} is supported. Choose another checkpoint."
        )
    if "normalizer" not in kinds and root.get("normalizer") is not None:
        raise CheckpointError(
            f"{path}: it has a normalizer, and where the model is {kinds['model']}, none is "
            "supported. Choose another checkpoint."
        )
    for name, key, value in fixed:
        actual = parts[name].get(key)
        if actual is not None and actual != value:
            raise CheckpointError(
                f"{path}: {key} is {shown_json(actual)}, and only {json.dumps(value)} is "
                "supported. Choose another checkpoint."
            )
    return parts


def read_vocab_ids(ids: Mapping[str, Any], path: Path) -> list[str]:
    """Convert a token → id table to a list by id.

    Raises:
        CheckpointError: an id is missing, occurs twice, or is not a whole number.
    """
    numbers = {token: read_value(ids, token, int, path) for token in ids}
    vocab = sorted(numbers, key=numbers.__getitem__)
    for expected_id, token in enumerate(vocab):
        if ids[token] != expected_id:
            raise CheckpointError(
                f"{path}: {token!r} has id {ids[token]:,} in the vocabulary instead of "
                f"{expected_id:,}. Ids must run from 0 without gaps or repeats."
            )
    return vocab


def read_added_tokens(
    entries: Sequence[Any], vocab: Sequence[str], path: Path
) -> tuple[AddedToken, ...]:
    """Read added tokens in the order of ids.

    A token of the vocabulary must have its id there; the others must have the next ids.

    Raises:
        CheckpointError: an entry is damaged, or has another id.
    """
    checked = [read_value({"added token": entry}, "added token", dict, path) for entry in entries]
    expected_ids = {token: id_ for id_, token in enumerate(vocab)}
    tokens = []
    for entry in sorted(checked, key=lambda entry: int(read_value(entry, "id", int, path))):
        token = _read_token(entry, path)
        id_ = expected_ids.setdefault(token.content, len(expected_ids))
        if entry["id"] != id_:
            raise CheckpointError(
                f"{path}: the added token {token.content!r} has id {entry['id']:,}, but by the "
                f"vocabulary it is {id_:,}. Get the folder again."
            )
        tokens.append(token)
    return tuple(tokens)


def _read_token(entry: Json, path: Path) -> AddedToken:
    """Read an added token of a tokenizer.json, with its flags.

    Raises:
        CheckpointError: its content is not text, or a flag neither true nor false.
    """
    flags = {flag: read_value(entry, flag, bool, path, default=False) for flag in TOKEN_FLAGS}
    return AddedToken(read_value(entry, "content", str, path), **flags)


def read_special_token(value: Any, name: str, path: Path) -> AddedToken:
    """Read a special token of tokenizer_config.json: its text, or an object with its flags.

    Args:
        name: the key of the token in the file, for messages.

    Raises:
        CheckpointError: the value is neither text nor an object, or the object is damaged.
    """
    value = read_value({name: value}, name, (str, dict), path)
    fields = value if isinstance(value, dict) else {"content": value}
    return replace(_read_token(fields, path), special=True)


JSON_TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}
"""Names of JSON's types in messages."""


def read_value(
    owner: Mapping[str, Any],
    key: str,
    type_: type | tuple[type, ...],
    path: Path,
    default: Any = None,
) -> Any:
    """Return `owner[key]`, or `default` if the key is absent; check its type.

    Args:
        type_: the allowed type, or several; true and false are no numbers.
        path: the file, for messages.

    Raises:
        CheckpointError: the value is of another type.
    """
    value = owner.get(key, default)
    types = type_ if isinstance(type_, tuple) else (type_,)
    # Python counts true and false as whole numbers.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        problem = "is missing" if value is None else f"is {shown_json(value)}"
        names = " or ".join(JSON_TYPE_NAMES[each] for each in types)
        raise CheckpointError(f"{path}: {key!r} {problem}, and must be {names}. Fix the file.")
    return value


def check_range(value: float, lowest: int, key: str, path: Path) -> None:
    """Check that `value` is finite and at least `lowest`.

    Raises:
        CheckpointError: `value` is out of range.
    """
    if not lowest <= value < math.inf:
        raise CheckpointError(
            f"{path}: {key!r} is {shown_json(value)}, and must be a finite number, {lowest} "
            "or more. Fix the file."
        )


def shared_config(tokenizer_class: str, own: Json, ids: Mapping[str, int], settings: Json) -> Json:
    """Build tokenizer_config.json from the fields that all kinds share and a kind's `own` ones.

    transformers finds special tokens in texts if they are named here or belong to the class. So a
    special token that this tokenizer does not look for is not named, and the class is then
    `PLAIN_CLASS`, which has no special tokens of its own.
    """
    found_in_texts = {token.content for token in settings["added_tokens"]}
    names = {name: settings[name] for name in SPECIAL_NAMES if settings[name] in found_in_texts}
    if len(names) < len(SPECIAL_NAMES):
        tokenizer_class = PLAIN_CLASS
    return {
        "tokenizer_class": tokenizer_class,
        **own,
        "model_max_length": settings["model_max_length"],
        **names,
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": {
            str(ids[token.content]): _token_object(token) for token in settings["added_tokens"]
        },
    }


def tokenizer_object(ids: Mapping[str, int], settings: Json, **parts: Any) -> Json:
    """Build tokenizer.json from the fields that all kinds share and a kind's `parts`."""
    added = sorted(settings["added_tokens"], key=lambda token: ids[token.content])
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[token.content], **_token_object(token)} for token in added],
        **parts,
    }


def _token_object(token: AddedToken) -> Json:
    return {"content": token.content} | {flag: getattr(token, flag) for flag in TOKEN_FLAGS}


def read_bert_post_processor(processor: Json, path: Path, pair_type_id: int = 1) -> Json:
    """Read the names of [CLS] and [SEP] from a tokenizer.json's post-processor.

    It puts these tokens around texts, and must be BERT's.

    Args:
        pair_type_id: the type id that the second text of a pair must have.

    Raises:
        CheckpointError: the post-processor is another one, or damaged.
    """
    match processor:
        case {"type": "BertProcessing", "cls": [str(cls_token), _], "sep": [str(sep_token), _]}:
            return {"cls_token": cls_token, "sep_token": sep_token}
        case {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": str(cls_token)}},
                _,
                {"SpecialToken": {"id": str(sep_token)}},
            ],
        }:
            template = _template(cls_token, sep_token, pair_type_id)
            if all(processor.get(key) == value for key, value in template.items()):
                return {"cls_token": cls_token, "sep_token": sep_token}
    raise CheckpointError(
        f"{path}: its post_processor ({processor.get('type')}) does not build [CLS] A [SEP] and "
        "[CLS] A [SEP] B [SEP]. Choose a BERT checkpoint."
    )


def _template(cls_token: str, sep_token: str, pair_type_id: int) -> Json:
    """Build the entries of a TemplateProcessing that say how one text or a pair becomes a row."""

    def special(token: str, type_id: int) -> Json:
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    def sequence(name: str, type_id: int) -> Json:
        return {"Sequence": {"id": name, "type_id": type_id}}

    single = [special(cls_token, 0), sequence("A", 0), special(sep_token, 0)]
    second = [sequence("B", pair_type_id), special(sep_token, pair_type_id)]
    return {"single": single, "pair": [*single, *second]}


def bert_post_processor(ids: Mapping[str, int], settings: Json, pair_type_id: int = 1) -> Json:
    """Build the post-processor for [CLS] A [SEP] B [SEP]."""
    cls_token, sep_token = settings["cls_token"], settings["sep_token"]
    return {
        "type": "TemplateProcessing",
        **_template(cls_token, sep_token, pair_type_id),
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]}
            for token in (cls_token, sep_token)
        },
    }
