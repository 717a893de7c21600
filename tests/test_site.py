"""The site of the pages: notebooks, Chinese, examples, parameters, a search without a server."""

import doctest
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mkdocs.exceptions import Abort

import bertsmith

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # tools/ is not installed

from tools import site_docstrings, site_pages  # noqa: E402
from tools.build_site import build_strictly  # noqa: E402

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("module", [site_pages, site_docstrings], ids=lambda each: each.__name__)
def test_examples(module):
    assert not doctest.testmod(module).failed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_becomes_a_page_with_all_that_it_shows(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    page = site_pages.to_markdown(notebook)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert page.count("```python\n") == len(code)
    for cell in notebook["cells"]:
        assert "".join(cell["source"]) in page
        for output in cell.get("outputs", ()):
            assert site_pages.show(output).strip() in page
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"- docs/notebooks/{path.stem}.md" in menu


@pytest.mark.parametrize("name", site_docstrings.TASKS)
def test_the_reference_lists_the_parameters_of_an_estimator(name):
    table = "\n".join(site_docstrings.parameters_of(site_docstrings.TASKS[name]))
    listed = re.findall(r"^    \| `(\w+)`", table, re.MULTILINE)
    taken = set(inspect.signature(getattr(bertsmith, name)).parameters)
    assert len(listed) == len(set(listed)) > 20
    assert set(listed) <= taken
    assert taken - set(listed) <= {"report_to", "out", "verbose"}


def build_site(folder: Path) -> Path:
    """Build the site as `make docs` does."""
    subprocess.run([sys.executable, ROOT / "tools/build_site.py", folder], check=True)
    return folder / "site"


@pytest.mark.slow
def test_the_site_is_searched_without_a_server(browser, tmp_path):
    site = build_site(tmp_path)
    reference = (site / "docs" / "python.html").read_text(encoding="utf-8")
    assert "doctest:" not in reference and "<blockquote>" not in reference
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        is_chinese = "/zh/" in path.as_posix() or path.name.endswith(".zh.html")
        assert f'<html lang="{"zh" if is_chinese else "en"}"' in page, path
        assert not re.search(r'<(script|link|img)[^>]* (src|href)="https?:', page), path
        article = page.partition("<article")[2].partition("</article>")[0]
        prose = re.sub(r"<pre>.*?</pre>", "", article, flags=re.DOTALL)
        assert not (is_chinese and re.search(r"[一-鿿，。]\n[一-鿿]", prose)), path
    if browser is None:
        pytest.skip("no chromium on this computer: the search was not tried")
    page = browser.new_page()
    for name, words in (("index.html", "segmenter"), ("README.zh.html", "词元")):
        page.goto((site / name).as_uri())
        page.fill("input[name=query]", words)
        page.wait_for_selector(".md-search-result__item", timeout=300_000)
    # On a phone words may come without keys, as by a swipe. Pages for users come first.
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto((site / "index.html").as_uri())
    page.click("label.md-header__button[for=__search]")
    page.keyboard.insert_text("masking")
    page.click(".md-search-result__item a", timeout=300_000)
    page.wait_for_url("**/docs/pretraining.html*")


def test_the_build_stops_at_a_link_to_a_page_that_does_not_exist(tmp_path):
    config, pages, site = tmp_path / "mkdocs.yml", tmp_path / "pages", tmp_path / "site"
    config.write_text("site_name: pages\ntheme: mkdocs\n", encoding="utf-8")
    pages.mkdir()
    (pages / "other.md").write_text("# Other\n", encoding="utf-8")
    (pages / "index.md").write_text("[The other page](lost.md)\n", encoding="utf-8")
    with pytest.raises(Abort):
        build_strictly(config, pages, site)
    (pages / "index.md").write_text("[The other page](other.md)\n", encoding="utf-8")
    build_strictly(config, pages, site)
    assert 'href="other/"' in (site / "index.html").read_text(encoding="utf-8")
