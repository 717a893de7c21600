"""Tokenizer folders in Hugging Face form: read into constructor arguments, written from them.

Read are `tokenizer.json` (which decides, where it exists), `vocab.txt`, and what old and new
transformers put beside them: `tokenizer_config.json`, `special_tokens_map.json`,
`added_tokens.json`. Everything that would change token ids and that we do not do is refused by
name. Truncation and padding stored in a tokenizer.json are not: they are arguments of a call here.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, warn_once
from bertsmith.system.files import atomic_write, write_json
from bertsmith.system.small_files import SmallFiles
from bertsmith.system.sums import summed
from bertsmith.tokenization.added_tokens import AddedToken

VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"
SPECIAL_NAMES = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
# What a tokenizer.json must be made of.
KINDS = {
    "model": "WordPiece",
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
    "decoder": "WordPiece",
}
# Settings whose other values would change ids.
FIXED = (
    ("normalizer", "clean_text", True),
    ("model", "continuing_subword_prefix", "##"),
    ("decoder", "prefix", "##"),
)
FEWEST_TOKENS = 3
"""What a text has with two special tokens and one of its own."""
TOKEN_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

Json = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """File and parsed settings of a tokenizer to be read.

    `root` is the content of a tokenizer.json, None for other files; `config` that of the
    tokenizer_config.json beside it, None where a file was named by itself.
    """

    files: SmallFiles
    name: str
    root: Json | None
    config: Json | None

    @property
    def path(self) -> Path:
        return self.files.path(self.name)


def read(source: Source) -> tuple[list[str], Json]:
    """Read the vocabulary and the `WordPieceTokenizer` settings of a file.

    Raises:
        CheckpointError: damaged, or a tokenizer of another kind.
    """
    config = source.config
    if source.root is not None:
        vocab, settings = read_tokenizer_json(source.path, source.root, config or {})
        if config is not None and source.files.has(VOCAB_FILE):
            compare_vocab(source.files, vocab, settings["added_tokens"])
        return vocab, settings
    vocab = read_vocab(source.files, source.name)
    return vocab, {} if config is None else read_settings(source.files, vocab, config)


def read_vocab(files: SmallFiles, name: str) -> list[str]:
    """Read the lines of a vocab.txt: one piece each, ended by a line feed and nothing else."""
    content, path = files.read(name), files.path(name)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CheckpointError(
            f"{path}:{line}: byte {error.start:,} is not UTF-8. A vocabulary is UTF-8 text with "
            "one piece per line; get the file again or convert it."
        ) from error
    # Not splitlines(): a vocabulary may well hold U+2028 or U+0085.
    lines = text.removesuffix("\n").split("\n") if text else []
    if lines and all(line.endswith("\r") for line in lines[:-1]) and len(lines) > 1:
        lines = [line.removesuffix("\r") for line in lines]
    return lines


def compare_vocab(files: SmallFiles, vocab: Sequence[str], added: Sequence[AddedToken]) -> None:
    """Warn if a vocab.txt gives other ids than the tokenizer.json beside it, which is used.

    It may go on with added tokens, all or none of which a tokenizer.json has in its vocabulary.
    """
    try:
        lines = read_vocab(files, VOCAB_FILE)
    except CheckpointError as error:
        found = str(error).partition(". ")[0]
    else:
        if lines == vocab:
            return
        pieces = set(vocab)
        expected = [*vocab, *(token.content for token in added if token.content not in pieces)]
        if lines == expected[: max(len(lines), len(vocab))]:
            return
        pairs = zip(lines, expected, strict=False)
        differing = [id_ for id_, (line, token) in enumerate(pairs) if line != token]
        id_ = differing[0] if differing else min(len(lines), len(expected))
        ours, theirs = (
            repr(tokens[id_]) if id_ < len(tokens) else "nothing" for tokens in (expected, lines)
        )
        found = f"{files.path(VOCAB_FILE)}: id {id_:,} is {theirs}, and {ours} in {TOKENIZER_FILE}"
        if len(differing) > 1:
            found += f"; {len(differing):,} ids differ"
    warn_once(f"{found}. {TOKENIZER_FILE} is used; copy both again, or remove the wrong one.")


def read_config(files: SmallFiles) -> Json:
    """Read tokenizer_config.json, with the names of special_tokens_map.json where it gives none."""
    config: Json = {}
    for name in ("special_tokens_map.json", CONFIG_FILE):
        if files.has(name):
            config |= read_object(files, name)
    return config


def read_settings(files: SmallFiles, vocab: Sequence[str], config: Json) -> Json:
    """Read the settings that stand beside a vocab.txt."""
    place = files.path(CONFIG_FILE)
    settings = config_settings(config, place)
    for key, name in (
        ("do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents"),
        ("tokenize_chinese_chars", "tokenize_chinese_chars"),
    ):
        if config.get(key) is not None:
            settings[name] = member(config, key, bool, place)
    listed = dict(member(config, "added_tokens_decoder", dict, place, {}))
    if not listed and files.has("added_tokens.json"):
        listed = special_tokens_of(vocab, settings) | {
            str(id_): {"content": content, "normalized": True}
            for content, id_ in read_object(files, "added_tokens.json").items()
        }
    if listed:
        settings["added_tokens"] = listed_tokens(listed, vocab, place)
    return settings


def listed_tokens(listed: Json, vocab: Sequence[str], path: Path) -> tuple[AddedToken, ...]:
    """The added tokens of an `added_tokens_decoder`, which has them by their ids."""
    entries = [
        {**member(listed, id_, dict, path), "id": int(id_) if id_.isdecimal() else id_}
        for id_ in listed
    ]
    return read_added_tokens(entries, vocab, path)


def special_tokens_of(vocab: Sequence[str], settings: Json) -> Json:
    """The special tokens in the form of `added_tokens_decoder`."""
    contents = {settings.get(name, f"[{name[:-6].upper()}]") for name in SPECIAL_NAMES}
    ids = {token: id_ for id_, token in enumerate(vocab)}
    return {
        str(ids[content]): {"content": content, "normalized": False, "special": True}
        for content in sorted(contents & ids.keys())
    }


def read_tokenizer_json(path: Path, root: Json, config: Json) -> tuple[list[str], Json]:
    """Vocabulary and settings of a tokenizer.json; `config` adds what that format cannot say."""
    parts = check_parts(root, KINDS, FIXED, path)
    model, normalizer, decoder = parts["model"], parts["normalizer"], parts["decoder"]
    vocab = read_vocab_ids(member(model, "vocab", dict, path), path)
    max_chars = member(model, "max_input_chars_per_word", int, path, 100)
    check_range(max_chars, 1, "max_input_chars_per_word", path)
    accents = normalizer.get("strip_accents")
    settings = config_settings(config, path.with_name(CONFIG_FILE)) | {
        "lowercase": member(normalizer, "lowercase", bool, path),
        "strip_accents": None
        if accents is None
        else member(normalizer, "strip_accents", bool, path),
        "tokenize_chinese_chars": member(normalizer, "handle_chinese_chars", bool, path),
        "unk_token": member(model, "unk_token", str, path),
        "max_input_chars_per_word": max_chars,
        "decoder_cleanup": member(decoder, "cleanup", bool, path, True),
        "added_tokens": read_added_tokens(member(root, "added_tokens", list, path), vocab, path),
    }
    return vocab, settings | read_frame(member(root, "post_processor", dict, path), path)


def check_parts(
    root: Json, kinds: Mapping[str, str], fixed: Sequence[tuple[str, str, Any]], path: Path
) -> Mapping[str, Json]:
    """The parts of a tokenizer.json by name, each of which must be of its kind.

    Args:
        kinds: the kind of each part. A decoder may be absent: it decides no ids. A normalizer
            that is not named must be.
        fixed: part, key and the only value that is supported; the key may be absent or null.
    """
    parts = {
        name: {} if root.get(name) is None else member(root, name, dict, path) for name in kinds
    }
    found = {name: part.get("type") for name, part in parts.items()}
    if not parts["decoder"]:
        found["decoder"] = kinds["decoder"]
    wrong = [name for name in kinds if found[name] != kinds[name]]
    if wrong:
        raise CheckpointError(
            f"{path}: its {wrong[0]} is {found[wrong[0]] or 'absent'}, and where the model is "
            f"{kinds['model']}, {kinds[wrong[0]]} alone is supported. Choose another checkpoint."
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
                f"{path}: {key} is {json.dumps(actual)[:60]}, and only {json.dumps(value)} is "
                "supported. Choose another checkpoint."
            )
    return parts


def read_vocab_ids(ids: Mapping[str, Any], path: Path) -> list[str]:
    """A token → id table as a list by id."""
    numbers = {token: member(ids, token, int, path) for token in ids}
    vocab = sorted(numbers, key=numbers.__getitem__)
    for expected, token in enumerate(vocab):
        if ids[token] != expected:
            raise CheckpointError(
                f"{path}: where id {expected:,} is due, the vocabulary has {token!r} with id "
                f"{ids[token]:,}. Ids must run from 0 without gaps or repeats."
            )
    return vocab


def read_added_tokens(
    entries: Sequence[Any], vocab: Sequence[str], path: Path
) -> tuple[AddedToken, ...]:
    """Added tokens in the order of their ids, which must agree with the vocabulary."""
    checked = [member({"added token": entry}, "added token", dict, path) for entry in entries]
    expected = {token: id_ for id_, token in enumerate(vocab)}
    tokens = []
    for entry in sorted(checked, key=lambda entry: int(member(entry, "id", int, path))):
        content = member(entry, "content", str, path)
        id_ = expected.setdefault(content, len(expected))
        if entry["id"] != id_:
            raise CheckpointError(
                f"{path}: the added token {content!r} has id {entry['id']:,}, but by the "
                f"vocabulary it is {id_:,}. Get the folder again."
            )
        flags = {flag: member(entry, flag, bool, path, False) for flag in TOKEN_FLAGS}
        tokens.append(AddedToken(content, **flags))
    return tuple(tokens)


def read_frame(processor: Json, path: Path) -> Json:
    """The names of [CLS] and [SEP] from the post-processor, which must be BERT's."""
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
            if processor | template(cls_token, sep_token) == processor:
                return {"cls_token": cls_token, "sep_token": sep_token}
    raise CheckpointError(
        f"{path}: its post_processor ({processor.get('type')}) does not build [CLS] A [SEP] and "
        "[CLS] A [SEP] B [SEP]. Choose a BERT checkpoint."
    )


