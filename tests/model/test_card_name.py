"""The card of a copied folder bears the folder's name, unless it cannot be read."""

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
