"""finetune, evaluate, predict, embed and fill as they are typed."""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tiny_models import reviews, save_tiny, write_reviews
from tiny_runs import FP32

from bertsmith.commands.fill import format_word
from bertsmith.model.int8 import can_quantize
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.mask_prediction import ScoredToken
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tasks.text_vectors import TextVectors

QUESTIONS = "the film was\tgood\tbad\tfine\t0\na story\tdull\tlovely\tawful\t1\n" * 3
COLUMNS = ("--text-column", 1, "--choice-columns", "2-4")
SCORED = "sentence1\tsentence2\tscore\ngood\tfine\t5\ngood\tbad\t0\nbad\tawful\t4.5\n"
TEXTS = [example.text for example in reviews(9)]
LONG = "no such file.tsv " * 99 + "good"  # longer than a path may be


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Models and tables for every command."""
    folder = tmp_path_factory.mktemp("commands")
    save_tiny(folder / "pretrained", "masked_lm")
    save_tiny(folder / "classifier", "classify", labels=("neg", "pos"))
    write_reviews(folder / "data.csv", 9)
    save_tiny(folder / "tagger", "tag", labels=("B-PER", "I-PER", "O"))
    (folder / "names.conll").write_text("good I-PER\nfilm O\n\na O\nlovely I-PER\nfilm O\n")
    (folder / "questions.tsv").write_text(QUESTIONS)
    save_tiny(folder / "encoder")
    SentenceFolder("mean", True, 19).write(folder / "encoder", 24)
    (folder / "scored.tsv").write_text(SCORED)
    return folder


@pytest.mark.same_on_all_computers
def test_a_file_is_not_written_over_while_it_is_read(refused, place, tmp_path):
    write_reviews(tmp_path / "data.jsonl", 3)
    before = (tmp_path / "data.jsonl").read_bytes()
    for *args, flag in (
        ("predict", place / "classifier", "--file", tmp_path / "data.jsonl", "--out"),
        ("evaluate", place / "classifier", "--data", tmp_path / "data.jsonl", "--errors"),
        ("evaluate", place / "classifier", "--data", tmp_path / "data.jsonl", "--page"),
        ("embed", place / "classifier", tmp_path / "data.jsonl", "--out"),
    ):
        told = refused(*args, flag, tmp_path / "data.jsonl", *FP32)
        assert f"{flag} {tmp_path / 'data.jsonl'} is also the input" in told
    assert (tmp_path / "data.jsonl").read_bytes() == before


@pytest.mark.same_on_all_computers
def test_a_page_is_whole_though_the_reader_of_the_lines_has_left(place, tmp_path):
    page = tmp_path / "page.html"
    words = ["-m", "bertsmith", "predict", place / "classifier", *TEXTS, "--page", page, *FP32]
    with subprocess.Popen([sys.executable, *map(str, words)], stdout=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait() == 0
    text = page.read_text()
    assert all(each in text for each in TEXTS)


def test_a_precision_that_gains_nothing_is_told(typed, place, tmp_path, remember):
    remember(bf16_gflops=1.0, int8_gflops=1.0)
    model, data, vectors = place / "classifier", place / "data.csv", tmp_path / "vectors.npy"
    for precision, args in (
        ("bf16", ("fill", place / "pretrained", "a [MASK]")),
        ("int8", ("predict", model, "good")),
        ("int8", ("evaluate", model, "--data", data)),
        ("int8", ("embed", model, data, "--out", vectors)),
    ):
        if precision == "int8" and not can_quantize():
            continue
        note = typed(*args, "--device", "cpu", "--precision", precision).err.splitlines()[0]
        assert note.startswith(f"{precision}: ")
        assert note.endswith("--precision fp32 is as fast here, and more exact.")
    assert typed("predict", model, "good", *FP32).err == ""
    long = typed("fill", place / "pretrained", "a [MASK]" + " good" * 99, *FP32)
    assert "longer than the model reads" in long.err


@pytest.mark.parametrize("task, data, labels, told", [
    ("classify", "data.csv", ["neg", "pos"], "9 texts with 2 labels"),
    ("tag", "names.conll", ["B-PER", "O"], "2 sentences with 2 labels (IOB1 converted to IOB2)"),
])  # fmt: skip
def test_finetune_then_evaluate(bertsmith, place, tmp_path, task, data, labels, told):
    (tmp_path / "short.toml").write_text("steps = 1\nbatch_size = 4\n")
    out = tmp_path / "out"
    words = ("finetune", task, "--recipe", tmp_path / "short.toml", "--model", place / "pretrained",
             "--train", place / data, "--eval", place / data, "--out", out, *FP32)  # fmt: skip
    trained = json.loads(bertsmith(*words, "--json"))
    assert (trained["task"], trained["labels"]) == (task, labels)
    command = ("evaluate", out, "--data", place / data, *FP32)
    evaluated = json.loads(bertsmith(*command, "--json"))
    assert 0 <= evaluated.pop("expected_calibration_error") <= 1
    baselines = evaluated.pop("baselines", [])  # of a classifier, which knows its training's
    assert baselines == [each for each in trained["baselines"] if each["key"] == "majority"]
    assert evaluated == {**trained["evaluation"], "unknown_rate": 0.0}
    text = bertsmith(*command)
    assert "type  precision" in text or f"accuracy  {evaluated['accuracy']:.4f}" in text
    assert bertsmith(*words, "--overwrite").startswith(f"trained on {told}: 1 step ")


FLAGS_TABLE = "text,toxic,insult\n" + "a good film,0,0\na bad film,1,0\nan awful film,1,1\n" * 4
LISTS = "".join(
    json.dumps({"text": text, "labels": labels}) + "\n"
    for text, labels in (("a good film", []), ("bad", ["toxic"]), ("awful", ["toxic", "insult"]))
)


@pytest.mark.parametrize(("name", "content", "more"), [
    ("lists.jsonl", LISTS * 4, ()),
    ("flags.csv", FLAGS_TABLE, ("--label-column", "toxic,insult")),
    ("flags.csv", FLAGS_TABLE, ("--label-column", "toxic,insult", "--seeds", 2)),
])  # fmt: skip
def test_several_labels_a_text_are_learned_to_the_last_line(
    bertsmith, place, tmp_path, name, content, more
):
    data = tmp_path / name
    data.write_text(content)
    out = tmp_path / "out"
    words = ("finetune", "classify", "--multi-label", "--model", place / "pretrained", "--train",
             data, "--eval", data, "--steps", 1, "--out", out, *more, *FP32)  # fmt: skip
    assert f"next      bertsmith predict {out} 'your text'" in bertsmith(*words)


def test_pairs_of_texts_are_asked_for_after_training_and_counted(bertsmith, place, tmp_path):
    data = tmp_path / "pairs.csv"
    data.write_text("text,pair,label\n" + "a film,a story,pos\na story,a film,neg\n" * 4)
    out = tmp_path / "out"
    words = ("finetune", "classify", "--model", place / "pretrained", "--train", data, "--eval",
             data, "--steps", 1, "--out", out, *FP32)  # fmt: skip
    assert f"next      bertsmith predict {out} 'your text' 'your second text'" in bertsmith(*words)
    words = ("predict", out, "--file", data, "--out", tmp_path / "found.csv", *FP32)
    assert bertsmith(*words) == f"8 pairs → {tmp_path / 'found.csv'}\n"


def test_choose(bertsmith, place, tmp_path):
    data, out, labelled = place / "questions.tsv", tmp_path / "out", (*COLUMNS, "--label-column", 5)
    words = ("finetune", "choose", "--model", place / "pretrained", "--train", data, "--eval", data)
    bertsmith(*words, *labelled, "--out", out, "--steps", 2, *FP32)
    evaluated = json.loads(bertsmith("evaluate", out, "--data", data, *labelled, "--json", *FP32))
    assert (evaluated["num_prompts"], evaluated["chance"]) == (6, pytest.approx(1 / 3))
    line = bertsmith("predict", out, "the film was", "good", "bad film", *FP32).strip().split("\t")
    assert line[2:] == ["the film was", ["good", "bad film"][int(line[0])]]
    rows = bertsmith("predict", out, "--file", data, *COLUMNS, *FP32).splitlines()
    assert len(rows) == 6


def test_a_folder_overwritten_by_another_task_is_no_encoder_any_more(bertsmith, place, tmp_path):
    out, data = tmp_path / "out", place / "scored.tsv"
    common = ("--train", data, "--eval", data, "--out", out, "--steps", 1, *FP32)
    bertsmith("finetune", "embed", "--model", place / "encoder", *common)
    assert (out / "modules.json").exists()
    bertsmith("finetune", "regress", "--model", place / "pretrained", *common, "--overwrite")
    assert not (out / "modules.json").exists()
    assert SentenceFolder.read(SmallFiles(out)) == SentenceFolder()
    assert not (out / "earlier-run").exists()


def test_typed_texts_that_are_a_pair_or_none(bertsmith, refused, place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    (place / "good").write_text("a file whose name is a word")
    for words, parts in (
        (["good-not-a-file"], ["1 text was given"]),
        (["scored.tsv"], ["text: 'scored.tsv'", "--file scored.tsv"]),
        (["good", place / "good"], [f"text: '{place / 'good'}'", f"--file {place / 'good'}"]),
    ):
        message = refused("predict", "encoder", *words, *FP32)
        assert all(part in message for part in parts)
    (place / "texts.txt").write_text(f"good\n{LONG}\n")
    bertsmith("embed", "encoder", "texts.txt", "--out", tmp_path / "v.npy", *FP32)
    first, second = np.load(tmp_path / "v.npy")
    assert np.linalg.norm(first) == pytest.approx(1, abs=1e-6)  # as the folder says
    cosine, *texts = bertsmith("predict", "encoder", "good", LONG, *FP32).strip().split("\t")
    assert float(cosine) == pytest.approx(float(first @ second), abs=1e-4)
    assert texts == ["good", LONG]


def test_predict(bertsmith, place, tmp_path, monkeypatch):
    predict = ("predict", place / "classifier", *FP32)
    lines = bertsmith(*predict, "a good\tfilm", "dull").splitlines()
    report = json.loads(bertsmith(*predict, "a good\tfilm", "dull", "--json"))
    for line, text, prediction in zip(
        lines, ["a good film", "dull"], report["predictions"], strict=True
    ):
        label = prediction["label"]
        assert line.split("\t") == [label, f"{prediction['probabilities'][label]:.4f}", text]
    assert "\ufffd film" in bertsmith(*predict, os.fsdecode(b"a \xff film"), "--json")
    out = tmp_path / "out.jsonl"
    assert "9 texts" in bertsmith(*predict, "--file", place / "data.csv", "--out", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert [row["line"] for row in rows] == list(range(2, 11))
    (tmp_path / "input").write_bytes("good film\r\n«dull»\n".encode())
    with (tmp_path / "input").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        lines = bertsmith(*predict, "-").splitlines()
    assert [line.split("\t")[2] for line in lines] == ["good film", "«dull»"]


def test_predict_tags(bertsmith, place, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    predict = ("predict", place / "tagger", *FP32)
    (line,) = bertsmith(*predict, "a good film.").splitlines()
    assert line.replace("[", "").replace(" PER]", "") == "a good film."
    # A name of the hub tells the task, too, whatever stands before it.
    tagger = str(place / "tagger")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: tagger)
    for more, words in (((), ["a", "film", "."]), (("--split", "spaces"), ["a", "film."])):
        report = json.loads(bertsmith("predict", *FP32, "org/tagger", *more, "--json", "a film."))
        assert report["predictions"][0]["words"] == words
    out = tmp_path / "out.conll"
    assert bertsmith(*predict, "--file", place / "names.conll", "--out", out).startswith("2 texts")
    words = [row.split("\t")[0] for row in out.read_text().splitlines()]
    assert words == ["good", "film", "", "a", "lovely", "film", ""]


def test_a_compressed_column_to_vectors_in_its_order(typed, place, tmp_path, monkeypatch):
    monkeypatch.setattr("bertsmith.tasks.predictor.CHUNK_EXAMPLES", 5)
    folder, source, out = place / "pretrained", tmp_path / "t.csv.gz", tmp_path / "v.jsonl"
    source.write_bytes(gzip.compress((place / "data.csv").read_bytes()))
    words = ("embed", folder, source, "--text-column", "text", *FP32, "--out")
    typed(*words, out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert [row["line"] for row in rows] == list(range(2, 11))
    encoder = Predictor.load(folder, TextVectors, device="cpu", precision="fp32")
    np.testing.assert_allclose([row["vector"] for row in rows], encoder.encode(TEXTS), atol=1e-6)
    out, asked = tmp_path / "v.npy", {"pooling": "first_token", "normalize": True, "max_length": 5}
    flags = ("--pooling", "first_token", "--normalize", "--max-length", 5)
    printed = typed(*words, out, *flags).out
    assert printed.startswith(f"9 texts → {out}  (24 numbers each, pooling first_token, fp32")
    encoder = encoder.with_options(**asked)
    np.testing.assert_allclose(np.load(out), encoder.encode(TEXTS), atol=1e-6)


@pytest.mark.same_on_all_computers
def test_the_report_counts_what_was_cut_or_skipped(typed, place, tmp_path):
    source, out = tmp_path / "t.txt", tmp_path / "v.npy"
    source.write_text(f"good\n\n{'bad ' * 50}\n \n")
    args = ("embed", place / "pretrained", source, "--out", out, "--skip-incomplete", *FP32)
    told = typed(*args).err
    assert "1 text was longer" in told and "2 rows without a text were skipped" in told
    report = json.loads(typed(*args, "--json").out)
    assert np.load(out).shape == (2, 24)
    assert (report["num_texts"], report["num_truncated"], report["num_skipped"]) == (2, 1, 2)
    assert (report["hidden_size"], report["pooling"], report["precision"]) == (24, "mean", "fp32")


@pytest.mark.same_on_all_computers
def test_texts_with_half_an_emoji_are_written(bertsmith, place, tmp_path):
    path, out, misses = (tmp_path / name for name in ("a.jsonl", "out.jsonl", "misses.jsonl"))
    rows = [rf'{{"text": "good \ud83d film", "label": "{label}"}}' for label in ("pos", "neg")]
    path.write_text("\n".join(rows))  # of which one has the wrong label
    bertsmith("predict", place / "classifier", "--file", path, "--out", out, *FP32)
    found = [json.loads(line)["text"] for line in out.read_text().splitlines()]
    assert found == ["good \ufffd film"] * 2
    bertsmith("evaluate", place / "classifier", "--data", path, "--errors", misses, *FP32)
    (miss,) = map(json.loads, misses.read_text().splitlines())
    assert miss["text"] == "good \ufffd film"


@pytest.mark.same_on_all_computers
def test_a_closed_standard_input_is_told(refused, place, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    message = refused("embed", place / "pretrained", "-", "--out", tmp_path / "v.npy", *FP32)
    assert "standard input: " in message


def test_fill(bertsmith, place):
    fill = ("fill", place / "pretrained", *FP32)
    lines = bertsmith(*fill, "a [MASK] and [MASK]", "--top", 3).splitlines()
    assert [line[:8] for line in lines] == ["[MASK] 1", "[MASK] 2"]
    assert lines[0].count("%") == 3
    report = json.loads(bertsmith(*fill, os.fsdecode(b"a \xff [MASK]"), "--top", 2, "--json"))
    assert report["text"] == "a \ufffd [MASK]" and len(report["masks"]) == 1
    assert set(report["masks"][0][0]) == {"token", "probability"}


def test_punctuation_among_filled_words_is_quoted():
    words = [ScoredToken(token, 0.25) for token in ("bad", ",", " good", "##ing", "'s", "…", "不")]
    shown = [format_word(word).partition(" 25.0 %")[0] for word in words]
    assert shown == ["bad", "','", "good", "##ing", "'s", "'…'", "不"]


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("line, parts", [
    ("predict classifier", ["Nothing to predict", "--file FILE"]),
    ("predict classifier good -", ["- reads", "not both"]),
    ("predict classifier a --file data.csv", ["either texts or --file"]),
    ("predict classifier good |", ["text 2 is empty (' ')"]),
    ("predict pretrained good", ["pretrained: ", "'bertsmith finetune classify --model'"]),
    ("predict classifier good --out {0}/out.doc", ["--out: found '{0}/out.doc'", ".jsonl"]),
    ("predict classifier --file bad.txt --out {0}/earlier.jsonl", ["bad.txt: byte 5 is 0xff"]),
    ("evaluate classifier --data none.csv", ["none.csv: "]),
    ("evaluate classifier --data data.csv --text-column 1 --label-column 2",
     ["data.csv:1: ", "'label'", "--header yes", "'neg', 'pos'"]),
    ("evaluate classifier --data data.csv --page data.csv/a.html", ["/data.csv: "]),
    ("predict classifier good --page classifier/config.json",
     ["--page: found 'classifier/config.json'", ".html"]),
    ("predict classifier good --out classifier/journal.jsonl",
     ["--out classifier/journal.jsonl ", "the model, classifier, "]),
    ("evaluate classifier --data data.csv --errors classifier/journal.jsonl",
     ["--errors classifier/journal.jsonl ", "the model, classifier, "]),
    ("embed classifier data.csv --out classifier/journal.jsonl",
     ["--out classifier/journal.jsonl ", "the model, classifier, "]),
    ("evaluate tagger --data names.conll --label-column 3", ["names.conll:1: ", "'3'", "1 to 2"]),
    ("predict nowhere --split spaces good", ["nowhere: ", "org/name"]),
    ("embed pretrained none.csv --out {0}/v.npy", ["none.csv: "]),
    ("embed pretrained gap.csv --out {0}/earlier.jsonl", ["gap.csv:3: ", "--skip-incomplete"]),
    ("embed pretrained data.csv --out {0}/v.txt", ["--out: found '{0}/v.txt'", ".npy"]),
    ("embed pretrained data.csv --out {0}/v.npy --max-length 99", ["length: found 99", "4 to 37"]),
    ("embed pretrained scored.tsv --out {0}/v.npy", ["'sentence1'", "'sentence2'", "--pair-"]),
    ("fill pretrained no-mask", ["[MASK]"]),
    ("fill classifier [MASK]", ["classifier: ", "'bertsmith pretrain'"]),
    ("predict classifier good --label-column 2", ["--label-column: ", "--file"]),
    ("predict tagger good --split spaces --format conll", ["--format: ", "--file"]),
    ("predict classifier --file words.txt --text-column 2",
     ["--text-column: words.txt is read as txt", "--format tsv"]),
    ("predict classifier - --pair-column 2", ["--pair-column: standard input is read as txt"]),
    ("embed pretrained data.csv --format txt --header yes --out {0}/v.npy",
     ["--header: data.csv is read as txt"]),
    ("predict tagger - --word-column 2",
     ["--word-column 2: standard input is read as running text", "--format conll"]),
])  # fmt: skip
def test_refusals(refused, place, monkeypatch, tmp_path, line, parts):
    monkeypatch.chdir(place)
    (place / "bad.txt").write_bytes(b"good\n\xff\n")
    (place / "gap.csv").write_text("text\ngood\n \nbad\n")
    (place / "words.txt").write_text("1\tgood\n")
    (place / "classifier/journal.jsonl").write_text("of the run")
    (tmp_path / "earlier.jsonl").write_text("earlier")
    args = [word.replace("|", " ") for word in line.format(tmp_path).split()]
    told = refused(*args, *FP32)
    assert all(part.format(tmp_path) in told for part in parts)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["earlier"]
    assert (place / "classifier/journal.jsonl").read_text() == "of the run"
