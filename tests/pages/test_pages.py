"""Pages hold what was measured; they load nothing, and texts of users are never markup."""

import html
import json
import re
import shlex
from pathlib import Path

import pytest
from browser import find_faults
from tiny_models import reviews, save_tiny
from tiny_runs import FP32, SIZE

from bertsmith.finetuning.glue import GlueReport, GlueRun, write_glue_page

SCRIPT = "<script>alert('film')</script>"
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
TITLES = {
    "classify": ["label", "probability", "text"],
    "tag": ["text, with its labels"],
    "answer": ["answer", "probability", "question", "passage"],
}
CASES = {
    "classify": ("jsonl", (LONG, SCRIPT), [
        json.dumps({"text": f"a {SCRIPT} & {LONG}{LONG}", "label": label})
        for label in (LONG, SCRIPT)
    ]),
    "tag": ("conll", ("B-PER", "O"), [f"{LONG} B-PER\n{SCRIPT.replace(' ', '')} O\n"]),
    "answer": ("jsonl", (), [json.dumps({
        "id": "a", "question": f"what {LONG} ?", "context": f"a good film {SCRIPT}",
        "answers": [{"text": "good", "answer_start": 2}],
    })]),
}  # fmt: skip


@pytest.mark.parametrize("task", CASES)
def test_evaluations_and_predictions_of_texts_that_break_pages(
    task, bertsmith, tmp_path, check_page
):
    ending, labels, lines = CASES[task]
    model = save_tiny(tmp_path / "model", task, labels=labels)
    file, page = tmp_path / f"data.{ending}", tmp_path / "page.html"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for command in (("evaluate", model, "--data", file), ("predict", model, "--file", file)):
        bertsmith(*command, *FP32, "--page", page)
        check_page(page)
        assert "&lt;script&gt;" in page.read_text(encoding="utf-8")
    titles = re.findall(r'<th scope="col">(.*?)</th>', page.read_text(encoding="utf-8"))
    assert titles == TITLES[task]


@pytest.mark.parametrize("task", ["classify", "answer"])
def test_a_word_of_ten_thousand_letters_makes_no_table_wide(task, bertsmith, tmp_path, browser):
    if browser is None:
        pytest.skip("needs Chromium")
    word = "w" * 10_000
    ending, labels, _ = CASES[task]
    model = save_tiny(tmp_path / "model", task, labels=labels)
    file, path = tmp_path / f"data.{ending}", tmp_path / "page.html"
    fields = ("question", "context") if task == "answer" else ("text",)
    rows = [dict.fromkeys(fields, text) | {"id": text[:1]} for text in (word, "a good film " * 300)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bertsmith("predict", model, "--file", file, "--page", path, *FP32)
    with browser.new_page() as page:
        page.goto(path.resolve().as_uri())
        for width in (400, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.eval_on_selector_all(
                ".wide", "all => all.map(each => each.scrollWidth <= each.clientWidth)"
            ) == [True]


def test_predicted_labels_have_names_and_colors(bertsmith, tmp_path, check_page):
    names = ["billing", "praise", "urgent"]
    model = save_tiny(tmp_path / "model", "classify", labels=names)
    texts, page = tmp_path / "texts.txt", tmp_path / "page.html"
    texts.write_text("\n".join(example.text for example in reviews(20)), encoding="utf-8")
    predicted = bertsmith("predict", model, "--file", texts, *FP32, "--json", "--page", page)
    check_page(page)
    shown = re.findall(
        r'<td class="answer"><mark class="c(\d)">(\w+)</mark></td>.*?>(\d+\.\d\u00a0%)<',
        page.read_text(encoding="utf-8").replace("\n", ""),
    )
    predictions = json.loads(predicted)["predictions"]
    assert [(name, percent) for _, name, percent in shown] == [
        (one["label"], f"{100 * one['probability']:.1f}\u00a0%") for one in predictions
    ]
    colors = {name: {color for color, other, _ in shown if other == name} for name in names}
    used = [color for color in colors.values() if color]
    assert all(len(color) == 1 for color in used)
    assert len(set().union(*used)) == len(used) > 1


def test_numbers_beside_those_that_are_right(bertsmith, tmp_path, check_page):
    model = save_tiny(tmp_path / "model", "regress")
    file, page = tmp_path / "data.jsonl", tmp_path / "page.html"
    rows = [{"text": "a good film", "label": label} for label in (-1.5, 0, 2)]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = ("evaluate", model, "--data", file, *FP32, "--page", page)
    bertsmith(*command)
    shown = page.read_text(encoding="utf-8")
    assert shown.count('<circle class="points') == len(rows)
    check_page(page)
    assert f"bertsmith {shlex.join(map(str, command))}" in html.unescape(shown)
    assert "by bertsmith 0." in shown


def test_a_run_and_its_corpus(bertsmith, corpus_dir, tmp_path, check_page):
    page = tmp_path / "run" / "page.html"
    run = ("pretrain", "--corpus", corpus_dir, "--out", tmp_path / "run", *SIZE, "--page", page)
    bertsmith(*run, "--steps", 3, "--start-steps", 2, "--start-length", 8)
    shown = page.read_text(encoding="utf-8")
    assert "Training begins with short" in shown
    assert "complete" in shown and "step 3" in shown and "refresh" not in shown
    assert "Training of run" in shown and "minutes, seconds" not in shown
    check_page(page)
    bertsmith("corpus", "inspect", corpus_dir, "--page", page)
    check_page(page)


def test_glue(tmp_path, check_page):
    names, path = ("MRPC", "CoLA", LONG), tmp_path / "glue.html"
    runs = {
        name: [
            GlueRun(name, seed, tmp_path, {name: {"matthews_correlation": share}}, 1.0)
            for seed, share in enumerate((-0.1, 0.4, 0.5))
        ]
        for name in names
    }
    write_glue_page(path, Path(f"runs/{LONG}"), GlueReport(tmp_path, runs, ()))
    assert path.read_text(encoding="utf-8").count('class="seed"') == 3 * (len(names) + 1)
    check_page(path)


def test_glue_of_one_task_and_seed_shows_its_score_once(tmp_path, check_page):
    """No average of one task, and no mark at the end of a bar."""
    path = tmp_path / "glue.html"
    run = GlueRun("CoLA", 0, tmp_path, {"CoLA": {"matthews_correlation": 0.317}}, 1.0)
    report = GlueReport(tmp_path, {"CoLA": [run]}, ())
    write_glue_page(path, Path("runs/model"), report)
    page = path.read_text(encoding="utf-8")
    assert page.count('<td class="number">31.7') == 1
    assert "average" not in page and 'class="seed"' not in page and "mark for each" not in page
    assert "average" not in str(report)
    check_page(path)


def test_chromium_finds_what_is_pale_or_cut_off(browser, tmp_path):
    if browser is None:
        pytest.skip("no chromium on this computer: pages were checked without one")
    path = tmp_path / "page.html"
    path.write_text("<p style='color: #eee'>pale</p><p style='width: 9999px'>wide</p>")
    faults = find_faults(browser.new_page(), path)
    assert {fault.partition(": ")[2].split()[0] for fault in faults} == {"contrast", "page"}
