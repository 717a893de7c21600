"""Loading of the tokenizer of a folder or a file, of any kind.

The files show the kind: the model type in a tokenizer.json, or the name of another file. The
reader of that kind then gives the arguments of the tokenizer's class.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, ConfigError, warn_once
from bertsmith.system.checksums import compare_checksums
from bertsmith.system.nested_folder import open_files
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization import byte_bpe_files, unigram_files, wordpiece_files
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
from bertsmith.tokenization.byte_bpe_files import MERGES_FILE, VOCAB_JSON
from bertsmith.tokenization.tokenizer import Tokenizer, special_added_tokens
from bertsmith.tokenization.tokenizer_class import (
    PLAIN_CLASSES,
    Kind,
    add_model_class,
    check_class,
    check_kind,
)
from bertsmith.tokenization.tokenizer_files import (
    SPECIAL_NAMES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
    Json,
    TokenizerSource,
    listed_tokens,
    read_added_tokens,
    read_special_token,
    read_value,
)
from bertsmith.tokenization.unigram import UnigramTokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

SENTENCEPIECE_FILE = "spiece.model"
ADDED_TOKENS_FILE = "added_tokens.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
TOKENS_BY_ID = "added_tokens_decoder"
"""Key of tokenizer_config.json: the added tokens and their flags, by id."""
EXTRA_KEYS = ("additional_special_tokens", "extra_special_tokens")
"""Keys of special tokens that have no role, as transformers 4 and 5 write them."""
KIND_FILES: Mapping[str, Kind] = {
    VOCAB_FILE: "wordpiece",
    MERGES_FILE: "byte-bpe",
    SENTENCEPIECE_FILE: "unigram",
}
"""The kind of tokenizer by the name of a file, which may stand beside a tokenizer.json or alone."""
MODEL_KINDS: Mapping[str, Kind] = {
    "WordPiece": "wordpiece",
    "BPE": "byte-bpe",
    "Unigram": "unigram",
}
"""Kind of tokenizer by the model type in a tokenizer.json."""

TOKENIZER_KINDS: Mapping[
    Kind, tuple[type[Tokenizer], Callable[[TokenizerSource], tuple[Any, ...]]]
] = {
    "wordpiece": (WordPieceTokenizer, wordpiece_files.read_wordpiece),
    "byte-bpe": (ByteBpeTokenizer, byte_bpe_files.read_byte_bpe),
    "unigram": (UnigramTokenizer, unigram_files.read_unigram),
}
"""Class of each kind, and the reader of its files. The reader returns the class's arguments, the
keyword arguments last."""


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a folder or a file: tokenizer.json if there is one, else the files of a kind.

    If a modules.json of sentence-transformers says that the model is in a folder inside, its files
    are read there. The files of kinds are vocab.txt (BERT, DistilBERT, ELECTRA), vocab.json with
    merges.txt (RoBERTa) and spiece.model (ALBERT). Settings that a tokenizer.json lacks come from
    tokenizer_config.json, and settings that both lack have the defaults of the kind.

    Raises:
        CheckpointError: there is no tokenizer, one of an unsupported kind, two of different
            kinds, or a damaged one; the message names the file.
    """
    path = Path(path)
    name = path.name if path.is_file() else None
    files = open_files(path) if name is None else SmallFiles(path.parent)
    compare_checksums(files, only=name)
    return read_tokenizer(files) if name is None else _read(*_choose_kind(files, name))


def read_tokenizer(files: SmallFiles) -> Tokenizer:
    """Read the tokenizer of a folder whose checksums were checked.

    Raises:
        CheckpointError: there is no tokenizer, a damaged one, two of different kinds, or one whose
            class cuts text in a way that bertsmith does not have.
    """
    return _read(*_find(files))


def _choose_kind(
    files: SmallFiles, name: str, config: Json | None = None
) -> tuple[Kind, TokenizerSource]:
    """Return the kind of the tokenizer in the file `name`, and the source to read it from.

    Args:
        config: the tokenizer_config.json of the folder; None if the user named a single file.
    """
    if name in (VOCAB_JSON, MERGES_FILE):
        return "byte-bpe", TokenizerSource(files, VOCAB_JSON, root=None, config=config)
    if name.endswith(".json"):
        return _choose_kind_by_content(files, name, config)
    kind: Kind = "unigram" if name.endswith(".model") else "wordpiece"
    return kind, TokenizerSource(files, name, root=None, config=config)


