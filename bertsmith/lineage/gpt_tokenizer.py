"""Loading of the tokenizer of a GPT: one of any kind that bertsmith has, or GPT-2's own.

GPT-2's own tokenizer is byte-level BPE with a single special token, which ends a text. An encoder
needs more special tokens, so `load_tokenizer` refuses it. Here the token that ends a text has the
roles of all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import (
    ADDED_TOKENS_FILE,
    TOKENS_BY_ID,
    extra_special_tokens,
    load_tokenizer,
    read_added_tokens_file,
    read_tokenizer_config,
    tokens_listed_elsewhere,
)
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
from bertsmith.tokenization.byte_bpe_files import VOCAB_JSON
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.tokenizer_class import add_model_class
from bertsmith.tokenization.tokenizer_config import read_flags, read_max_length
from bertsmith.tokenization.tokenizer_files import (
    SPECIAL_NAMES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    read_added_tokens,
    read_special_token,
    read_value,
)

GPT2_CLASS = "GPT2Tokenizer"
END = "<|endoftext|>"
"""The token that ends a text, unless tokenizer_config.json names another."""
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Roles of special tokens, in the order in which transformers adds tokens to the vocabulary."""


def load_text_tokenizer(directory: Path) -> tuple[Tokenizer, bool]:
    """Load the tokenizer of a model that continues texts.

    The second result is whether texts begin with a start token. They do with all tokenizers but
    GPT-2's own.

    Raises:
        CheckpointError: there is no tokenizer, or a damaged one, or one of a kind that we do not
            have.
    """
    files = SmallFiles(directory)
    config = read_tokenizer_config(files)
    # The class that tokenizer_config.json names, or else config.json.
    name = str(add_model_class(files, config).get("tokenizer_class") or "").removesuffix("Fast")
    if name != GPT2_CLASS:
        return load_tokenizer(directory), True
    return _load_gpt2(directory, files, config), False


def _load_gpt2(directory: Path, files: SmallFiles, config: dict[str, Any]) -> ByteBpeTokenizer:
    """Load GPT-2's own tokenizer from a folder.

    Args:
        config: the content of tokenizer_config.json, completed by `read_tokenizer_config`.

    Raises:
        CheckpointError: the tokenizer is missing or damaged.
    """
    try:
        if files.has(VOCAB_JSON):
            # Only the merges are taken. `load_tokenizer` refuses the class of the folder; for a
            # file by itself it does not look at the class, and adds RoBERTa's special tokens.
            stored: Any = load_tokenizer(directory / VOCAB_JSON)
            vocab, merges = files.read_json(VOCAB_JSON), stored.merges
        else:
            model = files.read_json(TOKENIZER_FILE)["model"]
            vocab = model["vocab"]
            # A merge is "left right" in older files, and ["left", "right"] in newer ones.
            pairs = (
                merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]
            )
            merges = [(left, right) for left, right in pairs]
        pieces = sorted(vocab, key=vocab.__getitem__)
        if [vocab[piece] for piece in pieces] != list(range(len(pieces))):
            raise ValueError("its ids are not 0, 1, 2 and so on")
        config_path = files.path(TOKENIZER_CONFIG_FILE)
        role_tokens = _read_role_tokens(config, config_path)
        added_tokens = _read_added_tokens(files, config, pieces, role_tokens)
        end = role_tokens["eos_token"].content
        settings: dict[str, Any] = dict.fromkeys(SPECIAL_NAMES, end)  # one token has all the roles
        flags = {"add_prefix_space": "add_prefix_space"}  # key of the file → name of the setting
        settings |= read_flags(config, flags, config_path) | read_max_length(config, config_path)
        return ByteBpeTokenizer(pieces, merges, added_tokens=added_tokens, **settings)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{directory}: has neither {VOCAB_JSON} with merges.txt, nor {TOKENIZER_FILE}. Copy "
            "the folder again."
        ) from error
    except CheckpointError:
        raise
    except (AttributeError, ConfigError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{directory}: its tokenizer is not that of GPT-2 ({error}). Copy the folder again."
        ) from error


def _read_added_tokens(
    files: SmallFiles,
    config: dict[str, Any],
    pieces: Sequence[str],
    role_tokens: Mapping[str, AddedToken],
) -> list[AddedToken]:
    """Read the tokens that were added to GPT-2's vocabulary, in the order of their ids.

    The tokens with a role are always among them, and so are special tokens without a role. As in
    `load_tokenizer`, a tokenizer.json lists added tokens, and those that only tokenizer_config.json
    lists follow. The older added_tokens.json is read only where tokenizer_config.json has no list.

    Args:
        pieces: the tokens of the vocabulary, by id.
        role_tokens: the special tokens by role.
    """
    config_path = files.path(TOKENIZER_CONFIG_FILE)
    special: dict[str, AddedToken] = {}
    for token in (*role_tokens.values(), *extra_special_tokens(config, config_path)):
        special.setdefault(token.content, token)
    stored: Sequence[AddedToken] = ()
    if files.has(TOKENIZER_FILE):
        path = files.path(TOKENIZER_FILE)
        entries = read_value(files.read_json(TOKENIZER_FILE), "added_tokens", list, path, [])
        stored = read_added_tokens(entries, pieces, path)
    elif files.has(ADDED_TOKENS_FILE) and TOKENS_BY_ID not in config:
        stored = read_added_tokens_file(files, pieces, list(special.values()))
    stored = (*stored, *tokens_listed_elsewhere(files, config, pieces, stored))
    # Listed tokens keep their flags. The token that ends a text is special, even if the list does
    # not say so.
    end = role_tokens["eos_token"].content
    tokens = [_as_special(token) if token.content == end else token for token in stored]
    contents = {token.content for token in tokens}
    return [*tokens, *(token for name, token in special.items() if name not in contents)]


def _read_role_tokens(config: dict[str, Any], path: Path) -> dict[str, AddedToken]:
    """Read the special tokens by role, with their flags.

    As in transformers, the roles bos, eos and unk have `END` unless the config names another token.
    If one token has several roles, the flags of the first object that describes it count.

    Args:
        config: as for `_load_gpt2`.
        path: the tokenizer_config.json, for messages.

    Raises:
        CheckpointError: a token is damaged.
    """
    tokens = {role: AddedToken(END) for role in ROLES[:3]}  # special and not normalized by default
    tokens_with_flags: dict[str, AddedToken] = {}
    for role in ROLES:
        if config.get(role) is None:
            continue
        tokens[role] = _as_special(read_special_token(config[role], role, path))
        if isinstance(config[role], dict):
            tokens_with_flags.setdefault(tokens[role].content, tokens[role])
    return {role: tokens_with_flags.get(token.content, token) for role, token in tokens.items()}


def _as_special(token: AddedToken) -> AddedToken:
    """Return a token that is special, and searched for in raw text.

    GPT-2 does not normalize text, so `normalized` changes no ids. But the flag enters the
    tokenizer's fingerprint, the checksum by which tokenizers are compared.
    """
    return replace(token, normalized=False, special=True)
