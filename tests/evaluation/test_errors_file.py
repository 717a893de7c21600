"""Wrong answers in a file, and what a page draws of an evaluation: both say what was predicted."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from limits import file_size_limit
from memory_peak import peak
from refusals import refuses
from tiny_models import reviews, save_tiny, write_csv, write_reviews
from tiny_runs import FP32

from bertsmith.cli import main
from bertsmith.data.examples import Example
from bertsmith.data.tables import read_csv
from bertsmith.errors import ConfigError
from bertsmith.evaluation import word_influence
from bertsmith.evaluation.errors_file import write_misses
from bertsmith.evaluation.page import ErrorSurvey, draw_thresholds
from bertsmith.metrics.class_report import summarize
from bertsmith.metrics.classification import Calibration, confusion_matrix
from bertsmith.tasks.auto import load
from bertsmith.tasks.scoring import Outcome

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's limits")


@pytest.fixture
def place(tmp_path):
    save_tiny(tmp_path / "classifier", "classify", labels=("neg", "pos"))
    write_reviews(tmp_path / "data.csv", 61)
    return tmp_path


@pytest.fixture
def evaluate(bertsmith, place):
    """Evaluate the classifier on the table; gives the JSON that is printed."""
    words = ("evaluate", place / "classifier", "--data", place / "data.csv", *FP32, "--json")
    return lambda *more: json.loads(bertsmith(*words, *more))


def test_every_miss_the_most_confident_first(evaluate, place):
    out = place / "errors.jsonl"
    report = evaluate("--errors", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    classifier = load(place / "classifier", device="cpu", precision="fp32")
    examples = reviews(61)
    expected = {
        example.row: (example.text, example.label, found.label)
        for example, found in zip(examples, classifier([e.text for e in examples]), strict=True)
        if found.label != example.label
    }
    assert {row["line"]: (row["text"], row["gold"], row["predicted"]) for row in rows} == expected
    assert len(rows) == len(expected) == 61 - round(61 * report["accuracy"])
    confidences = [row["confidence"] for row in rows]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0.5 <= confidence <= 1 for confidence in confidences)


@on_linux
@pytest.mark.parametrize("num_words", [1, 20_000])
def test_scores_are_printed_though_the_file_finds_no_room(place, capsys, num_words):
    """A long text does not fit into the file's buffer, so that it is written before the end."""
    rows = [(" ".join([word] * num_words), "neg") for word in ("good", "fine", "bad", "dull")]
    write_csv(place / "data.csv", ("text", "label"), *rows, *((text, "pos") for text, _ in rows))
    words = ("evaluate", place / "classifier", "--data", place / "data.csv", *FP32)
    with pytest.raises(SystemExit) as caught, file_size_limit(100):
        main([*map(str, words), "--errors", str(place / "errors.jsonl")])
    found = capsys.readouterr()
    assert caught.value.code == 2 and "errors.jsonl" in found.err
    assert found.out.startswith("accuracy")


def test_nothing_is_left_after_an_error(tmp_path):
    with refuses(ConfigError, "--errors", "a.txt'", ".jsonl"), write_misses(tmp_path / "a.txt"):
        pass
    with pytest.raises(ZeroDivisionError), write_misses(tmp_path / "a.jsonl") as misses:
        misses.add([Example("t", row=1)], [Outcome("t", "a", "b", 0.0, 0.9)])
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []


def test_a_csv_file_can_be_read_again_whatever_the_text(tmp_path):
    path, text = tmp_path / "a.csv", 'one\r\n"two", three'
    with write_misses(path) as misses:
        misses.add([Example("t", row=1)], [Outcome(text, "a", "b", 0.0, 0.9)])
    (_, header), (_, cells) = read_csv(path)
    row = dict(zip(header, cells, strict=True))
    assert (row["text"], row["confidence"]) == (text, "0.9")