def _read(kind: Kind, source: TokenizerSource) -> Tokenizer:
    """Read the vocabulary and the settings, complete the added tokens, and build the tokenizer.

    Versions of transformers list added tokens in different files. A list that was read from
    tokenizer.json or tokenizer_config.json is completed by tokens that other files name or list.
    Where neither has a list, an added_tokens.json is the list. Without any list the added tokens
    are the special tokens of the kind.
    """
    tokenizer_class, read = TOKENIZER_KINDS[kind]
    try:
        # Merges or scores may stand between pieces and settings.
        *vocabulary, settings = read(source)
        pieces = vocabulary[0]
        extra = extra_special_tokens(source.config or {}, source.files.path(TOKENIZER_CONFIG_FILE))
        listed = settings.get("added_tokens")
        if _has_added_tokens_file(source):
            # `listed` is then None, or the special tokens that a spiece.model lists.
            special = listed or special_added_tokens(tokenizer_class, settings)
            settings["added_tokens"] = read_added_tokens_file(
                source.files, pieces, [*special, *extra]
            )
        elif listed is not None:
            unlisted = _unlisted_tokens(source, tokenizer_class, pieces, settings)
            settings["added_tokens"] = (*listed, *unlisted)
        tokenizer = tokenizer_class(*vocabulary, **settings)
        # The tokenizer must be built to see which special tokens it has. Extra special tokens that
        # it lacks follow all others.
        added = tokenizer.added_tokens
        if not _lists_added_tokens(source):
            added = _with_flags_of_config(added, kind, source)
        contents = {token.content for token in added}
        added = (*added, *(token for token in extra if token.content not in contents))
        if added != tokenizer.added_tokens:
            settings["added_tokens"] = added
            tokenizer = tokenizer_class(*vocabulary, **settings)
        return tokenizer
    except ConfigError as error:
        raise CheckpointError(f"{source.path}: {error.message}") from error


def _unlisted_tokens(
    source: TokenizerSource, tokenizer_class: type[Tokenizer], vocab: Sequence[str], settings: Json
) -> list[AddedToken]:
    """Return the tokens that a folder names outside of its list of added tokens.

    transformers keeps these tokens whole in texts, too. They are the tokens that only
    tokenizer_config.json or added_tokens.json lists, and special tokens of the vocabulary that
    tokenizer_config.json or the tokenizer's class names.
    """
    if source.config is None:  # a file by itself
        return []
    config, path = source.config, source.files.path(TOKENIZER_CONFIG_FILE)
    tokens = {token.content: token for token in settings["added_tokens"]}
    pieces = set(vocab)
    unlisted = list(tokens_listed_elsewhere(source.files, config, vocab, settings["added_tokens"]))
    tokens |= {token.content: token for token in unlisted}
    # Classes that cut text by tokenizer.json alone have no special tokens of their own.
    is_plain = config.get("tokenizer_class") in PLAIN_CLASSES
    defaults = {} if is_plain else {**tokenizer_class.default_tokens, **settings}
    for name in SPECIAL_NAMES:
        value = config.get(name) or defaults.get(name)
        if value is None:
            continue
        token = read_special_token(value, name, path)
        if token.content in pieces - tokens.keys():
            tokens[token.content] = token
            unlisted.append(token)
    return unlisted


def tokens_listed_elsewhere(
    files: SmallFiles, config: Json, vocab: Sequence[str], listed: Sequence[AddedToken]
) -> tuple[AddedToken, ...]:
    """Read the added tokens of a folder that are not among the `listed` ones.

    As in transformers, they are those of tokenizer_config.json, or if this file has no list, those
    of added_tokens.json.

    Args:
        config: the content of tokenizer_config.json.
        vocab: the tokens of the vocabulary, by id.

    Raises:
        CheckpointError: an entry is damaged, or its id is not the next one.
    """
    tokens = {token.content: token for token in listed}
    # The ids of these entries must agree with those of the vocabulary and the listed tokens.
    pieces = set(vocab)
    tokens_by_id = [*vocab, *(content for content in tokens if content not in pieces)]
    path = files.path(TOKENIZER_CONFIG_FILE)
    if TOKENS_BY_ID not in config and files.has(ADDED_TOKENS_FILE):
        ids = files.read_json(ADDED_TOKENS_FILE)
        new_ids = {content: id_ for content, id_ in ids.items() if content not in tokens}
        special = _special_contents(config, path)
        entries = [_entry(content, id_, special) for content, id_ in new_ids.items()]
        return read_added_tokens(entries, tokens_by_id, files.path(ADDED_TOKENS_FILE))
    configured = {
        id_: entry
        for id_, entry in read_value(config, TOKENS_BY_ID, dict, path, default={}).items()
        if not _is_listed(entry, tokens)
    }
    return listed_tokens(configured, tokens_by_id, path)