def template(cls_token: str, sep_token: str) -> Json:
    """BERT's two templates as TemplateProcessing writes them."""

    def special(token: str, type_id: int) -> Json:
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    def sequence(name: str, type_id: int) -> Json:
        return {"Sequence": {"id": name, "type_id": type_id}}

    single = [special(cls_token, 0), sequence("A", 0), special(sep_token, 0)]
    return {"single": single, "pair": [*single, sequence("B", 1), special(sep_token, 1)]}


def config_settings(config: Json, path: Path) -> Json:
    """Return the special tokens and length of tokenizer_config.json."""
    settings: Json = {}
    for name in SPECIAL_NAMES:
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            settings[name] = value
    if config.get("model_max_length") is not None:
        length = member(config, "model_max_length", (int, float), path)
        # "No limit" is 1e30 to transformers, which is finite.
        check_range(length, FEWEST_TOKENS, "model_max_length", path)
        settings["model_max_length"] = int(length)
    return settings


def read_object(files: SmallFiles, name: str) -> Json:
    """Read a JSON file that holds one object."""
    path = files.path(name)
    try:
        value = json.loads(files.read(name))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: not valid JSON ({error}). Get the file again; it may be cut short."
        ) from error
    if not isinstance(value, dict):
        found = KIND_NAMES.get(type(value), "null")
        raise CheckpointError(f"{path}: holds {found}, and must hold an object.")
    return value


