"""Loading of the tokenizer of a GPT: any that bertsmith has, or GPT-2's own.

GPT-2's own tokenizer is byte-level BPE whose only special token ends a text. An encoder needs more
special tokens, so `load_tokenizer` refuses it. Here the token that ends a text has all their roles.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import (
    ADDED_TOKENS_FILE,
    extra_special_tokens,
    load_tokenizer,
    read_added_tokens_file,
    read_tokenizer_config,
)
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
from bertsmith.tokenization.byte_bpe_files import VOCAB_JSON
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.tokenizer_class import add_model_class
from bertsmith.tokenization.tokenizer_config import named_tokens, read_flags
from bertsmith.tokenization.tokenizer_files import (
    SPECIAL_NAMES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    listed_tokens,
    member,
    read_added_tokens,
)

GPT2_CLASS = "GPT2Tokenizer"
END = "<|endoftext|>"
"""The token that ends a text, unless tokenizer_config.json names another."""
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Roles of special tokens, in the order in which transformers adds tokens to the vocabulary."""


def load_text_tokenizer(directory: Path) -> tuple[Tokenizer, bool]:
    """Load the tokenizer of a model that continues texts, and whether a text has a start token.

    Raises:
        CheckpointError: there is no tokenizer, or a damaged one, or one of a kind that we do not
            have.
    """
    files = SmallFiles(directory)
    config = read_tokenizer_config(files)
    name = str(add_model_class(files, config).get("tokenizer_class") or "").removesuffix("Fast")
    if name != GPT2_CLASS:
        return load_tokenizer(directory), True
    return _load_gpt2(directory, files, config), False


def _load_gpt2(directory: Path, files: SmallFiles, config: dict[str, Any]) -> ByteBpeTokenizer:
    """Load GPT-2's own tokenizer from a folder.

    Args:
        config: the content of tokenizer_config.json, completed by `read_tokenizer_config`.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    try:
        if files.has(VOCAB_JSON):
            stored: Any = load_tokenizer(directory / VOCAB_JSON)
            vocab, merges = files.read_json(VOCAB_JSON), stored.merges
        else:
            model = files.read_json(TOKENIZER_FILE)["model"]
            vocab = model["vocab"]
            pairs = (each.split(" ") if isinstance(each, str) else each for each in model["merges"])
            merges = [(left, right) for left, right in pairs]
        pieces = sorted(vocab, key=vocab.__getitem__)
        if [vocab[piece] for piece in pieces] != list(range(len(pieces))):
            raise ValueError("its ids are not 0, 1, 2 and so on")
        added_tokens = _read_added_tokens(files, config, pieces)
        settings: dict[str, Any] = dict.fromkeys(SPECIAL_NAMES, _role_tokens(config)["eos_token"])
        flags = {"add_prefix_space": "add_prefix_space"}
        settings |= read_flags(config, flags, files.path(TOKENIZER_CONFIG_FILE))
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
    files: SmallFiles, config: dict[str, Any], pieces: Sequence[str]
) -> list[AddedToken]:
    """Read the tokens that were added to GPT-2's vocabulary, in the order of their ids.

    The tokens with a role are always among them. As in `load_tokenizer`, only a folder without a
    newer list is read by added_tokens.json, and special tokens without a role are added, too.
    """
    config_path = files.path(TOKENIZER_CONFIG_FILE)
    special = {
        content: AddedToken(content, normalized=False, special=True)
        for content in _role_tokens(config).values()
    }
    for token in extra_special_tokens(config, config_path):
        special.setdefault(token.content, token)
    entries_by_id = member(config, "added_tokens_decoder", dict, config_path, {})
    stored: Sequence[AddedToken]
    if files.has(TOKENIZER_FILE):
        path = files.path(TOKENIZER_FILE)
        entries = member(files.read_json(TOKENIZER_FILE), "added_tokens", list, path, [])
        stored = read_added_tokens(entries, pieces, path)
    elif entries_by_id or not files.has(ADDED_TOKENS_FILE):
        stored = listed_tokens(entries_by_id, pieces, config_path)
    else:
        stored = read_added_tokens_file(files, pieces, list(special.values()))
    # A token that was listed keeps its settings, except the one that ends a text.
    end = _role_tokens(config)["eos_token"]
    tokens = [special[end] if token.content == end else token for token in stored]
    contents = {token.content for token in tokens}
    return [*tokens, *(token for name, token in special.items() if name not in contents)]


def _role_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Return the special tokens by role; those that are not named are as in transformers."""
    return dict.fromkeys(ROLES[:3], END) | named_tokens(config, ROLES)
