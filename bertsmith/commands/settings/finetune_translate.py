"""Options of `bertsmith finetune translate`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bertsmith.commands.flags import parse_settings
from bertsmith.lineage.translation_settings import TranslationSettings


@dataclass(frozen=True, kw_only=True)
class Settings(TranslationSettings):
    """Teach a Transformer to write one text from another.

    The model learns from a table with a source and a target in each row, such as a sentence and its
    translation. A new model is the Transformer of 2017: an encoder reads the source, and a decoder
    writes the target token by token. The result is a Hugging Face folder (MarianMTModel) for
    `bertsmith translate`.
    """

    out: Path
    """Folder for the model, its checkpoints and its journal."""
    resume: bool = False
    """Continue the stopped run in --out from its newest checkpoint. On a CPU the result is that of
    a run that was not stopped."""
    overwrite: bool = False
    """Replace an earlier run in --out."""
    json: bool = False
    """Print one JSON object at the end instead of text."""


parse = partial(parse_settings, Settings)
