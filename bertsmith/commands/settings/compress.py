"""Settings of `bertsmith compress`."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.first_word import parse_unless_model
from bertsmith.compression.settings import CompressSettings


@dataclass(frozen=True)
class Settings(CompressSettings):
    """Make a model smaller: fewer layers, or fewer tokens.

    Name one of the two ways; for both, make the new folder smaller again. It is a normal
    folder, for every other command. You see parameters, the size of the weights, speed and, with
    --data or --corpus, the scores, before and after.
    """

    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_unless_model, Settings)
