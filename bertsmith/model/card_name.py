"""Renaming of a copied model's card (README.md), which names the folder that it is in."""

import json
import re
from pathlib import Path

from bertsmith.model.hub import CARD_FILE, is_own_card
from bertsmith.system.files import atomic_write

TITLE = re.compile(r"^---\n\n# (?P<name>.*)\n", re.MULTILINE)
"""The end of a card's metadata, and its first heading, which is the folder's name."""


def rename_card(directory: Path) -> None:
    """Put a copied folder's name into its card, unless the user wrote the README.md.

    Raises:
        InputError: the card cannot be written.
    """
    if not is_own_card(directory):
        return
    path = directory / CARD_FILE
    try:
        card = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:  # an editor has stored it in another encoding
        return
    title = TITLE.search(card)
    if title is None:
        return
    old, new = title["name"], directory.resolve().name
    card = TITLE.sub(lambda _: f"---\n\n# {new}\n", card, count=1)
    named = json.dumps(new, ensure_ascii=False)
    for is_escaped in (False, True):  # earlier versions escaped letters such as Chinese ones
        old_name = json.dumps(old, ensure_ascii=is_escaped)
        card = card.replace(f"- name: {old_name}\n", f"- name: {named}\n")
    # Shell commands in a card need no change. Only cards of models that generate text and of ELMos
    # have one that names the folder (training/model_card.py), and `Predictor.save`, which calls
    # this, saves neither.
    for call in ("load", "load_model"):
        card = card.replace(f'bertsmith.{call}("{old}")', f'bertsmith.{call}("{new}")')
    with atomic_write(path, "w") as file:
        file.write(card)
