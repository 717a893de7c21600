"""Options of `bertsmith generate`: each field is one, and its docstring is the help.

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
    """Let a GPT or LSTM continue a text.

    The model adds one token after another. By default each is the likeliest one; with
    --temperature, --top-k, --top-p or --seed they are drawn by their probabilities, and --beams
    looks for the likeliest continuation as a whole. `bertsmith pretrain gpt` and
    `bertsmith pretrain lstm` train such models.
    """

    model: tyro.conf.Positional[Path]
    """Folder of a GPT or LSTM, or of transformers' `gpt2`."""
    text: tyro.conf.Positional[str]
    """The beginning of a text, in quotes; "" for a new text."""
    max_new_tokens: int | None = None
    """Maximum number of new tokens; fewer if the model ends the text. By default 50, or as many as
    the model can read after the text."""
    temperature: float | None = None
    """Temperature: logits are divided by it, so that below 1 likely tokens become likelier. By
    default 1 if tokens are drawn."""
    top_k: int | None = None
    """Draw only from this many likeliest tokens."""
    top_p: float | None = None
    """Draw only from the likeliest tokens that together reach this probability (nucleus sampling).
    """
    seed: int | None = None
    """Random seed of drawing. By default 0."""
    beams: int | None = None
    """Number of beams: the likeliest beginnings of a text that beam search keeps at each step."""
    length_penalty: Advanced[float] = 1.0
    """Length penalty of beam search: the exponent of the length by which the log-probability of a
    text is divided. Above 0 longer texts win more often."""
    device: Advanced[str] = "auto"
    """Device: auto, cpu, cuda, cuda:1, mps."""
    json: bool = False
    """Print one JSON object instead of text."""

    def __post_init__(self) -> None:
        check_upper_limits(self)
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise SettingError("max_new_tokens", self.max_new_tokens, "1 or more")
        check_penalty(self.beams, self.length_penalty)
        if self.beams is not None and (given := self.given_sampling_settings):
            raise ConfigError(
                f"Give either {option('beams')} or {option(given[0])}, not both: beam search draws "
                "nothing."
            )

    @property
    def given_sampling_settings(self) -> list[str]:
        """The names of the settings of sampling that the user gave."""
        names = ("temperature", "top_k", "top_p", "seed")
        return [name for name in names if getattr(self, name) is not None]


parse = partial(parse_settings, Settings)