def _entry(content: str, id_: object, special: Collection[str]) -> Json:
    """Build the entry of a token of added_tokens.json, with the flags of transformers."""
    is_special = content in special
    token = AddedToken(content, normalized=not is_special, special=is_special)
    return {**asdict(token), "id": id_}


def _special_contents(config: Json, path: Path) -> set[str]:
    """Return the special tokens that tokenizer_config.json names, with a role or without."""
    named = (
        read_special_token(config[name], name, path) for name in SPECIAL_NAMES if config.get(name)
    )
    return {token.content for token in (*named, *extra_special_tokens(config, path))}


def _is_listed(entry: object, tokens: Mapping[str, AddedToken]) -> bool:
    """Return whether an entry of a file is one of these tokens, which are given by content."""
    content = entry.get("content") if isinstance(entry, dict) else None
    return isinstance(content, str) and content in tokens


def extra_special_tokens(config: Json, path: Path) -> list[AddedToken]:
    """Read the special tokens of tokenizer_config.json that have no role, as [MASK] has one."""
    tokens: dict[str, AddedToken] = {}
    for key in EXTRA_KEYS:
        listed = [] if config.get(key) is None else read_value(config, key, (list, dict), path)
        for entry in listed.values() if isinstance(listed, dict) else listed:
            token = read_special_token(entry, key, path)
            tokens.setdefault(token.content, token)
    return list(tokens.values())


def _with_flags_of_config(
    tokens: Sequence[AddedToken], kind: Kind, source: TokenizerSource
) -> tuple[AddedToken, ...]:
    """Give special tokens the flags that tokenizer_config.json has for them.

    The file has flags for a token that is an object there; all other tokens keep their flags.
    """
    config, path = source.config or {}, source.files.path(TOKENIZER_CONFIG_FILE)
    tokens_with_flags: dict[str, AddedToken] = {}
    for name in SPECIAL_NAMES:
        if not isinstance(config.get(name), dict):
            continue
        token = read_special_token(config[name], name, path)
        if kind == "byte-bpe":
            # A vocab.json with merges.txt names no normalizer, so `normalized` changes no ids. But
            # fingerprints hold the flag, and those of older corpora have to stay valid.
            token = replace(token, normalized=False)
        tokens_with_flags.setdefault(token.content, token)
    return tuple(tokens_with_flags.get(token.content, token) for token in tokens)


def _lists_added_tokens(source: TokenizerSource) -> bool:
    """Return whether a file lists the added tokens with their flags."""
    # `root` is the content of a tokenizer.json, None for any other file.
    return source.root is not None or bool((source.config or {}).get(TOKENS_BY_ID))


def _has_added_tokens_file(source: TokenizerSource) -> bool:
    """Return whether only an added_tokens.json, of transformers before 4.34, has added tokens."""
    if source.config is None:  # a file by itself
        return False
    has_list = source.root is not None or TOKENS_BY_ID in source.config
    return not has_list and source.files.has(ADDED_TOKENS_FILE)


def read_added_tokens_file(
    files: SmallFiles, vocab: Sequence[str], special: Sequence[AddedToken]
) -> tuple[AddedToken, ...]:
    """Read added_tokens.json, and add the `special` tokens that it or the vocabulary has."""
    added = files.read_json(ADDED_TOKENS_FILE)  # ids by token
    ids = {**{token: id_ for id_, token in enumerate(vocab)}, **added}
    # The file has no flags; these are the ones that transformers gives its tokens.
    tokens = {name: AddedToken(name, normalized=True, special=False) for name in added}
    tokens |= {token.content: token for token in special if token.content in ids}
    entries = [{**asdict(token), "id": ids[name]} for name, token in tokens.items()]
    return read_added_tokens(entries, vocab, files.path(ADDED_TOKENS_FILE))


