"""`bertsmith embed` as it is typed."""

import gzip
import json

import numpy as np
import pytest
from tiny_models import reviews, save_tiny, write_reviews
from tiny_runs import FP32

from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.text_vectors import TextVectors

TEXTS = [example.text for example in reviews(23)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"))


def test_a_compressed_column_to_vectors_in_its_order(typed, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("bertsmith.tasks.predictor.CHUNK_EXAMPLES", 5)
    plain, out = write_reviews(tmp_path / "t.csv", 23), tmp_path / "v.jsonl"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    words = ("embed", folder, tmp_path / "t.csv.gz", "--text-column", "text", *FP32, "--out")
    typed(*words, out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert [row["row"] for row in rows] == list(range(2, 25))
    encoder = Predictor.load(folder, TextVectors, device="cpu", precision="fp32")
    np.testing.assert_allclose([row["vector"] for row in rows], encoder.encode(TEXTS), atol=1e-6)
    out, asked = tmp_path / "v.npy", {"pooling": "first_token", "normalize": True, "max_length": 5}
    flags = ("--pooling", "first_token", "--normalize", "--max-length", 5)
    printed = typed(*words, out, *flags).out
    assert printed.startswith(f"23 texts → {out}  (24 numbers each, pooling first_token, fp32")
    encoder = encoder.with_options(**asked)
    np.testing.assert_allclose(np.load(out), encoder.encode(TEXTS), atol=1e-6)


def test_the_report_counts_what_was_cut_or_skipped(typed, folder, tmp_path):
    source, out = tmp_path / "t.txt", tmp_path / "v.npy"
    source.write_text(f"good\n\n{'bad ' * 50}\n \n")
    args = ("embed", folder, source, "--out", out, "--skip-incomplete", "--json", *FP32)
    captured = typed(*args)
    report = json.loads(captured.out)
    assert np.load(out).shape == (2, 24)
    assert (report["num_texts"], report["num_truncated"], report["num_skipped"]) == (2, 1, 2)
    assert (report["hidden_size"], report["pooling"], report["precision"]) == (24, "mean", "fp32")
    assert "cosine_to_fp32" not in report
    told = typed(*args[:6], *FP32).err
    assert "1 texts were longer" in told and "2 rows without a text were skipped" in told


@pytest.mark.parametrize(
    ("content", "args", "parts"),
    [
        (None, "--out v.npy", ["t.csv: no such file"]),
        ("", "--out v.npy", ["t.csv: nothing in it"]),
        ("text\ngood\n \nbad\n", "--out v.npy", ["t.csv:3:", "--skip-incomplete"]),
        ("text\ngood\n", "--out v.txt", ["'v.txt'", ".npy", ".jsonl"]),
        ("text\ngood\n", "--out v.npy --max-length 99", ["this model reads 4 to 37 tokens"]),
        ("sentence1,sentence2\na film,a story\n", "--out v.npy", ["'sentence1' and 'sentence2'"]),
    ],
)
def test_refusals(refused, folder, tmp_path, monkeypatch, content, args, parts):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "t.csv").write_text(content)
    (tmp_path / "v.npy").write_text("earlier")
    message = refused("embed", folder, "t.csv", *args.split(), *FP32)
    assert all(part in message for part in parts)
    assert (tmp_path / "v.npy").read_text() == "earlier"
    assert {path.name for path in tmp_path.iterdir()} <= {"t.csv", "v.npy"}
