"""Settings of `bertsmith tokenizer train`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bertsmith.commands.flags import parse_settings
from bertsmith.vocabulary.settings import TokenizerSettings


@dataclass(frozen=True)
class Settings:
    """Learn a vocabulary of subword tokens from your texts.

    BERT reads text as tokens: frequent words are one token, rare ones are spelled with several,
    such as 'token ##izer'. This command learns the tokens that suit your texts. It writes a
    tokenizer folder, which the other commands and Hugging Face's libraries open.
    """

    tokenizer: TokenizerSettings
    out: Path
    """Folder to write the tokenizer to."""
    overwrite: bool = False
    """Replace an earlier tokenizer in that folder."""
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
