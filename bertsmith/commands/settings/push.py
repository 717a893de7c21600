"""Settings of `bertsmith push`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """Send a model to the Hugging Face hub, where others load it by its name.

    The token is read from the variable HF_TOKEN, or from where `hf auth login` keeps it; make one
    that may write at https://huggingface.co/settings/tokens. Weights, config, tokenizer and
    README.md are sent, and neither checkpoints nor the files of the run. Needs the package
    huggingface_hub (pip install huggingface_hub).
    """

    model: tyro.conf.Positional[Path]
    """Folder of the model."""
    name: tyro.conf.Positional[str]
    """Name on the hub: org/name. A repository that is not there is made."""
    private: bool = False
    """Make the repository private: only you, or the organization, see it."""
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
