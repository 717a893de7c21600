"""Reading of tokenizer_config.json: special tokens, length and true-or-false settings.

The readers of all kinds of tokenizers (WordPiece, byte-level BPE, unigram) call these functions.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bertsmith.errors import CheckpointError, warn_once
from bertsmith.tokenization.tokenizer_class import Kind, is_of_class
from bertsmith.tokenization.tokenizer_files import (
    MIN_MAX_LENGTH,
    SPECIAL_NAMES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    Json,
    check_range,
    listed_tokens,
    read_value,
)


def config_settings(config: Json, path: Path) -> Json:
    """Return the special tokens and length of tokenizer_config.json.

    Raises:
        CheckpointError: `truncation_side` is not "right", or the length is not a number of tokens.
    """
    if (side := config.get("truncation_side", "right")) != "right":
        raise CheckpointError(
            f"{path}: truncation_side is {side!r}; texts are cut at their end here. Shorten long "
            "texts at their beginning yourself, and remove the entry."
        )
    return {**_named_tokens(config), **read_max_length(config, path)}


def read_max_length(config: Json, path: Path) -> Json:
    """Return the entry `model_max_length` of tokenizer_config.json; nothing if there is none.

    Raises:
        CheckpointError: it is not a number of tokens.
    """
    if config.get("model_max_length") is None:
        return {}
    length = read_value(config, "model_max_length", (int, float), path)
    # "No limit" is 1e30 to transformers, which is finite.
    check_range(length, MIN_MAX_LENGTH, "model_max_length", path)
    return {"model_max_length": int(length)}


def _named_tokens(config: Json) -> dict[str, str]:
    """Return the special tokens of tokenizer_config.json, by the names of their roles.

    The file gives a token as text or, with its flags, as an object.
    """
    tokens: dict[str, str] = {}
    for name in SPECIAL_NAMES:
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            tokens[name] = value
    return tokens


def read_flags(config: Json, names: Mapping[str, str], path: Path) -> Json:
    """Read the settings of tokenizer_config.json that are true or false; absent ones are left out.

    Args:
        names: for each key to read the name of the setting in bertsmith.
        path: the tokenizer_config.json, for messages.
    """
    return {
        name: read_value(config, key, bool, path)
        for key, name in names.items()
        if config.get(key) is not None
    }


def folder_settings(
    config: Json, names: Mapping[str, str], vocab: Sequence[str], path: Path
) -> Json:
    """Return the settings of a folder without tokenizer.json.

    Args:
        config: the content of tokenizer_config.json.
        names: for each key that is true or false the name of the setting in bertsmith.
        vocab: the tokens by id, against which added tokens are checked.
        path: the tokenizer_config.json, for messages.
    """
    settings = config_settings(config, path) | read_flags(config, names, path)
    if listed := read_value(config, "added_tokens_decoder", dict, path, default={}):
        settings["added_tokens"] = listed_tokens(listed, vocab, path)
    return settings


def follow_config(
    settings: Json,
    config: Json,
    kind: Kind,
    names: Mapping[str, str],
    defaults: Mapping[str, bool | None],
    path: Path,
) -> None:
    """Replace settings of tokenizer.json as transformers does; warn of each that changes.

    A class of transformers that belongs to `kind` takes these settings from tokenizer_config.json
    alone, and a key that is absent or null has the class's default. Without such a class,
    transformers takes them from tokenizer.json.

    Args:
        settings: as read from tokenizer.json; changed in place.
        config: the content of tokenizer_config.json.
        kind: the kind of tokenizer that the tokenizer.json holds.
        names: for each key of `config` the name of its setting in `settings`.
        defaults: the class's default of each key.
        path: the tokenizer.json.
    """
    if not is_of_class(config, kind):
        return
    config_path = path.with_name(TOKENIZER_CONFIG_FILE)
    flags = read_flags(config, names, config_path)
    for key, name in names.items():
        value = flags.get(name, defaults[key])
        if value != settings[name]:
            verb = "is" if name in flags else "is not set, so"
            warn_once(
                f"{config_path}: {key} {verb} {json.dumps(value)}, and "
                f"{json.dumps(settings[name])} in "
                f"{TOKENIZER_FILE}. {TOKENIZER_CONFIG_FILE} is used, as in transformers; correct "
                "the wrong one."
            )
            settings[name] = value
