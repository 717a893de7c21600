"""The benchmarks: ratios are right, pages and the README agree, the one on a GPU runs."""

import json
import re
import shlex
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from torch_threads import threads

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # benchmarks/ is not installed

from benchmarks import (  # noqa: E402
    corpus_scale,
    few_labels,
    few_labels_names,
    few_labels_page,
    few_labels_sets,
    few_labels_ways,
    gpu,
    lineage,
    quality,
)
from benchmarks.serving import __main__ as serving  # noqa: E402
from benchmarks.speed import readme, time_to_quality  # noqa: E402
from benchmarks.speed.contest import Claim, Contender, Contest, run  # noqa: E402
from benchmarks.speed.plan import Plan  # noqa: E402
from benchmarks.speed.report import page  # noqa: E402
from benchmarks.tasks.cases import CASES, our_settings  # noqa: E402
from benchmarks.tasks.peer import PEERS  # noqa: E402
from bertsmith.commands.settings import pretrain  # noqa: E402
from bertsmith.tasks.catalog import task_named  # noqa: E402

CONTENDER = """
import time


def steady(gate, pause, error_after=None):
    gate.wait(precision="fp32")
    step = 0
    while step != error_after:
        step += 1
        time.sleep(pause)
        print("a library speaks")
        gate.step(10, cells=16)
    raise ValueError("no more steps")

"""


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A result where ours takes 300 to 500 tokens/s, the peer 100, and one fails at step 3."""
    folder, target = tmp_path_factory.mktemp("contest"), "contender_for_test:steady"
    (folder / "contender_for_test.py").write_text(CONTENDER, encoding="utf-8")
    contenders = [
        Contender("ours", target, {"pause": 0.0}),
        Contender("peer", target, {"pause": 0.001}),
        Contender("broken", target, {"pause": 0.0, "error_after": 2}),
    ]
    claims = [Claim("sleeping", ("ours",), ("peer",)), Claim("sleeping", ("ours",), ("broken",))]
    contest = Contest("Sleeping", "tokens/s", contenders, claims, steps=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        found = run(contest, Plan(data=folder, work=folder, threads=1, is_quick=True))
    for name, speeds in (("ours", (500, 300, 400)), ("peer", (100, 100, 100))):
        for burst, speed in zip(found["contenders"][name]["bursts"], speeds, strict=True):
            burst |= {"amount": float(speed), "seconds": 1.0, "cells": speed * 1.25}
    return {
        "date": "2026-01-31", "command": "make bench", "machine": "a machine",
        "versions": {"torch": "2"}, "parity": {"sleeping": {"loss": 1e-7}},
        "contests": {"Sleeping": {**found, "date": "2026-01-31 12:00"}},
    }  # fmt: skip


def test_the_page_has_ratios_by_round_padding_and_errors(result):
    text = page(result)
    assert "| ours: 400 tokens/s | peer: 100 tokens/s | **4.00×** (3.00 to 5.00) |" in text
    assert "| sleeping | ours: 400 tokens/s |  | not measured |" in text
    assert re.search(r"\| peer \| 100 \| 100 to 100 \| 20% \|", text)
    assert re.search(r"\| broken \| failed \|.*no more steps", text)


@pytest.mark.parametrize("page", readme.READMES, ids=lambda page: page.name)
def test_the_speeds_of_the_readmes_are_those_of_a_result(page):
    shown = readme.shown(page)
    named = re.search(r"\(benchmarks/results/(speed-[\w-]+)\.md\)", shown)
    results = ROOT / "benchmarks" / "results"
    assert named and shown == readme.table(results / f"{named[1]}.json", page)


def test_the_table_in_chinese_has_no_english_words_and_repeats_no_label():
    text, _, _ = readme.shown(readme.CHINESE).partition("\n\n")
    names = {"bertsmith", "int", "fp", "tokenizers", "onnxruntime", "sentence", "transformers",
             "tiny", "mini", "small", "base", "MB"}  # fmt: skip
    assert set(re.findall(r"[A-Za-z]+", text)) <= names
    labels = [label for row in text.split("\n") if (label := row.split("|")[1].strip())]
    assert len(labels) == len(set(labels)) > 5


@pytest.mark.parametrize("name", CASES)
def test_bertsmith_takes_the_settings_of_every_case(name, tmp_path):
    case = CASES[name]
    settings = our_settings(case, tmp_path, tmp_path / "model", tmp_path / "out", seed=1)
    assert isinstance(settings, task_named(case.task).settings)
    assert settings.learning_rate == case.learning_rate
    assert case.task in PEERS


@pytest.mark.parametrize("text", quality.TEXTS)
def test_pretrain_takes_the_flags_of_the_quality_benchmark(text):
    args = Namespace(recipe="quarter-hour", text=text, minutes=1.0, steps=None,
                     from_scratch=False, flags=["--micro-batch-size", "32"])  # fmt: skip
    words = [str(word) for word in quality.pretrain_flags(args)]
    settings = pretrain.parse([*words, "--corpus", "c", "--out", "o"], "bertsmith pretrain")
    assert settings.training.minutes == 1.0


def test_pretrain_takes_the_flags_of_the_time_to_quality_benchmark(corpus_dir):
    assert time_to_quality.job(str(corpus_dir), 1.0).training.minutes == 1.0


def test_pretraining_on_a_gpu_is_measured_from_rows_to_page_by_a_tiny_model(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--smoke", "--out", str(tmp_path)])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # so that what `main` sets is undone after the test
    with threads(1):
        gpu.main()
    (page,) = tmp_path.glob("gpu-*-smoke.md")
    found = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    parity = found["parity"]["tiny"]
    assert max(parity["loss"], parity["gradients"]) <= gpu.TOLERANCE
    contenders = found["contests"][0]["contenders"]
    failed = {name for name, each in contenders.items() if each["error"]}
    assert failed == {gpu.FLASH_COMPILED}  # not on a CPU
    text = page.read_text(encoding="utf-8")
    assert re.search(r"\| tiny, natural.*\*\*[\d.]+×\*\*", text) and "ImportError" in text


def turn_of_a_server(saturation, statuses):
    """A turn of benchmarks.serving, with the same latencies at each load."""
    load = {
        "latencies": {"p50": 4.0, "p99": 120.0}, "answered_per_second": 90.0, "client_share": 0.25,
        "statuses": statuses, "num_requests": sum(statuses.values()),
    }  # fmt: skip
    cpu = {"at 80% of the rate": 9.0, "at 200% of the rate": 5.0}
    return {
        "saturation": saturation, "alone": load, "at_50": load, "at_80": load, "at_200": load,
        "start_seconds": 2.5, "memory_at_rest": {"now": 400.0}, "memory": {"peak": 600.0},
        "cpu_ms_per_answer": cpu, "busy_cores": 1.9, "cosine": 0.99995,
    }  # fmt: skip


def test_the_speed_of_building_a_corpus_needs_the_tree_to_compare_with(monkeypatch, capsys):
    words = ["corpus_scale", "speed", "wiki.txt", "--tokenizer", "tokenizer"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stopped:
        corpus_scale.main()
    assert stopped.value.code == 2
    assert "speed needs --other" in capsys.readouterr().err


def test_the_page_of_servers_has_medians_ranges_and_refusals():
    results = {
        "date": "2026-01-31", "processor": "a processor",
        "packages": {"ours": [], "peer": ["package==1"]},
        "turns": {
            "ours": [turn_of_a_server(100.0, {"200": 3, "429": 1}) for _ in range(2)],
            "peer": [turn_of_a_server(rate, {"200": 4}) for rate in (40.0, 50.0, 90.0)],
        },
        "in_process": {"ours": [{"single_ms": 3.0, "texts_per_second": 120.0}]},
    }  # fmt: skip
    text = "\n".join(serving.page(results))
    rates = "| requests/s at most | 100 (100 to 100) | 50.0 (40.0 to 90.0) |"
    assert rates in text and "Medians over 3 turns" in text
    assert "| refused or lost at 200 % | 25% 429 | none |" in text
    assert "lowest cosine is 0.99995" in text and "- peer: `package==1`" in text


def test_the_page_of_few_labels_has_a_table_for_each_set():
    parts = [
        {"machine": "a processor, 2 threads", "commands": ["--labels 16 --samples 2"]},
        {
            "machine": "a processor, 2 threads",
            "commands": [
                "--labels 16 --samples 1",
                "--labels 64 --samples 1",
                "--labels 16 --samples 10",
            ],
        },
    ]
    for part, name, way, count, values in (
        (0, "films", "words", 16, (0.5, 0.6)),
        (0, "films", "words", 1000, (0.7, 0.8)),
        (1, "films", "vectors", 16, (0.9,)),
        (1, "goods", "words", 16, (0.25, 0.75)),
    ):
        for seed, accuracy in enumerate(values, start=1):
            key = f"{name} | {count} | {way} | {seed}"
            parts[part][key] = {"accuracy": accuracy, "core_seconds": 2.0 * seed}
    lines = list(few_labels_page.page(few_labels_page.merge(parts), 1))
    assert any("a processor" in line for line in lines)
    calls = [line for line in lines if line.startswith("python -m benchmarks.few_labels")]
    assert [line.rpartition("DIR ")[2] for line in calls] == [
        "--labels 16 --samples 10",
        "--labels 64 --samples 1",
    ]
    films, goods = lines.index("## films, 2 samples"), lines.index("## goods, 2 samples")
    assert lines[films + 2 : films + 6] == [
        "| | 16 labels | 1,000 labels |",
        "|---|---|---|",
        "| vectors | 90.0 [1] (2.0 s) | |",
        "| words | 55.0 ± 7.1 (3.0 s) | 75.0 ± 7.1 (3.0 s) |",
    ]
    assert lines[goods + 4] == "| words | 50.0 ± 35.4 (3.0 s) |"


def test_the_page_of_few_labels_leaves_out_cells_of_few_samples():
    results = {"machine": "a processor", "commands": []}
    for way, counts in (("a", {16: 3}), ("b", {16: 2, 64: 1}), ("c", {64: 1})):
        for count, num_samples in counts.items():
            for seed in range(num_samples):
                results[f"films | {count} | {way} | {seed}"] = {"accuracy": 0.5}
    lines = list(few_labels_page.page(results, 2))
    title = lines.index("## films, 3 samples")
    assert lines[title + 2 : title + 6] == [
        "| | 16 labels | 64 labels |", "|---|---|---|",
        "| a | 50.0 ± 0.0 | |", "| b | 50.0 ± 0.0 [2] | |",
    ]  # fmt: skip


def test_the_page_of_few_labels_repeats_each_option_that_changes_what_is_measured():
    words = "--published --setfit PYTHON --iterations 5 --in-bf16 --no-words"
    words += (
        " --sets SST-2 'six articles' --labels 200 --heads linear --first-sample 6 --samples 10"
    )
    args = few_labels.build_parser().parse_args(["--work", "figures", *shlex.split(words)])
    assert few_labels.describe_call(args) == words


def test_the_page_of_few_labels_says_how_far_auto_stays_behind():
    results = {"machine": "a processor", "commands": []}
    for way, values in (
        ("m, linear head", (0.5, 0.6)),
        ("m, fine-tuned", (0.52, 0.66, 0.1)),  # four points ahead on the two shared samples
        ("m, `--head auto`", (0.5, 0.6)),
        ("m, linear head and a corpus", (0.7, 0.8)),
        ("m, `--head auto` and a corpus", (0.69, 0.8)),
        ("n, linear head", (0.5,)),
        ("n, `--head auto`", (0.5,)),
        ("other, linear head", (0.9,)),
    ):
        for seed, accuracy in enumerate(values, start=1):
            figures = {"accuracy": accuracy, "chosen": "linear"}
            results[f"films | 16 | {way} | {seed}"] = figures
    lines = list(few_labels_page.page(results, 1))
    summary = lines[lines.index("## Is `--head auto` right?") + 2]
    assert "In 2 of 2 cases it stays at most 1 point behind" in summary
    assert "`--head auto` stays at most 1 point behind in 1 of 2 cases" in summary
    assert lines[: lines.index("## How it was measured") - 1][-3:] == [
        "| films | 16 | m | | linear 2 | 55.0 ± 7.1 | fine-tuned | 4.0 |",
        "| films | 16 | m | yes | linear 2 | 74.5 ± 7.8 | linear head and a corpus | 0.5 |",
        "| films | 16 | n | | linear 1 | 50.0 | linear head | 0.0 |",
    ]


def test_the_page_of_the_lineage_has_the_tables_of_each_corpus(tmp_path):
    scores = {
        "gap_bits_per_byte": ("bits", {"bert": [1.5, 1.7], "gpt": [2.0, 2.2]}, True),
        "gap_accuracy": ("right", {"bert": [0.5, 0.5], "gpt": [0.25, 0.25]}, True),
        "one_segment_loss": ("masked LM", {"bert": [3.0, 3.0], "gpt": [None, None]}, True),
        "SST-2": ("SST-2: accuracy", {"bert": [0.75, 0.77], "gpt": [0.74, 0.76]}, False),
        "names": ("names: F1", {"bert": [0.5, 0.5], "gpt": [None, None]}, False),
    }
    figures = {
        key: {
            "title": title,
            "recipes": {name: {"values": values} for name, values in recipes.items()},
            "differences": {"gpt": {"is_larger_than_noise": is_clear}},
        }
        for key, (title, recipes, is_clear) in scores.items()
    }
    cost = {"parameters": 1234, "steps": 9, "tokens": 6e6, "minutes": 2.0}
    recipes = {"bert": {"cost": {**cost, "memory_bytes": 5e8}}, "gpt": {"cost": cost}}
    guess = [[{"token": "plot", "percent": 12.3}, {"token": "end", "percent": 4.0}]] * 7
    report = {
        "recipes": recipes,
        "figures": figures,
        "equal": {"budget of each run": "2 minutes", "seeds": "2 (0 to 1)",
                  "corpus": "dir: 9 documents", "common held-out rows": "64 of 64 tokens"},
        "runs": [{"recipe": "bert", "seed": 0, "guesses": guess}, {"recipe": "bert", "seed": 1}],
        "errors": ["gpt, seed 1: names failed: no memory"],
    }  # fmt: skip
    (tmp_path / "comparison.json").write_text(json.dumps(report), encoding="utf-8")
    found = lineage.take_report(tmp_path / "comparison.json")
    text = "\n".join(lineage.page({"reviews": found}))
    assert "## Reviews" in text and "Corpus: 9 documents." in text
    assert "| bert | 1,234 | 6.00 | 50,000 | 500 | 1.600 ± 0.141 | 50.0 ± 0.0 |" in text
    assert "| gpt | 1,234 | 6.00 | 50,000 | – | 2.100 ± 0.141 | 25.0 ± 0.0 |" in text
    assert "| gpt | 75.0 ± 1.4 ≈ | – |" in text and "masked LM" not in text
    assert "plot 12, end 4" in text and "Failed: gpt, seed 1" in text


def test_the_page_of_few_labels_gives_names_in_sentences_and_f1():
    name = few_labels_names.NAMES
    results = {"machine": "a processor", "commands": []}
    for seed, f1 in enumerate((0.5, 0.7), start=1):
        results[f"{name} | 64 | m, fine-tuned | {seed}"] = {"f1": f1, "core_seconds": 2.0}
    lines = list(few_labels_page.page(results, 1))
    lines = lines[: lines.index("## How it was measured") - 1]
    assert lines[-5].startswith("F1 of the names") and lines[-3] == "| | 64 sentences |"
    assert lines[-1] == "| m, fine-tuned | 60.0 ± 14.1 (2.0 s) |"


def test_texts_of_pairs_are_compared_where_two_ways_learn_from_them():
    results = {"machine": "a processor", "commands": []}
    for way, speed in (("m, contrastive head", 100.0), ("m, SetFit", 25.0)):
        results[f"films | 16 | {way} | 1"] = {"accuracy": 0.5, few_labels_ways.SPEED: speed}
    results["goods | 16 | m, SetFit | 1"] = {"accuracy": 0.5, few_labels_ways.SPEED: 25.0}
    lines = list(few_labels_page.page(results, 1))
    (title,) = (index for index, line in enumerate(lines) if "per second of a core" in line)
    assert lines[title + 2 : title + 7] == [
        "| | 16 labels |", "|---|---|",
        "| m, SetFit | 25.0 |", "| m, contrastive head | 100.0 |", "",
    ]  # fmt: skip


def test_calibration_errors_have_a_row_for_each_way_but_auto():
    results = {"machine": "a processor", "commands": []}
    for way, count, error in (("a", 16, 0.25), ("b", 64, 0.125), ("a, `--head auto`", 16, 0.5)):
        figures = {"accuracy": 0.5, few_labels_ways.CALIBRATION: error, "chosen": "linear"}
        results[f"films | {count} | {way} | 1"] = figures
    lines = list(few_labels_page.page(results, 1))
    title = lines.index("### Expected calibration error in percent")
    assert lines[title + 2 : title + 7] == [
        "| | 16 labels | 64 labels |", "|---|---|---|", "| a | 25.0 | |", "| b | | 12.5 |", "",
    ]  # fmt: skip


NAMES = """-DOCSTART- -X- O O