KIND_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def member(
    owner: Mapping[str, Any],
    key: str,
    kind: type | tuple[type, ...],
    path: Path,
    default: Any = None,
) -> Any:
    """`owner[key]`, of the right type; `default` where the key is absent."""
    value = owner.get(key, default)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        found = "is missing" if value is None else f"is {json.dumps(value)[:60]}"
        names = " or ".join(KIND_NAMES[each] for each in kinds)
        raise CheckpointError(f"{path}: {key!r} {found}, and must be {names}. Repair the file.")
    return value


def check_range(value: float, lowest: int, key: str, path: Path) -> None:
    """Raise CheckpointError unless `value` is finite and at least `lowest`."""
    if not lowest <= value < math.inf:
        raise CheckpointError(
            f"{path}: {key!r} is {json.dumps(value)[:60]}, and must be a finite number, {lowest} "
            "or more. Repair the file."
        )


def write(directory: Path, pieces: Sequence[str], ids: Mapping[str, int], settings: Json) -> None:
    """Write vocab.txt, tokenizer.json and tokenizer_config.json, each atomically.

    Args:
        directory: made where it does not exist; other files in it stay.
        pieces: the WordPiece vocabulary, by id.
        ids: the id of every token, added ones included.
        settings: as `Tokenizer.settings` gives them.
    """
    with summed(directory, VOCAB_FILE, TOKENIZER_FILE, CONFIG_FILE):
        with atomic_write(directory / VOCAB_FILE, "w") as file:
            file.writelines(f"{piece}\n" for piece in pieces)
        write_json(directory / TOKENIZER_FILE, tokenizer_object(pieces, ids, settings))
        write_json(directory / CONFIG_FILE, config_object(ids, settings))


