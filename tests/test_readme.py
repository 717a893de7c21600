"""What the README, the pages beside it and the recipes tell people to type can be typed."""

import re
import shlex
from pathlib import Path

import pytest

from bertsmith.cli import COMMANDS, main
from bertsmith.commands import distill, distill_pretraining, pretrain
from bertsmith.config import to_jsonable

ROOT = Path(__file__).resolve().parent.parent
RECIPES_DIR = ROOT / "bertsmith" / "recipes"
RECIPES = sorted(
    path for kind in ("pretrain", "distill") for path in (RECIPES_DIR / kind).glob("*.toml")
)


def commands_in(path: Path) -> list[list[str]]:
    """Every `$ bertsmith …` line of a page, as words; lines that end in a backslash go on."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"^\$ bertsmith (.*)$", text, re.MULTILINE)]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = [words for page in PAGES for words in commands_in(page)]
ALIKE = {f"distill {task}" for task in ("answer", "tag", "regress", "choose", "embed")}
"""What is used as `distill classify` is."""


def test_the_pages_show_the_whole_road() -> None:
    shown = {name for words in SHOWN for name in COMMANDS if " ".join(words).startswith(name)}
    assert shown >= set(COMMANDS) - {"demo", "hardware", "corpus inspect"} - ALIKE


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_shown_commands_and_flags_exist(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name = next(name for name in COMMANDS if " ".join(words).startswith(name))
    with pytest.raises(SystemExit) as stop:
        main([*name.split(), "--help"])
    assert stop.value.code == 0
    known = set(re.findall(r"--[a-z][\w.-]*", capsys.readouterr().out))
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads(path: Path) -> None:
    if path.parent.name == "pretrain" or path.stem == "pretraining":
        of_teacher = path.parent.name == "distill"
        parse = distill_pretraining.parse if of_teacher else pretrain.parse
        more = ["--teacher", "t"] if of_teacher else []
        request = parse([str(path), "--corpus", "c", "--out", "o", *more], "bertsmith pretrain")
        assert to_jsonable(request.settings)["corpus"] == "c"
        request.settings.training.budget()
    else:
        flags = {"--teacher": "t", "--train": "a", "--eval": "b", "--out": "o"}
        words = [str(path), *(word for pair in flags.items() for word in pair)]
        assert distill.parse(words, "bertsmith distill classify").student.teacher == Path("t")


LINKS = [
    pytest.param(page, *link, id=f"{page.name}: {''.join(link)}")
    for page in PAGES
    for link in re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)", page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page, place, anchor", LINKS)
def test_links_lead_somewhere(page: Path, place: str, anchor: str) -> None:
    target = (page.parent / place).resolve() if place else page
    assert target.exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor[1:] in {as_anchor(heading) for heading in headings}


def as_anchor(heading: str) -> str:
    """What a heading is called in links, as GitHub has it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