Ada NNP I-NP I-PER
Bell NNP B-NP B-PER
flew VBD I-VP O

Rome NNP I-NP I-LOC
slept VBD I-VP O
late RB I-ADVP O
"""


def test_the_baseline_of_names_learns_each_words_label(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text(NAMES, encoding="utf-8")
    sentences = few_labels_names.read_sentences(file)
    assert sentences[0] == [["Ada", "Bell", "flew"], ["Rome", "slept", "late"]]
    assert sentences[1] == [["B-PER", "B-PER", "O"], ["B-LOC", "O", "O"]]
    drawn = few_labels_names.draw_sentences(sentences, 2, 3)
    assert sorted(zip(*drawn, strict=True)) == sorted(zip(*sentences, strict=True))
    # Two of three names: Nero was in no sentence, and most words are no names.
    test = [["Ada", "slept"], ["Rome", "Nero"]], [["B-PER", "O"], ["B-LOC", "B-PER"]]
    figures = few_labels_names.measure_names(None, sentences, test, 1)
    assert figures == {"f1": pytest.approx(0.8)}


def test_chinese_texts_are_counted_by_character():
    films = few_labels.build_word_counts(["好看", "不好看", "fine"]).fit(
        ["好看", "不好看", "很好看", "不看"], ["1", "0", "1", "0"]
    )
    assert films.predict(["不好"]).tolist() == ["0"]
    words = few_labels.build_word_counts(["good", "not good"]).fit(["good", "bad"], ["1", "0"])
    assert list(words[0].vocabulary_) == ["good", "bad"]


def test_samples_of_labels_have_every_label_and_repeat_with_the_seed():
    rows = ([f"text {number}" for number in range(50)], ["a"] * 48 + ["b", "c"])
    texts, labels = few_labels_sets.draw(rows, 10, 3)
    assert set(labels) == {"a", "b", "c"} and len(set(texts)) == 10
    assert few_labels_sets.draw(rows, 10, 3) == (texts, labels)
    assert few_labels_sets.draw(rows, 10, 4) != (texts, labels)
