"""Settings of `bertsmith completion`."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """Print the completion of commands and options for bash and zsh.

    Put this line into ~/.bashrc or ~/.zshrc: source <(bertsmith completion)
    """


parse = partial(parse_settings, Settings)
