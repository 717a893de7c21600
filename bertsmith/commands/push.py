"""`bertsmith push`: a model folder → the Hugging Face hub."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from bertsmith.commands.flags import parse, tell
from bertsmith.model.hub import push_model


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


def main(args: Sequence[str], prog: str) -> None:
    settings = parse(Settings, args, prog)
    if _names_no_license(settings.model):
        tell(f"{settings.model / 'README.md'}: names no license yet; others may not use the model")
    found = push_model(settings.model, settings.name, private=settings.private)
    if settings.json:
        print(json.dumps(asdict(found)))
    else:
        print(f"{found.url}  ({len(found.files)} files, {found.num_bytes / 1e6:,.1f} MB)")


def _names_no_license(folder: Path) -> bool:
    card = folder / "README.md"
    return card.is_file() and "\nlicense: unknown\n" in card.read_text("utf-8", "replace")
