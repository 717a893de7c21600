"""Pseudo-log-likelihoods of minimal pairs, their accuracies, and the command."""

import json
import lzma
import sys

import pytest
import torch
import transformers
from limits import file_size_limit
from refusals import refuses
from tiny_models import BAD, GOOD, NUM_POSITIONS, OTHER, save_tiny, save_tiny_of
from tiny_runs import FP32

from bertsmith.cli import main
from bertsmith.data.columns import Columns
from bertsmith.errors import InputError
from bertsmith.evaluation.minimal_pairs import evaluate_minimal_pairs, load_pair_scorer

LONG = " ".join([*GOOD, *BAD, *OTHER[:7]] * 2)
PAIRS = [
    ("a good film", "good a film"),
    ("the film was very fine .", "the film was very fines ."),
    ("films", "film"),
    (LONG, f"{LONG} ."),
    ("the bad unheard story", "the bad unseen story"),
]
UIDS = ["order", "number", "number", "length", "unknown"]
ROWS = [
    {"sentence_good": good, "sentence_bad": bad, "UID": uid, "field": "syntax"}
    for (good, bad), uid in zip(PAIRS, UIDS, strict=True)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"), "masked_lm")


@pytest.fixture(scope="module")
def scorer(folder):
    return load_pair_scorer(folder, device="cpu", precision="fp32")


def theirs(model, tokenizer, text):
    """Compute a score with one mask at a time, each in a batch of its own."""
    ids = torch.tensor(tokenizer.build_row([tokenizer.encode_ids(text)]).ids.tolist())
    total = 0.0
    for place in range(1, len(ids) - 1):
        masked = ids.clone()
        masked[place] = tokenizer.mask_id
        with torch.inference_mode():
            logits = model(masked[None]).logits[0, place]
        total += logits.log_softmax(-1)[ids[place]].item()
    return total


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_scores_are_those_of_transformers(tmp_path, family):
    window = {"local_attention": 6} if family == "modernbert" else {}
    folder = save_tiny_of(tmp_path / family, family, **window)
    ours = load_pair_scorer(folder, device="cpu", precision="fp32")
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    for (good, bad), found in zip(PAIRS, ours(PAIRS), strict=True):
        expected = [theirs(model, ours.loaded.tokenizer, text) for text in (good, bad)]
        assert [found.good, found.bad] == pytest.approx(expected, abs=1e-4)


def test_accuracies(scorer):
    report = evaluate_minimal_pairs(scorer, ROWS)
    points = [{"good": 1, "bad": 0, "tie": 0.5}[found.answer] for found in scorer(PAIRS)]
    assert points[-1] == 0.5
    assert set(points[:-1]) == {0, 1}  # so that the test can tell them apart
    assert report.accuracy == pytest.approx(sum(points) / 5)
    number = (points[1] + points[2]) / 2
    expected = {"order": points[0], "number": number, "length": points[3], "unknown": 0.5}
    assert {n: group.accuracy for n, group in report.groups["paradigm"].items()} == expected
    assert report.groups["field"]["syntax"].accuracy == report.accuracy
    assert report.mean_over_paradigms == pytest.approx(sum(expected.values()) / 4)
    assert (report.num_pairs, report.num_identical, report.num_truncated) == (5, 1, 0)
    rows = [{k: row[k] for k in list(row)[:2]} for row in ROWS]
    rows.append({**rows[0], "sentence_bad": ""})
    plain = evaluate_minimal_pairs(scorer, rows, Columns(skip_incomplete=True))
    assert (plain.accuracy, plain.mean_over_paradigms) == (report.accuracy, None)
    assert (plain.num_pairs, plain.num_skipped) == (5, 1)


def test_what_is_cut_is_counted(folder):
    short = load_pair_scorer(folder, device="cpu", precision="fp32", max_length=12)
    report = evaluate_minimal_pairs(short, ROWS)
    assert (report.num_truncated, report.num_identical) == (1, 2)  # the difference was cut off
    assert NUM_POSITIONS > 12
    assert "1 text was longer than the model reads" in str(report)


def test_a_limit_is_for_each_paradigm(scorer):
    assert evaluate_minimal_pairs(scorer, ROWS, limit=1).num_pairs == 4
    plain = [{**row, "UID": ""} for row in ROWS]
    assert evaluate_minimal_pairs(scorer, plain, limit=2).num_pairs == 2


@pytest.mark.parametrize("rows, parts", [
    ([{"sentence_good": "a"}], ["'sentence_good'", "--pair-column"]),
    ([{**ROWS[0], "sentence_bad": None}], ["row 1 ", "'sentence_bad'", "--skip-incomplete"]),
    ([{**ROWS[0], "sentence_bad": "\u200b"}], ["row 1: ", "'sentence_bad'"]),
])  # fmt: skip
def test_rows_that_are_no_pairs(scorer, rows, parts):
    with refuses(InputError, *parts):
        evaluate_minimal_pairs(scorer, rows)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pairs.jsonl.xz"
    with lzma.open(path, "wt") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in ROWS)
    return path


