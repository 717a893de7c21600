"""The whole road, in little: everything is written, and the page says what the JSON says."""

import json
import re
import sys
from html import unescape
from itertools import product
from pathlib import Path
from random import Random

import pytest
from browser import WIDTHS
from refusals import refuses

from bertsmith.data.examples import ExampleReader
from bertsmith.demo.job import NUM_PARTS, run_demo
from bertsmith.demo.question import LABELS, remove_names
from bertsmith.demo.settings import DemoSettings
from bertsmith.errors import ConfigError, InputError

LINES = """cells => Object.fromEntries(cells.map(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return [cell.textContent, new Set([...range.getClientRects()].map(box => box.top)).size];
}))"""
"""The number of lines of each cell, by its text."""


def short_demo(sources, out):
    """Run a short demo of made-up libraries; give its figures, and what it said."""
    rng = Random(0)
    for library, number in product(LABELS, range(30)):
        words = [f"{rng.choice('bdfg')}{rng.choice('aeiou')}{library[-2:]}" for _ in range(25)]
        path = sources / library / f"part{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""The {" ".join(words)} is."""\n')
    libraries = {library: sources / library for library in LABELS}
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertsmith.demo.job.MIN_PRETRAINING_SECONDS", 5.0)
        results = run_demo(DemoSettings(out, minutes=0.1), libraries=libraries, say=said.append)
    return results, said


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of a short demo, its figures, and the text of its page."""
    out = tmp_path_factory.mktemp("runs") / "demo"
    results, said = short_demo(tmp_path_factory.mktemp("lib"), out)
    parts = [line.split("]")[0] for line in said if line.startswith("[")]
    assert parts == [f"[{number} of {NUM_PARTS}" for number in range(1, NUM_PARTS + 1)]
    html = (out / "report.html").read_text(encoding="utf-8")
    return out, results, " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


@pytest.mark.same_on_all_computers
def test_the_page_needs_nothing_beside_it(demo, check_page):
    check_page(demo[0] / "report.html")


@pytest.mark.same_on_all_computers
def test_names_of_libraries_stay_on_one_line(demo, browser):
    if browser is None:
        pytest.skip("no chromium on this computer")
    with browser.new_page() as page:
        page.goto((demo[0] / "report.html").resolve().as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            num_lines = page.eval_on_selector_all("td[data-title='is from']", LINES)
            assert "scikit-learn" in num_lines
            assert [name for name, number in num_lines.items() if number > 1] == []


def test_folder_holds_what_was_measured(demo):
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
    # Modules to score on were not pre-trained on.
    corpus_text = (out / "documentation.txt").read_text(encoding="utf-8")
    untouched = [e.text for e in ExampleReader(out / "question" / "test.csv").read()]
    assert untouched and not any(
        text != remove_names(text) or text in corpus_text for text in untouched
    )


@pytest.mark.same_on_all_computers
def test_without_scikit_learn_one_method_is_left_out(tmp_path, monkeypatch, check_page):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    results, said = short_demo(tmp_path / "lib", tmp_path / "demo")
    assert {row["name"] for row in results["comparison"]} == {"pretrained", "untrained", "majority"}
    assert [line for line in said if "scikit-learn is not installed" in line and "pip" in line]
    page = tmp_path / "demo" / "report.html"
    assert "TF-IDF" not in page.read_text(encoding="utf-8")
    check_page(page)


def test_page_says_what_the_figures_say(demo):
    _, results, text = demo
    pretraining = results["pretraining"]
    scores = [
        row[name]["mean"] for row in results["comparison"] for name in ("accuracy", "macro_f1")
    ]
    pretrained = next(row for row in results["comparison"] if row["name"] == "pretrained")
    for figure in (
        *(f"{100 * score:.1f} %" for score in scores),
        f"has {100 * pretrained['accuracy']['values'][0]:.1f} % right",  # of the classifier shown
        f"{100 * pretraining['held_out_mlm_accuracy']:.1f} %",
        f"{pretraining['real_tokens']:,}",
        f"{results['vocabulary']['fertility']:.2f}",
        f"{results['corpus']['num_tokens']:,}",
        *(" ".join(row["text"].split()) for row in results["predictions"]),
        *(f"{row['predicted']} {100 * row['probability']:.0f} %" for row in results["predictions"]),
        *(word["token"] for row in results["fills"] for word in row["words"]),
    ):
        assert figure in text


def test_commands_on_the_page_work(demo, bertsmith):
    """Those of the first box, as they stand."""
    out, results, text = demo
    test = out / "question" / "test.csv"
    shown = json.loads(bertsmith("evaluate", out / "classifier", "--data", test, "--json"))
    row = next(row for row in results["comparison"] if row["name"] == "pretrained")
    assert shown["accuracy"] == row["accuracy"]["values"][0]
    assert shown["confusion"] == [list(row) for row in results["confusion"]]
    sentence = "The function returns a [MASK]."
    assert len(json.loads(bertsmith("fill", out / "pretrained", sentence, "--json"))["masks"]) == 1
    assert f"evaluate {out}/classifier --data {test}" in text
    assert f'fill {out}/pretrained "{sentence}"' in text


def test_a_demo_that_cannot_be(tmp_path, refused):
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    assert f"bertsmith: {tmp_path}: " in refused("demo", "--out", tmp_path)
    with refuses(InputError, "0 of the 8"):
        run_demo(DemoSettings(tmp_path / "demo"), libraries={})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with refuses(ConfigError, "--minutes: found 0"):
        DemoSettings(minutes=0)
    with refuses(ConfigError, "--out: found '.'"):
        DemoSettings(out=Path())
