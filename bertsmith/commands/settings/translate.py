"""Options of `bertsmith translate`: each field is one, and its docstring is the help.

Only --help-all shows options whose type is `Advanced`.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.commands.settings.beams import check_penalty
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced


@dataclass(frozen=True)
class Settings:
    """Write texts from other texts, such as translations.

    `bertsmith finetune translate` trains such a model. It writes one token after another: the
    likeliest one each time, or with --beams by beam search, which looks for the likeliest text.
    """

    model: tyro.conf.Positional[Path]
    """Folder of a Transformer, or of transformers' `marian`."""
    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """The texts, each in quotes."""
    file: Path | None = None
    """File with a text on each line, in place of texts; - for standard input."""
    max_new_tokens: int = 128
    """Maximum number of tokens of a written text."""
    beams: int | None = None
    """Number of beams: the likeliest beginnings of a text that beam search keeps at each step."""
    length_penalty: Advanced[float] = 1.0
    """Length penalty of beam search: the exponent of the length by which the log-probability of a
    text is divided. Above 0 longer texts win more often."""
    device: Advanced[str] = "auto"
    """Device: auto, cpu, cuda, cuda:1, mps."""
    json: bool = False
    """Print one JSON object for each text."""

    def __post_init__(self) -> None:
        check_upper_limits(self)
        if self.max_new_tokens < 1:
            raise SettingError("max_new_tokens", self.max_new_tokens, "1 or more")
        check_penalty(self.beams, self.length_penalty)
        if self.texts and self.file is not None:
            raise ConfigError(f"Give either texts or {option('file')}, not both.")
        if not self.texts and self.file is None:
            raise ConfigError(
                "Nothing to translate: give texts in quotes, or "
                f"{option('file', placeholder='FILE')}."
            )


parse = partial(parse_settings, Settings)
