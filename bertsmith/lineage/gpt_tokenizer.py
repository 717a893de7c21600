"""GPT-2's own tokenizer: byte-level BPE whose only special token ends a text.

An encoder needs more special tokens, so the tokenizers of encoders are read elsewhere. Here the
token that ends a text has all their roles.
"""

from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.byte_bpe import ByteBpeTokenizer
from bertsmith.tokenization.byte_bpe_files import VOCAB_JSON
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.tokenizer_class import add_model_class
from bertsmith.tokenization.tokenizer_files import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE

GPT2_CLASS = "GPT2Tokenizer"
END = "<|endoftext|>"
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def load_text_tokenizer(directory: Path) -> tuple[Tokenizer, bool]:
    """Load the tokenizer of a model that continues texts, and whether a text has a start token.

    Raises:
        CheckpointError: there is no tokenizer, or a damaged one, or one of a kind that we do not
            have.
    """
    files = SmallFiles(directory)
    config: dict[str, Any] = {}
    if files.has(TOKENIZER_CONFIG_FILE):
        config = files.read_json(TOKENIZER_CONFIG_FILE)
    name = str(add_model_class(files, config).get("tokenizer_class") or "").removesuffix("Fast")
    if name != GPT2_CLASS:
        return load_tokenizer(directory), True
    return _load_gpt2(directory, files), False


def _load_gpt2(directory: Path, files: SmallFiles) -> ByteBpeTokenizer:
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
        end = AddedToken(END, normalized=False, special=True)
        settings: dict[str, Any] = dict.fromkeys(ROLES, END)
        return ByteBpeTokenizer(pieces, merges, added_tokens=[end], **settings)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{directory}: has neither {VOCAB_JSON} with merges.txt, nor {TOKENIZER_FILE}. Copy "
            "the folder again."
        ) from error
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{directory}: its tokenizer is not that of GPT-2 ({error}). Copy the folder again."
        ) from error
