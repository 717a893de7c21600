"""The whole road, in little: everything is written, and the page says what the JSON says."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bertsmith import cli
from bertsmith.config import read_recipe
from bertsmith.data.examples import read_examples
from bertsmith.demo.corpus import Installation
from bertsmith.demo.folder import Places
from bertsmith.demo.job import FULL, QUICK, DemoSettings, pretrain_job, run_demo
from bertsmith.demo.question import has_name
from bertsmith.errors import ConfigError, InputError


class Page(HTMLParser):
    """The text of a page and its tags with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """The folder of a quick demo on this Python, the figures it gave, and its page."""
    out = tmp_path_factory.mktemp("runs") / "demo"
    few = {"max_chars_per_library": 60_000, "vocab_size": 600, "pretrain_steps": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertsmith.demo.job.QUICK", replace(QUICK, finetune_steps=2, **few))
        results = run_demo(DemoSettings(out=out, quick=True))
    return out, results, (out / "report.html").read_text(encoding="utf-8")


def test_folder_holds_what_was_measured(demo: tuple[Path, dict[str, Any], str]) -> None:
    out, results, _ = demo
    written = json.loads((out / "demo.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(results))
    assert written["is_complete"]
    methods = {row["name"] for row in written["comparison"]}
    assert methods == {"pretrained", "untrained", "tfidf", "majority"}
    assert [path.name for path in out.parent.iterdir()] == ["demo"]
    assert {path.name for path in out.iterdir()} == {
        "classifier", "corpus", "demo.json", "documentation.txt", "pretrained", "question",
        "report.html", "tokenizer",
    }  # fmt: skip
    for name in ("pretrained", "classifier"):
        assert str(out) in (out / name / "run.json").read_text("utf-8")


def test_page_says_what_the_figures_say(demo: tuple[Path, dict[str, Any], str]) -> None:
    _, results, html = demo
    page = Page(html)
    for row in results["comparison"]:
        assert f"{row['accuracy']['mean']:.1%}" in page.text
        assert f"{row['macro_f1']['mean']:.1%}" in page.text
    for figure in (
        f"{results['pretraining']['held_out_mlm_accuracy']:.1%}",
        f"{results['pretraining']['real_tokens']:,}",
        f"{results['vocabulary']['fertility']:.2f}",
        f"{results['corpus']['num_tokens']:,}",
    ):
        assert figure in page.text
    for row in results["predictions"]:
        assert " ".join(row["text"].split()) in page.text
        assert f"{row['predicted']} {100 * row['probability']:.0f} %" in page.text
    for row in results["fills"]:
        assert all(word["token"] in page.text for word in row["words"])
    # It needs nothing beside it.
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in page.tags}
    assert not any({"src", "href"} & attributes.keys() for _, attributes in page.tags)
    assert "url(" not in html and "@import" not in html


def test_commands_on_the_page_work(
    demo: tuple[Path, dict[str, Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the first box, as they stand."""
    out, results, html = demo
    cli.main(["evaluate", str(out / "classifier"), "--data", f"{out}/question/test.csv", "--json"])
    shown = json.loads(capsys.readouterr().out)
    row = next(row for row in results["comparison"] if row["name"] == "pretrained")
    assert shown["accuracy"] == row["accuracy"]["values"][0]
    assert shown["confusion"] == [list(row) for row in results["confusion"]]
    cli.main(["fill", str(out / "pretrained"), "The function returns a [MASK].", "--json"])
    assert len(json.loads(capsys.readouterr().out)["masks"]) == 1
    text = Page(html).text
    assert f"evaluate {out}/classifier --data {out}/question/test.csv" in text
    assert f'fill {out}/pretrained "The function returns a [MASK]."' in text


def test_modules_to_score_on_were_not_pretrained_on(
    demo: tuple[Path, dict[str, Any], str],
) -> None:
    corpus_text = (demo[0] / "documentation.txt").read_text(encoding="utf-8")
    untouched = [e.text for e in read_examples(demo[0] / "question" / "test.csv")[0]]
    assert untouched and not any(has_name(text) or text in corpus_text for text in untouched)


def test_a_demo_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["demo", "--out", str(tmp_path), "--quick"])
    captured = capsys.readouterr()
    assert (stopped.value.code, captured.out) == (2, "")
    assert captured.err.startswith(f"bertsmith: {tmp_path}: holds other things than a demo")
    (tmp_path / "lib").mkdir()
    with pytest.raises(InputError, match="0 of the 8 libraries"):
        run_demo(
            DemoSettings(out=tmp_path / "demo", quick=True),
            installation=Installation(tmp_path / "lib", ()),
        )
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt", "lib"}
    for minutes in (0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="--minutes"):
            DemoSettings(minutes=minutes)


def test_pretraining_follows_the_recipe_and_takes_minutes_where_asked_for() -> None:
    written, places = read_recipe(Path("quarter-hour")), Places(Path("demo"))
    del written["training"]["minutes"]
    job = pretrain_job(DemoSettings(), FULL, places)
    for section, values in written.items():
        assert {name: getattr(getattr(job, section), name) for name in values} == values
    for settings, scale, expected in (
        (DemoSettings(), FULL, (FULL.pretrain_steps, None)),
        (DemoSettings(minutes=2), FULL, (None, 2)),
        (DemoSettings(minutes=2, quick=True), QUICK, (QUICK.pretrain_steps, None)),
    ):
        training = pretrain_job(settings, scale, places).training
        assert (training.steps, training.minutes) == expected
