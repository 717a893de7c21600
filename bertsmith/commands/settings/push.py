"""Options of `bertsmith push`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse_settings


@dataclass(frozen=True)
class Settings:
    """Send a model to the Hugging Face hub, where others load it by its name.

    The token is read from the environment variable HF_TOKEN, or from where `hf auth login` keeps
    it; create one with write access at https://huggingface.co/settings/tokens. Sends weights,
    config, tokenizer, checksums and README.md, but no checkpoints and no other files of the run.
    Needs the package huggingface_hub (pip install huggingface_hub).
    """

    model: tyro.conf.Positional[Path]
    """Folder of the model."""
    name: tyro.conf.Positional[str]
    """Name of the repository on the hub: org/name. It is created if it does not exist."""
    private: bool = False
    """Make the repository private: only you, or the organization, see it."""
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
