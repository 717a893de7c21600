"""Files of any size are scored and predicted in the memory of a portion."""

import numpy as np
import pytest
from memory_peak import peak
from tiny_models import GOOD, OTHER, save_tiny

import bertsmith
from bertsmith.commands.predict import main
from bertsmith.data import decompression, tagged_files
from bertsmith.data.examples import Example
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.score import score_class_files, score_number_files
from bertsmith.tasks import predictor as prediction
from bertsmith.tasks.auto import load
from bertsmith.tasks.predictor import in_chunks

pytestmark = pytest.mark.same_on_all_computers
LABELS = {"classify": ("neg", "pos"), "tag": ("B-PER", "O")}
ROWS = 600, 1800
LONG_ROWS = 300, 900
"""Of files with long texts. The shorter file has chunks enough that all sizes of them have come
by."""

BYTES_PER_ROW = 24
"""True and predicted numbers are kept, 8 bytes each; a list's own growth is the rest."""
WORDS_PER_TEXT = 12
WORD_REPEATS = {"classify": 12, "tag": 6}
"""Words so long that a text takes over 500 bytes, and as a list of words still more: the rows that
only the longer file has take more than `UNCOLLECTED`. Few tokens keep the test short."""

FITTED_BYTES = 450
"""An example, its token ids, and the lists that name them."""

UNCOLLECTED = 300_000
"""Bytes that may wait for Python's collector: threads leave some."""
READ_BYTES = 1 << 14
"""Bytes that are read from a file at once: less than the shorter file has."""


def check_growth(work, files, allowed):
    """Check that Python and numpy hold less than `allowed` bytes more at once for the second file.

    One of three tries has to show it, as threads leave more or less for Python's collector.
    """
    work(files[0])  # what is made once
    small = min(peak(lambda: work(files[0])) for _ in range(3))
    growths = [peak(lambda: work(files[1])) - small]
    while growths[-1] >= allowed and len(growths) < 3:
        growths.append(peak(lambda: work(files[1])) - small)
    assert growths[-1] < allowed, growths


def write_texts(path, count, task):
    """Write texts and their labels in the task's kind of file."""
    rng = np.random.default_rng(0)
    labels = LABELS[task]
    with path.open("w") as file:
        file.write("" if task == "tag" else "text,label\n")
        for number in range(count):
            chosen = rng.choice(GOOD + OTHER[:7], WORDS_PER_TEXT).tolist()
            words = [word * WORD_REPEATS[task] for word in chosen]
            if task == "tag":
                file.write("".join(f"{word} {rng.choice(labels)}\n" for word in words) + "\n")
            else:
                file.write(f"{' '.join(words)},{labels[number % len(labels)]}\n")
    return path


@pytest.mark.parametrize("task", LABELS)
def test_evaluation_and_prediction(task, tmp_path, monkeypatch):
    monkeypatch.setattr(prediction, "CHUNK_EXAMPLES", 50)
    monkeypatch.setattr(tagged_files, "DETECTED_FROM", 50)
    monkeypatch.setattr(decompression, "_BUFFER_BYTES", READ_BYTES)
    folder = save_tiny(tmp_path / "m", task, labels=LABELS[task])
    suffix = "conll" if task == "tag" else "csv"
    files = [write_texts(tmp_path / f"{count}.{suffix}", count, task) for count in LONG_ROWS]
    predictor = load(folder, device="cpu", precision="fp32")
    allowed = BYTES_PER_ROW * (LONG_ROWS[1] - LONG_ROWS[0]) + UNCOLLECTED
    check_growth(lambda file: evaluate(predictor, file), files, allowed)
    out = tmp_path / "out.jsonl"

    def write_predictions(file):
        main([str(folder), "--file", str(file), "--out", str(out), "--device", "cpu",
              "--precision", "fp32"], ["bertsmith", "predict"])  # fmt: skip
        with out.open("rb") as lines:
            assert sum(1 for _ in lines) in LONG_ROWS

    check_growth(write_predictions, files, UNCOLLECTED)


def test_encode_holds_vectors(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction, "CHUNK_EXAMPLES", 50)
    encoder = load(save_tiny(tmp_path / "m"), device="cpu", precision="fp32")
    texts = ["a good film", ("the dull story", "was fine")]
    inputs = [texts * (count // 2) for count in ROWS]
    allowed = 24 * 4 * (ROWS[1] - ROWS[0]) + UNCOLLECTED
    check_growth(encoder.encode, inputs, allowed)


def words_and_labels(count):
    rng = np.random.default_rng(count)
    return [" ".join(rng.choice(GOOD + OTHER[:7], 5)) for _ in range(count)], ["a", "b"] * (
        count // 2
    )


QUICK = {"steps": 1, "threads": 1, "device": "cpu", "precision": "fp32"}


def fit(model, texts):
    return bertsmith.TextClassifier(model, **QUICK).fit(*texts, show_progress=False)


def test_estimators_hold_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction, "CHUNK_EXAMPLES", 50)
    sizes = (300, 1500)
    inputs = [words_and_labels(size) for size in sizes]
    classifier = fit(save_tiny(tmp_path / "m", "masked_lm"), inputs[0])
    allowed = BYTES_PER_ROW * (sizes[1] - sizes[0]) + UNCOLLECTED
    for ask in (classifier.predict, classifier.predict_proba):
        check_growth(lambda given, ask=ask: ask(given[0]), inputs, allowed)
    check_growth(lambda given: classifier.score(*given), inputs, allowed)


def test_fit_holds_token_ids(tmp_path):
    """Already the fewer texts, of which a tenth are eval texts, fill an evaluation's batch."""
    model = save_tiny(tmp_path / "m", "masked_lm")
    sizes = (3000, 9000)
    inputs = [words_and_labels(size) for size in sizes]
    allowed = FITTED_BYTES * (sizes[1] - sizes[0])
    check_growth(lambda texts: fit(model, texts), inputs, allowed)


SCORED = {
    "classify": (score_class_files, ["neg", "pos"]),
    "regress": (score_number_files, ["1.5", "2.25", "3"]),
}


@pytest.mark.parametrize("task", SCORED)
def test_scoring_without_a_model(task, tmp_path):
    score, labels = SCORED[task]
    counts, pairs = (1_000, 4_000), []
    for count in counts:
        gold, predictions = tmp_path / f"{count}.csv", tmp_path / f"{count}.txt"
        rows = (f"text {i},{labels[i % 2]}\n" for i in range(count))
        gold.write_text("".join(["text,label\n", *rows]))
        predictions.write_text("".join(f"{labels[i % len(labels)]}\n" for i in range(count)))
        pairs.append((gold, predictions))
    # Of numbers a row's two are kept, and their ranks are taken at the end.
    bytes_per_row = 120 if task == "regress" else 1
    allowed = bytes_per_row * (counts[1] - counts[0]) + UNCOLLECTED
    check_growth(lambda pair: score(*pair), pairs, allowed)


def test_portions_of_long_texts_hold_fewer(monkeypatch):
    monkeypatch.setattr(prediction, "CHUNK_CHARS", 100)
    monkeypatch.setattr(prediction, "CHUNK_EXAMPLES", 4)
    sizes = [10, 10, 10, 10, 10, 90, 300, 20, 60, 30]
    chunks = list(in_chunks(Example("a" * size) for size in sizes))
    assert [[len(e.text) for e in chunk] for chunk in chunks] == [
        [10, 10, 10, 10], [10, 90], [300], [20, 60], [30]
    ]  # fmt: skip
