"""`bertsmith push`: a model folder → the Hugging Face hub."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bertsmith.commands.output import print_note
from bertsmith.commands.settings.push import Settings
from bertsmith.model.hub import push_model


def main(settings: Settings, line: Sequence[str]) -> None:
    if _names_no_license(settings.model):
        print_note(
            f"{settings.model / 'README.md'}: names no license, so others may not use the model"
        )
    pushed = push_model(settings.model, settings.name, private=settings.private)
    if settings.json:
        print(json.dumps(asdict(pushed)))
    else:
        print(f"{pushed.url}  ({len(pushed.files)} files, {pushed.num_bytes / 1e6:,.1f} MB)")


def _names_no_license(folder: Path) -> bool:
    card = folder / "README.md"
    return card.is_file() and "\nlicense: unknown\n" in card.read_text("utf-8", "replace")
