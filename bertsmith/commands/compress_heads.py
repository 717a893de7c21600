"""`bertsmith compress heads`: a model → one without the attention heads that matter least."""

import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.commands.task_flags import parse_for_folder
from bertsmith.compression.heads import HeadSettings, compress_heads

DESCRIPTION = """Take out the attention heads that matter least.

Many heads can go at little cost. Which ones, the gradients of the loss on your examples tell
(Michel et al. 2019); query, key, value and output become smaller matrices.

The new folder is a normal one, for every other command. You see parameters, the size of the
weights, speed and, with --data, the score, before and after."""


@dataclass(frozen=True)
class Settings(HeadSettings):
    """The command line of `bertsmith compress heads`."""

    json: bool = False
    """Print one JSON object instead of text."""


def parse(args: Sequence[str], prog: str) -> Settings:
    """Read the flags, those of the folder's task among them."""
    return parse_for_folder(Settings, args, prog, DESCRIPTION)


def main(settings: Settings) -> None:
    """Write the smaller model, then print what it costs."""
    result = compress_heads(settings)
    print(json_module.dumps(result.to_json()) if settings.json else result)