def _find(files: SmallFiles) -> tuple[Kind, TokenizerSource]:
    """Find the tokenizer of a folder; return its kind and the source to read it from.

    Raises:
        CheckpointError: there is no tokenizer, or its files and the class that the folder names
            contradict each other.
    """
    config = add_model_class(files, read_tokenizer_config(files))
    check_class(files, config)
    for name in (TOKENIZER_FILE, *KIND_FILES):
        if files.has(name):
            kind, source = _choose_kind(files, name, config)
            _check_alone(files, kind, name)
            check_kind(files, config, kind, name)
            return kind, source
    directory = files.directory
    if not directory.is_dir():
        raise CheckpointError(
            f"{directory}: there is no such folder. Name the folder of a tokenizer or of a model, "
            f"or a {VOCAB_FILE}."
        )
    raise CheckpointError(
        f"{directory}: has neither {TOKENIZER_FILE} nor {VOCAB_FILE}, nor {MERGES_FILE} with "
        f"{VOCAB_JSON}, nor {SENTENCEPIECE_FILE}. Name a folder that has one of them, or a "
        f"{VOCAB_FILE}."
    )


def read_tokenizer_config(files: SmallFiles) -> Json:
    """Read tokenizer_config.json, with the special tokens of special_tokens_map.json.

    As in transformers, the map is read only if tokenizer_config.json lists no added tokens by id.
    Then the map's tokens count, and a warning names each that differs. Further special tokens are
    those of both files, but where tokenizer_config.json has any, the map's
    `additional_special_tokens` are not read.
    """
    has_config = files.has(TOKENIZER_CONFIG_FILE)
    config: Json = files.read_json(TOKENIZER_CONFIG_FILE) if has_config else {}
    if TOKENS_BY_ID in config or not files.has(SPECIAL_TOKENS_FILE):
        return config
    token_map, path = files.read_json(SPECIAL_TOKENS_FILE), files.path(SPECIAL_TOKENS_FILE)
    for name in SPECIAL_NAMES:
        if token_map.get(name) is not None:
            mapped = read_special_token(token_map[name], name, path).content
            _warn_of_other_name(config.get(name), name, mapped, path)
    extra_special_tokens(token_map, path)  # checks the entries, for a message that names their file
    old_key, new_key = EXTRA_KEYS
    if old_key in config or new_key in config:
        token_map.pop(old_key, None)
    if new_key in config and new_key in token_map:
        token_map[new_key] = [*_values_of(config[new_key]), *_values_of(token_map[new_key])]
    return config | token_map


def _warn_of_other_name(configured: object, name: str, mapped: str, path: Path) -> None:
    """Warn if the token `name` of special_tokens_map.json differs from the `configured` one."""
    content = configured.get("content") if isinstance(configured, dict) else configured
    if content not in (None, mapped):
        warn_once(
            f"{path}: {name} is {mapped!r}, and {content!r} in {TOKENIZER_CONFIG_FILE}. "
            f"{SPECIAL_TOKENS_FILE} is used, as in transformers; correct the wrong one."
        )


def _values_of(tokens: object) -> Iterable[object]:
    """Return the tokens of a list, or of an object that has them by name."""
    if isinstance(tokens, dict):
        return list(tokens.values())
    return tokens if isinstance(tokens, list) else [tokens]


def _choose_kind_by_content(
    files: SmallFiles, name: str, config: Json | None
) -> tuple[Kind, TokenizerSource]:
    """Return the kind of a tokenizer.json by its model type, and the source to read it from."""
    root = files.read_json(name)
    model = root.get("model")
    if isinstance(model, dict) and model.get("type") is None:
        # Old files have no type, so a setting that only one type has shows it.
        type_of_key = {
            "merges": "BPE",
            "unk_id": "Unigram",
            "max_input_chars_per_word": "WordPiece",
        }
        model["type"] = next((type_ for key, type_ in type_of_key.items() if key in model), None)
    model_type = model.get("type") if isinstance(model, dict) else None
    # Content of no known kind goes to the reader of WordPiece, which rejects it.
    kind: Kind = "wordpiece"
    if isinstance(model_type, str):
        kind = MODEL_KINDS.get(model_type, "wordpiece")
    return kind, TokenizerSource(files, name, root=root, config=config)


def _check_alone(files: SmallFiles, kind: Kind, name: str) -> None:
    """Check that the folder has no file of another kind than `kind`, that of the file `name`.

    Raises:
        CheckpointError: the folder has a file of another kind.
    """
    present = {file: file_kind for file, file_kind in KIND_FILES.items() if files.has(file)}
    if present and (kind not in present.values() or len(present) > 1):
        other = next(file for file, file_kind in present.items() if file_kind != kind)
        raise CheckpointError(
            f"{files.directory}: {name} is a {kind} tokenizer and {other} a {present[other]} one. "
            "Remove the file that does not belong to the model."
        )
