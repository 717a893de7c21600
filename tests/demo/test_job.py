"""The whole road, in little: everything is written, and the page says what the JSON says."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bertsmith import cli
from bertsmith.config import read_recipe
from bertsmith.data.examples import read_examples
from bertsmith.data.shards import Corpus
from bertsmith.demo.corpus import Installation
from bertsmith.demo.job import FULL, QUICK, DemoSettings, pretrain_job, run_demo
from bertsmith.demo.places import Places
from bertsmith.demo.question import has_name
from bertsmith.errors import ConfigError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.tasks.auto import load


class Page(HTMLParser):
    """The text of a page, its tags with their attributes, and whether they are balanced."""

    VOID = frozenset({"meta", "br", "img", "link", "path", "circle"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(html)
        assert not self._open, f"never closed: {self._open}"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a quick demo on this Python, and the figures it gave."""
    out = tmp_path_factory.mktemp("runs") / "demo"
    return out, run_demo(DemoSettings(out=out, quick=True))


def test_figures_are_written_as_given(demo: tuple[Path, dict[str, Any]]) -> None:
    out, results = demo
    written = json.loads((out / "demo.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(results))
    assert written["is_complete"]
    assert {row["name"] for row in written["comparison"]} == {
        "pretrained",
        "untrained",
        "tfidf",
        "majority",
    }


def test_page_says_what_the_figures_say(demo: tuple[Path, dict[str, Any]]) -> None:
    out, results = demo
    text = Page((out / "report.html").read_text(encoding="utf-8")).text
    for row in results["comparison"]:
        assert f"{row['accuracy']['mean']:.1%}" in text
        assert f"{row['macro_f1']['mean']:.1%}" in text
    for figure in (
        f"{results['pretraining']['held_out_mlm_accuracy']:.1%}",
        f"{results['pretraining']['real_tokens']:,}",
        f"{results['vocabulary']['size']:,}",
        f"{results['vocabulary']['fertility']:.2f}",
        f"{results['corpus']['num_tokens']:,}",
        f"{results['documentation']['num_modules']:,}",
    ):
        assert figure in text
    for row in results["predictions"]:
        assert " ".join(row["text"].split()) in text
        assert f"{row['predicted']} {100 * row['probability']:.0f} %" in text
    for row in results["fills"]:
        assert row["text"] in text
        assert all(word["token"] in text for word in row["words"])


def test_page_needs_nothing_beside_it(demo: tuple[Path, dict[str, Any]]) -> None:
    html = (demo[0] / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in page.tags}
    assert not any({"src", "href"} & attributes.keys() for _, attributes in page.tags)
    assert "url(" not in html and "@import" not in html
    assert ("html", {"lang": "en"}) in page.tags


def test_commands_on_the_page_work(
    demo: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the first box, as they stand."""
    out, results = demo
    cli.main(["evaluate", str(out / "classifier"), "--data", f"{out}/question/test.csv", "--json"])
    shown = json.loads(capsys.readouterr().out)
    row = next(row for row in results["comparison"] if row["name"] == "pretrained")
    assert shown["accuracy"] == row["accuracy"]["values"][0]
    cli.main(["fill", str(out / "pretrained"), "The function returns a [MASK].", "--json"])
    assert len(json.loads(capsys.readouterr().out)["masks"]) == 1
    text = Page((out / "report.html").read_text(encoding="utf-8")).text
    assert f"evaluate {out}/classifier --data {out}/question/test.csv" in text
    assert f'fill {out}/pretrained "The function returns a [MASK]."' in text


def test_modules_to_score_on_were_not_pretrained_on(demo: tuple[Path, dict[str, Any]]) -> None:
    out, _ = demo
    corpus_text = (out / "documentation.txt").read_text(encoding="utf-8")
    test, _ = read_examples(out / "question" / "test.csv")
    untouched = [example.text for example in test]
    assert not any(has_name(text) for text in untouched)
    assert not any(text in corpus_text for text in untouched)
    assert Corpus.open(out / "corpus").num_documents > 0


def test_saved_classifier_is_the_one_that_was_scored(demo: tuple[Path, dict[str, Any]]) -> None:
    out, results = demo
    evaluation = evaluate(load(out / "classifier"), out / "question" / "test.csv")
    assert [list(row) for row in evaluation.confusion] == [
        list(row) for row in results["confusion"]
    ]


def test_nothing_is_left_lying_about(demo: tuple[Path, dict[str, Any]]) -> None:
    out, _ = demo
    assert [path.name for path in out.parent.iterdir()] == ["demo"]
    assert {path.name for path in out.iterdir()} == {
        "classifier",
        "corpus",
        "demo.json",
        "documentation.txt",
        "pretrained",
        "question",
        "report.html",
        "tokenizer",
    }
    for name in ("pretrained", "classifier"):
        assert re.search(re.escape(str(out)), (out / name / "run.json").read_text("utf-8"))


def test_occupied_folder_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["demo", "--out", str(tmp_path), "--quick"])
    captured = capsys.readouterr()
    assert stopped.value.code == 2
    assert captured.out == ""
    assert captured.err.startswith(f"bertsmith: {tmp_path}: holds other things than a demo")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_python_without_documentation_is_told(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    with pytest.raises(InputError, match="0 of the 8 libraries"):
        run_demo(
            DemoSettings(out=tmp_path / "demo", quick=True),
            installation=Installation(tmp_path / "lib", ()),
        )
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_impossible_minutes_are_refused(minutes: float) -> None:
    with pytest.raises(ConfigError, match="--minutes"):
        DemoSettings(minutes=minutes)


def test_pretraining_follows_the_recipe_of_a_quarter_hour() -> None:
    written = read_recipe(Path("quarter-hour"))
    del written["training"]["minutes"]
    job = pretrain_job(DemoSettings(), FULL, Places(Path("demo")))
    for section, values in written.items():
        assert {name: getattr(getattr(job, section), name) for name in values} == values


@pytest.mark.parametrize(
    ("settings", "steps", "minutes"),
    [
        (DemoSettings(), FULL.pretrain_steps, None),
        (DemoSettings(minutes=2), None, 2),
        (DemoSettings(minutes=2, quick=True), QUICK.pretrain_steps, None),
    ],
)
def test_pretraining_takes_steps_unless_minutes_are_asked_for(
    settings: DemoSettings, steps: int | None, minutes: float | None
) -> None:
    training = pretrain_job(
        settings, QUICK if settings.quick else FULL, Places(Path("demo"))
    ).training
    assert (training.steps, training.minutes) == (steps, minutes)
