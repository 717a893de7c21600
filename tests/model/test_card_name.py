"""The card of a copied folder bears the folder's name, unless it cannot be read."""

import json

import pytest

from bertsmith.model.card_name import rename_card
from bertsmith.model.hub import CARD_FILE, CARD_MARK

CARD = f'---\n{CARD_MARK}\n- name: "old"\n---\n\n# old\n\nbertsmith.load("old")\n'


def test_a_card_gets_the_name_of_its_folder(tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    path = folder / CARD_FILE
    path.write_text(CARD, encoding="utf-8")
    rename_card(folder)
    assert path.read_text("utf-8") == CARD.replace("old", "new")


def test_a_card_in_another_encoding_stays(tmp_path):
    path = tmp_path / CARD_FILE
    path.write_bytes(CARD.encode() + "café\n".encode("latin-1"))
    before = path.read_bytes()
    rename_card(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("stored", ['"文本"', json.dumps("文本")])
def test_names_of_all_scripts_are_readable(tmp_path, stored):
    """Earlier versions wrote such letters as escapes."""
    folder = tmp_path / "新"
    folder.mkdir()
    card = CARD.replace('"old"', stored, 1).replace("# old", "# 文本")
    (folder / CARD_FILE).write_text(card, encoding="utf-8")
    rename_card(folder)
    assert '- name: "新"\n' in (folder / CARD_FILE).read_text(encoding="utf-8")