def tokenizer_object(pieces: Sequence[str], ids: Mapping[str, int], settings: Json) -> Json:
    """The content of tokenizer.json."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": token_entries(ids, settings),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings["tokenize_chinese_chars"],
            "strip_accents": settings["strip_accents"],
            "lowercase": settings["lowercase"],
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": frame_object(ids, settings),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": settings["decoder_cleanup"]},
        "model": {
            "type": "WordPiece",
            "unk_token": settings["unk_token"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": settings["max_input_chars_per_word"],
            "vocab": {piece: id_ for id_, piece in enumerate(pieces)},
        },
    }


def frame_object(ids: Mapping[str, int], settings: Json) -> Json:
    """The post-processor that builds [CLS] A [SEP] B [SEP]."""
    frame = (settings["cls_token"], settings["sep_token"])
    return {
        "type": "TemplateProcessing",
        **template(*frame),
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in frame
        },
    }


def config_object(ids: Mapping[str, int], settings: Json) -> Json:
    """The content of tokenizer_config.json, for transformers 4 and 5."""
    own = {
        "do_lower_case": settings["lowercase"],
        "strip_accents": settings["strip_accents"],
        "tokenize_chinese_chars": settings["tokenize_chinese_chars"],
    }
    return shared_config("BertTokenizer", own, ids, settings)


def shared_config(tokenizer_class: str, own: Json, ids: Mapping[str, int], settings: Json) -> Json:
    """Build tokenizer_config.json from what all kinds share and a kind's `own` fields."""
    return {
        "tokenizer_class": tokenizer_class,
        **own,
        "model_max_length": settings["model_max_length"],
        **{name: settings[name] for name in SPECIAL_NAMES},
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": {
            str(ids[token.content]): token_object(token) for token in settings["added_tokens"]
        },
    }


def token_entries(ids: Mapping[str, int], settings: Json) -> list[Json]:
    """The added tokens as tokenizer.json lists them."""
    return [
        {"id": ids[token.content], **token_object(token)}
        for token in sorted(settings["added_tokens"], key=lambda token: ids[token.content])
    ]


def token_object(token: AddedToken) -> Json:
    """An added token as both files hold it."""
    return {"content": token.content} | {flag: getattr(token, flag) for flag in TOKEN_FLAGS}
