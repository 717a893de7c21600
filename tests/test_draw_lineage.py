"""The figures of docs/lineage.md: they are what their program draws, and can be read."""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from browser import find_faults

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # tools/ is not installed

from tools.draw_lineage import CHINESE, ENGLISH, WIDTH, draw_all  # noqa: E402

FIGURES = draw_all()
SVG = "{http://www.w3.org/2000/svg}"
NUM_SEEN = {"bert": 5, "gpt": 2, "lstm": 2, "elmo": 4, "transformer": 8, "t5": 7}
"""The tokens, read or written, that the prediction is made from."""
NUM_OTHER_STEPS = {"lstm": 1, "elmo": 3}
"""States that are handed on, and what the second reader computes."""
PAGE = """<!doctype html><meta name="viewport" content="width=device-width"><style>
body {{ margin: 16px; background: #fff }} svg {{ max-width: 100%; height: auto }}
@media (prefers-color-scheme: dark) {{ body {{ background: #1b1e27 }} }}</style>{}"""
WIDER_THAN_BOX = """() => [...document.querySelectorAll("text.mono")].filter(text =>
  text.getBBox().width > text.previousElementSibling.getBBox().width).map(text => text.textContent)
"""


def test_the_stored_figures_are_those_that_are_drawn():
    stored = [path for each in (ENGLISH, CHINESE) for path in each.folder.iterdir()]
    assert sorted(stored) == sorted(FIGURES)
    assert len(stored) == 2 * len(NUM_SEEN)
    for path, text in FIGURES.items():
        assert path.read_text(encoding="utf-8") == text, "run python tools/draw_lineage.py"


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_a_figure_has_its_sentence_a_title_and_a_description(path):
    root = ET.fromstring(FIGURES[path])
    names = root.attrib["aria-labelledby"].split()
    told = {each.attrib.get("id"): each.text for each in (root[0], root[1])}
    assert [*told] == names and all(told.values())
    language = CHINESE if "zh" in path.parts else ENGLISH
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert "".join(language.sentence) in "".join(filter(None, texts))
    thick = [each for each in root.iter(f"{SVG}path") if "thick" in each.get("class", "").split()]
    prediction = 1
    other = NUM_OTHER_STEPS.get(path.stem, 0)
    assert len(thick) == NUM_SEEN[path.stem] + other + prediction
    # On a telephone of 400 pixels, with margins of 16, no letter is smaller than 11 pixels.
    sizes = [int(size) for size in re.findall(r"(\d+)px", FIGURES[path])]
    assert sizes and min(sizes) * (400 - 2 * 16) / WIDTH > 11


@pytest.mark.parametrize("language", [ENGLISH, CHINESE], ids=lambda each: each.folder.parent.name)
def test_figures_can_be_read_in_a_browser(language, browser, tmp_path):
    if browser is None:
        pytest.skip("no chromium on this computer")
    page = browser.new_page()
    for path, text in FIGURES.items():
        if path.parent == language.folder:
            (tmp_path / "page.html").write_text(PAGE.format(text), encoding="utf-8")
            assert not find_faults(page, tmp_path / "page.html")
            assert not page.evaluate(WIDER_THAN_BOX)
