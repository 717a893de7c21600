"""Options of `bertsmith recipes`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """List the recipes that come with bertsmith, by the command that takes them.

    A recipe is a .toml file that sets options of a command; options on the line replace its values.
    Name your own recipe by its path.
    """

    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
