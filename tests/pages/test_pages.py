"""Each page in Chromium: nothing is cut off, pale, or loaded from elsewhere."""

import json
import re
from pathlib import Path

import pytest
from tiny_models import save_tiny
from tiny_runs import FP32, SIZE

from bertsmith.finetuning.glue import GlueReport, GlueRun, write_glue_page

LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
TEXTS = ("a good film", f"a film of {LONG}{LONG}", "<script>alert('film')</script> & on", "好 film")
TITLES = {
    "classify": ["label", "probability", "text"],
    "tag": ["text, with its labels"],
    "answer": ["answer", "probability", "question", "passage"],
}
CASES = {
    "classify": ("jsonl", ("neg", LONG), [
        json.dumps({"text": TEXTS[row % 4], "label": ("neg", LONG)[row % 2]}) for row in range(80)
    ]),
    "tag": ("conll", ("B-PER", "I-PER", "O"), [f"good B-PER\n{LONG} I-PER\nfilm O\n"] * 9),
    "answer": ("jsonl", (), [json.dumps({
        "id": "a", "question": f"what {LONG} ?", "context": f"a good film {LONG}",
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
        assert "<script" not in page.read_text(encoding="utf-8")
        check_page(page)
    titles = re.findall(r'<th scope="col">(.*?)</th>', page.read_text(encoding="utf-8"))
    assert titles == TITLES[task]


def test_a_run_and_its_corpus(bertsmith, corpus_dir, tmp_path, check_page):
    page = tmp_path / "run" / "page.html"
    run = ("pretrain", "--corpus", corpus_dir, "--out", tmp_path / "run", *SIZE, "--page", page)
    bertsmith(*run, "--steps", 3)
    shown = page.read_text(encoding="utf-8")
    assert "complete" in shown and "step 3" in shown and "refresh" not in shown
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
    assert path.read_text(encoding="utf-8").count('class="whisker"') == len(names) + 1
    check_page(path)