def test_many_misses_need_little_memory(tmp_path):
    def write(count):
        with write_misses(tmp_path / "a.jsonl") as misses:
            for row in range(count):
                outcome = Outcome("some text " * 9, "a", "b", 0.0, row % 97 / 97)
                misses.add([Example("t", row=row)], [outcome])

    write(200)
    small, large = (peak(lambda count=count: write(count)) for count in (500, 2000))
    assert large - small < 1500 * 100  # 16 bytes, and what sorting takes; a line has 170
    assert len((tmp_path / "a.jsonl").read_bytes().splitlines()) == 2000


def test_the_page_shows_what_the_figures_say(evaluate, place, monkeypatch):
    monkeypatch.setattr(word_influence, "MAX_ODDS_LEFT", 0.9999)  # the tiny model is unsure
    page = place / "report.html"
    report = evaluate("--page", page)
    text = page.read_text()
    assert report == evaluate()
    classifier = load(place / "classifier", device="cpu", precision="fp32")
    found = classifier([example.text for example in reviews(61)])
    calibration = Calibration()
    calibration.add(
        np.array([prediction.probability for prediction in found]),
        np.array([p.label == e.label for p, e in zip(found, reviews(61), strict=True)], float),
    )
    assert report["expected_calibration_error"] == calibration.error
    assert f"<dt>Calibration error</dt><dd>{100 * calibration.error:.1f}\u00a0%</dd>" in text
    cells = re.findall(r'<td class="cell[^>]*>([^<]*)</td>', text)
    assert cells == [str(c) if c else "·" for row in report["confusion"] for c in row]
    assert "0 to 32" in text
    assert re.search(r"<mark class=\"c1\">[^<]+<small>[0-9.]+\u00a0%</small></mark>", text)
    assert f"The model in <code>{place / 'classifier'}</code>" in text


def test_words_that_decide_are_marked_with_what_is_left(place, monkeypatch):
    monkeypatch.setattr(word_influence, "MAX_ODDS_LEFT", 0.9999)  # the tiny model is unsure
    classifier = load(place / "classifier", device="cpu", precision="fp32")
    example = Example("A gripping story, unbearably told.", "really good")
    (parts,) = word_influence.mark_influential(classifier, [example])
    assert (
        "".join(part.text for part in parts) == "A gripping story, unbearably told. | really good"
    )
    (whole,) = classifier.predict([example])
    expected = []
    for name in ("text", "pair"):
        text, left = getattr(example, name), []
        for word in re.finditer(r"\w+|[^\w\s]", text):
            masked = f"{text[: word.start()]}[MASK]{text[word.end() :]}"
            (found,) = classifier.predict([replace(example, **{name: masked})])
            left.append((found.probabilities[whole.label], word.start(), word.group()))
        least = sorted(each for each in left if each[0] < whole.probability - 1e-4)[:3]
        expected += [
            (word, f"{100 * p:.1f}\u00a0%")
            for p, _, word in sorted(least, key=lambda each: each[1])
        ]
    assert expected == [(part.text, part.label) for part in parts if part.color is not None] != []


NAMES = ("no", "yes")


def test_thresholds():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 400)
    likely = np.clip(0.3 * gold + 0.7 * rng.random(400), 0, 1)
    predicted = (likely >= 0.5).astype(int)
    survey = ErrorSurvey()
    for right, found, share in zip(gold, predicted, likely.tolist(), strict=True):
        sure = share if found else 1 - share
        outcome = Outcome("t", NAMES[right], NAMES[found], float(right == found), sure)
        survey.add([Example("t")], [outcome])
    report = summarize(confusion_matrix(gold, predicted, 2), NAMES)
    drawn = draw_thresholds(survey, report)
    assert drawn.label == "yes" and drawn.usual_f1 == pytest.approx(report.classes[1].f1)
    for threshold, recall in drawn.chart.series[1].points:
        assert recall == pytest.approx((likely[gold == 1] >= threshold - 1e-12).mean(), abs=0.01)
