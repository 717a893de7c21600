"""The figures of all pages, in both languages, are those of `docs/figures.toml`."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = tomllib.loads((ROOT / "docs" / "figures.toml").read_text(encoding="utf-8"))["source"]
LISTED = {figure for source in SOURCES for figure in source["figures"]}
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.name != "architecture.md"
]
FIGURE = re.compile(r"(?<![\w.,])(\d[\d,]*(?:\.\d+)?(?: ± \d+\.\d+)?)(?:( ?%)|(?![\w%]))")
SPEED_TABLE = re.compile(r"<!-- speed:begin -->.*?<!-- speed:end -->", re.DOTALL)
"""It is compared with its result by test_benchmarks.py."""


def has(text: str, figure: str) -> bool:
    return bool(re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d,]*\d|\.\d)", text))


def figures_of(page: str) -> set[str]:
    """Find the figures of prose and tables that no code block of the page shows.

    >>> sorted(figures_of("15 minutes: 57 % right, 78.1 ± 1.6 % of 2,000; `--x 0.5`"))
    ['2,000', '57', '78.1 ± 1.6']
    """
    blocks = "\n".join(re.findall(r"```.*?```", page, re.DOTALL))
    for other in (r"(?s)```.*?```", r"`[^`]*`", r"\]\([^)]*\)", SPEED_TABLE):
        page = re.sub(other, "", page)
    found = {
        number.strip(",")
        for number, percent in FIGURE.findall(page)
        if percent or re.search(r"[.,]\d", number)
    }
    return {number for number in found if not has(blocks, number)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_quotes_figures_of_the_list_alone(page):
    unlisted = figures_of(page.read_text(encoding="utf-8")) - LISTED
    assert not unlisted, "put them into docs/figures.toml with the file that holds them"


def test_the_list_has_no_figure_that_no_page_quotes():
    quoted = [figures_of(page.read_text(encoding="utf-8")) for page in PAGES]
    assert not LISTED.difference(*quoted)


@pytest.mark.parametrize(
    "source", [source for source in SOURCES if "file" in source], ids=lambda source: source["file"]
)
def test_a_listed_figure_stands_in_its_file(source):
    text = (ROOT / source["file"]).read_text(encoding="utf-8")
    numbers = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\.\d+", text)]

    def is_rounded(figure: str) -> bool:
        if "±" in figure:
            return False
        decimals = len(figure.partition(".")[2])
        return any(f"{number:,.{decimals}f}" == figure for number in numbers)

    assert source["command"]
    assert not [each for each in source["figures"] if not has(text, each) and not is_rounded(each)]
