"""Reading of tokenizer_config.json: special tokens, length and flags of any kind of tokenizer."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bertsmith.errors import CheckpointError, warn_once
from bertsmith.tokenization.tokenizer_class import PLAIN_CLASSES
from bertsmith.tokenization.tokenizer_files import (
    MIN_MAX_LENGTH,
    SPECIAL_NAMES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    Json,
    check_range,
    listed_tokens,
    member,
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
        check_range(length, MIN_MAX_LENGTH, "model_max_length", path)
        settings["model_max_length"] = int(length)
    return settings


def read_flags(config: Json, names: Mapping[str, str], path: Path) -> Json:
    """Read settings that are true or false; `names` maps keys of tokenizer_config.json to ours."""
    set_names = {key: name for key, name in names.items() if config.get(key) is not None}
    return {name: member(config, key, bool, path) for key, name in set_names.items()}


def folder_settings(
    config: Json, names: Mapping[str, str], vocab: Sequence[str], path: Path
) -> Json:
    """Return the settings of a folder without tokenizer.json; `names` as in `read_flags`."""
    settings = config_settings(config, path) | read_flags(config, names, path)
    if listed := member(config, "added_tokens_decoder", dict, path, {}):
        settings["added_tokens"] = listed_tokens(listed, vocab, path)
    return settings


def follow_config(settings: Json, config: Json, names: Mapping[str, str], path: Path) -> None:
    """Replace settings of tokenizer.json by those of tokenizer_config.json; warn if they differ."""
    if config.get("tokenizer_class") in PLAIN_CLASSES:
        return
    config_path = path.with_name(TOKENIZER_CONFIG_FILE)
    configured = read_flags(config, names, config_path)
    for key, name in names.items():
        if name in configured and configured[name] != settings[name]:
            warn_once(
                f"{config_path}: {key} is {json.dumps(configured[name])}, and "
                f"{json.dumps(settings[name])} in {TOKENIZER_FILE}. {TOKENIZER_CONFIG_FILE} is "
                "used, as in transformers; correct the wrong one."
            )
    settings.update(configured)
