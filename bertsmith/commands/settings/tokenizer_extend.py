"""Options of `bertsmith tokenizer extend`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bertsmith.commands.flags import parse_settings
from bertsmith.vocabulary.settings import ExtensionSettings


@dataclass(frozen=True)
class Settings:
    """Add tokens of your own texts to a model's vocabulary.

    A model that was pre-trained on general text spells the words of your field with many tokens.
    This command learns tokens for these words, and writes a tokenizer folder. There the new tokens
    follow the old ones, which keep their ids. Use it in 'corpus build --tokenizer'; then continue
    the model with 'pretrain --from'.
    """

    extension: ExtensionSettings
    out: Path
    """The folder to write the tokenizer to."""
    overwrite: bool = False
    """Replace an earlier tokenizer in that folder."""
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
