"""Options of `bertsmith completion`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """Print a script that completes commands and options in bash and zsh.

    Write it to a file once, and after each new version: bertsmith completion >
    ~/.bertsmith-completion. Then put this line into ~/.bashrc or ~/.zshrc: source
    ~/.bertsmith-completion
    """


parse = partial(parse_settings, Settings)
