"""Options of `bertsmith tokenizer train`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bertsmith.commands.flags import parse_settings
from bertsmith.system.compute import refuse_beside_scheduler
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
    scheduler: str | None = None
    """Dask scheduler whose workers count words, such as tcp://192.168.1.10:8786. They need
    bertsmith, and must see the texts and the folder under the same paths."""
    overwrite: bool = False
    """Replace an earlier tokenizer in that folder."""
    json: bool = False
    """Print one JSON object instead of text."""

    def __post_init__(self) -> None:
        refuse_beside_scheduler(self.scheduler, processes=self.tokenizer.processes)


parse = partial(parse_settings, Settings)
