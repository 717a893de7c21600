"""Files of any size are scored and predicted in the memory of a portion."""

import csv
import tracemalloc

import numpy as np
import pytest
from tiny_models import GOOD, OTHER, save_tiny

from bertsmith.commands.predict import main
from bertsmith.data import tagged_files
from bertsmith.data.examples import Example
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.score import score_choice_files, score_class_files, score_number_files
from bertsmith.tasks import auto as predict
from bertsmith.tasks.auto import in_chunks, load

ROWS = 600, 2400
BYTES_PER_ROW = 24
"""True and predicted numbers are kept, 8 bytes each; a list's own growth is the rest. A text is at
least 80."""

UNCOLLECTED = 60_000
"""Bytes that may wait for Python's collector: threads leave some."""


def write_table(path, count, labels):
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(count):
            words = rng.choice(GOOD + OTHER[:7], 5)
            writer.writerow([" ".join(words), labels[number % len(labels)]])
    return path


def peak(work):
    """The highest number of bytes that Python and numpy held at once for `work`."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    work()
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return highest - before


def write_columns(path, count, labels):
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for _ in range(count):
            words = rng.choice(GOOD + OTHER[:7], 5).tolist()
            file.write("".join(f"{word} {rng.choice(labels)}\n" for word in words) + "\n")
    return path


@pytest.fixture(params=["classify", "regress", "tag"])
def place(request, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "CHUNK_EXAMPLES", 50)
    monkeypatch.setattr(tagged_files, "DETECTED_FROM", 50)
    labels = {"classify": ("neg", "pos"), "regress": (), "tag": ("B-PER", "O")}[request.param]
    if request.param == "tag":
        folder = save_tiny(tmp_path / "m", "tag", labels=labels)
        return folder, [write_columns(tmp_path / f"{n}.conll", n, labels) for n in ROWS]
    folder = save_tiny(tmp_path / "m", request.param, labels=labels)
    gold = labels or ("1.5", "2.25", "3")
    files = [write_table(tmp_path / f"{count}.csv", count, gold) for count in ROWS]
    return folder, files


def test_evaluation(place):
    folder, files = place
    predictor = load(folder, device="cpu", precision="fp32")
    evaluate(predictor, files[0])  # what is made once
    small, large = (peak(lambda file=file: evaluate(predictor, file)) for file in files)
    assert large - small < BYTES_PER_ROW * (ROWS[1] - ROWS[0]) + UNCOLLECTED


def test_prediction(place, tmp_path):
    folder, files = place

    def work(file):
        out = tmp_path / "out.jsonl"
        main([str(folder), "--file", str(file), "--out", str(out), "--device", "cpu",
                    "--precision", "fp32"], "bertsmith predict")  # fmt: skip
        assert out.read_bytes().count(b"\n") in ROWS

    work(files[0])
    small, large = (peak(lambda file=file: work(file)) for file in files)
    assert large - small < 700_000  # the first 1,024 examples are kept for a look at precision


SCORED = {
    "classify": (score_class_files, ["text", "label"], ["neg", "pos"]),
    "regress": (score_number_files, ["text", "label"], ["1.5", "2.25", "3"]),
    "choose": (score_choice_files, ["prompt", "choice1", "choice2", "label"], ["0", "1"]),
}


@pytest.mark.parametrize("task", SCORED)
def test_scoring_without_a_model(task, tmp_path):
    score, columns, labels = SCORED[task]

    def files(count):
        gold, predictions = tmp_path / f"{count}.csv", tmp_path / f"{count}.txt"
        with gold.open("w", newline="") as file:
            rows = ([f"text {i}"] * (len(columns) - 1) + [labels[i % 2]] for i in range(count))
            csv.writer(file).writerows([columns, *rows])
        predictions.write_text("".join(f"{labels[i % len(labels)]}\n" for i in range(count)))
        return gold, predictions

    counts = 2_000, 12_000
    written = [files(count) for count in counts]
    score(*written[0])  # what is made once
    small, large = (peak(lambda pair=pair: score(*pair)) for pair in written)
    # Of numbers a row's two are kept, and their ranks are taken at the end.
    bytes_per_row = 120 if task == "regress" else 1
    assert large - small < bytes_per_row * (counts[1] - counts[0]) + UNCOLLECTED


def test_portions_of_long_texts_hold_fewer(monkeypatch):
    monkeypatch.setattr(predict, "CHUNK_CHARS", 100)
    monkeypatch.setattr(predict, "CHUNK_EXAMPLES", 4)
    sizes = [10, 10, 10, 10, 10, 90, 300, 20, 60, 30]
    chunks = list(in_chunks(Example("a" * size) for size in sizes))
    assert [[len(e.text) for e in chunk] for chunk in chunks] == [
        [10, 10, 10, 10], [10, 90], [300], [20, 60], [30]
    ]  # fmt: skip
