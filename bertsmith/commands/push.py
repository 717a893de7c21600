"""`bertsmith push`: a model folder → the Hugging Face hub."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bertsmith.commands.output import print_json, print_note
from bertsmith.commands.settings.push import Settings
from bertsmith.model.hub import CARD_FILE, push_model

CARD_HEAD = re.compile(r"---\n(.*?)^---$", re.DOTALL | re.MULTILINE)
"""The YAML with which a model card (README.md) begins."""
LICENSE = re.compile(r"""^license: *(?:\n *- *)?[\["']*([\w.-]+)""", re.MULTILINE)
"""The entry of a license: a name, or a list of names, on one line or with a line for each."""


def main(settings: Settings, line: Sequence[str]) -> None:
    """Send a model and print its address; remark on a card without a license.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    pushed = push_model(settings.model, settings.name, private=settings.private)
    if settings.json:
        print_json(asdict(pushed))
    else:
        print(f"{pushed.url}  ({len(pushed.files)} files, {pushed.num_bytes / 1e6:,.1f} MB)")
    if not names_license(settings.model):
        print_note(
            f"{settings.model}: the head of its {CARD_FILE} names no license, so others may not "
            "use the model. Add a line such as 'license: apache-2.0' there, and push again."
        )


def names_license(folder: Path) -> bool:
    """Return whether a model has a card whose head names a license other than `unknown`."""
    card = folder / CARD_FILE
    head = CARD_HEAD.match(card.read_text("utf-8", "replace")) if card.is_file() else None
    license_name = LICENSE.search(head[1]) if head else None
    return license_name is not None and license_name[1] != "unknown"
