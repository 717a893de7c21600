"""`bertsmith compress layers`: a model → one with fewer layers."""

import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.commands.task_flags import parse_for_folder
from bertsmith.compression.layers import LayerSettings, compress_layers

DESCRIPTION = """Keep some of a model's layers.

A model with half the layers is about half as slow, and is a start for further training: as it
stands it has lost much.

The new folder is a normal one, for every other command. You see parameters, the size of the
weights, speed and, with --data, the score, before and after."""


@dataclass(frozen=True)
class Settings(LayerSettings):
    """The command line of `bertsmith compress layers`."""

    json: bool = False
    """Print one JSON object instead of text."""


def parse(args: Sequence[str], prog: str) -> Settings:
    """Read the flags, those of the folder's task among them."""
    return parse_for_folder(Settings, args, prog, DESCRIPTION)


def main(settings: Settings) -> None:
    """Write the smaller model, then print what it costs."""
    result = compress_layers(settings)
    print(json_module.dumps(result.to_json()) if settings.json else result)
