"""`bertsmith compress vocabulary`: a model and texts → one with only their tokens."""

import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.commands.task_flags import parse_for_folder
from bertsmith.compression.vocabulary import VocabularySettings, compress_vocabulary

DESCRIPTION = """Keep the word pieces that your texts use; tokenizer and model lose the others.

A text all of whose pieces are kept is read as before, with the same result to the bit. A word
with a dropped piece is cut into smaller ones.

The new folder is a normal one, for every other command. You see parameters, the size of the
weights, speed and, with --data, the score, before and after."""


@dataclass(frozen=True)
class Settings(VocabularySettings):
    """The command line of `bertsmith compress vocabulary`."""

    json: bool = False
    """Print one JSON object instead of text."""


def parse(args: Sequence[str], prog: str) -> Settings:
    """Read the flags, those of the folder's task among them."""
    return parse_for_folder(Settings, args, prog, DESCRIPTION)


def main(settings: Settings) -> None:
    """Write the smaller model, then print what it costs."""
    result = compress_vocabulary(settings)
    print(json_module.dumps(result.to_json()) if settings.json else result)