def test_the_command(folder, file, tmp_path, bertsmith, scorer):
    words = ("evaluate", folder, "--minimal-pairs", file, *FP32)
    found = json.loads(bertsmith(*words, "--json", "--scores", tmp_path / "scores.jsonl"))
    report = evaluate_minimal_pairs(scorer, file).to_json()
    others = {"pairs_per_second": 0, "unknown_rate": 0}
    assert found | others == report | others
    rows = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [row["paradigm"] for row in rows] == UIDS
    for row, score in zip(rows, scorer(PAIRS), strict=True):
        assert (row["score_good"], row["score_bad"]) == pytest.approx((score.good, score.bad))
    lines = bertsmith(*words).splitlines()
    assert lines[0].startswith(f"accuracy  {report['accuracy']:.4f}   (share of the 5 pairs")
    assert "field   accuracy  pairs" in lines


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's limits")
def test_scores_are_printed_also_if_those_of_the_pairs_cannot_be_written(
    folder, file, tmp_path, capsys
):
    many = tmp_path / "many.jsonl"  # more than a file's buffer holds, so that a write fails early
    many.write_text("".join(json.dumps(row) + "\n" for row in ROWS * 40))
    for pairs in (file, many):
        words = ("evaluate", folder, "--minimal-pairs", pairs, *FP32)
        with pytest.raises(SystemExit) as caught, file_size_limit(100):
            main([*map(str, words), "--json", "--scores", str(tmp_path / "scores.jsonl")])
        printed = capsys.readouterr()
        assert caught.value.code == 2
        assert "scores.jsonl: cannot be written" in printed.err.splitlines()[-1]
        assert not list(tmp_path.glob("*scores*"))
        assert json.loads(printed.out)["num_pairs"] == 5 * (1 if pairs == file else 40)


REFUSED = {
    "": ["--data", "--minimal-pairs"],
    "--minimal-pairs @ --stride 3 --page r.html": ["--stride, --page have", "--minimal-pairs"],
    "--minimal-pairs @ --scores s.csv": ["--scores:", "s.csv", ".jsonl"],
    "--data @ --scores s.jsonl": ["--scores has", "--data"],
}


@pytest.mark.parametrize("words", REFUSED)
def test_flags_that_do_not_fit(folder, file, refused, words):
    line = refused("evaluate", folder, *words.replace("@", str(file)).split(), *FP32)
    assert all(part in line for part in REFUSED[words]), line


def test_other_heads_are_refused_and_a_generator_is_named(tmp_path, file, bertsmith, refused):
    other, model = tmp_path / "classifier", tmp_path / "electra"
    save_tiny(other, "classify", labels=("a", "b"))
    save_tiny_of(model, "electra", heads=("replaced_token",))
    save_tiny_of(model / "generator", "electra")
    words = ("--minimal-pairs", file, *FP32)
    assert "a fine-tuned encoder" in refused("evaluate", other, *words)
    assert str(model / "generator") in refused("evaluate", model, *words)
    assert bertsmith("evaluate", model / "generator", *words)
