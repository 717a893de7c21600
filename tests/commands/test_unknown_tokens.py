"""Commands that read texts tell the share of tokens that the vocabulary does not know."""

import json

import pytest
from tiny_models import save_tiny, tiny_tokenizer
from tiny_runs import FP32


def write_rows(path, known, strange):
    """Write rows of six tokens each, of which the last ones are unknown."""
    texts = ["a the film was very good"] * known + ["zzz " * 6] * strange
    rows = [f"{text},{['neg', 'pos'][place % 2]}" for place, text in enumerate(texts)]
    path.write_text("\n".join(["text,label", *rows, ""]))
    return path


def test_a_line_for_each_file(typed, tmp_path):
    folder = save_tiny(tmp_path / "m", "classify", labels=("neg", "pos"))
    for known, strange, said in ((19, 1, "5.0 %"), (1, 1, "WARNING: "), (60, 1, "")):
        data = write_rows(tmp_path / f"{known}.csv", known, strange)
        for words in (
            ("evaluate", folder, "--data", data),
            ("predict", folder, "--file", data),
            ("embed", folder, data, "--out", data.with_suffix(".npy")),
        ):
            out, err = typed(*words, "--json", *FP32)
            assert json.loads(out)["unknown_rate"] == pytest.approx(strange / (known + strange))
            lines = [line for line in err.splitlines() if "unknown to the vocabulary" in line]
            assert len(lines) == (said != "")
            assert all(said in line and str(data) in line for line in lines)
    files = ("--train", tmp_path / "1.csv", "--eval", tmp_path / "19.csv")
    _, err = typed("finetune", "classify", "--model", folder, *files, "--out", tmp_path / "out",
                   "--steps", 1, *FP32)  # fmt: skip
    assert err.index(f"WARNING: {files[1]}") < err.index(f"{files[3]}: 5.0 %") < err.index("step")


def test_a_corpus_and_its_pretraining_tell_it(typed, tmp_path):
    tiny_tokenizer().save(tmp_path / "t")
    text = "A good film was very dull.\n\nThe zzz zzz zzz zzz zzz zzz."
    (tmp_path / "a.txt").write_text("\n\n".join([text] * 30))
    _, err = typed("corpus", "build", tmp_path / "a.txt", "--tokenizer", tmp_path / "t", "--out",
                 tmp_path / "c", "--processes", 1)  # fmt: skip
    assert err.count(f"WARNING: {tmp_path / 'c'}: ") == 1
    out, err = typed(
        "pretrain", "--corpus", tmp_path / "c", "--out", tmp_path / "p", "--steps", 1, "--preset",
        "tiny", "--max-length", 16, "--batch-size", 2, "--json", *FP32,
    )  # fmt: skip
    assert err.count(f"WARNING: {tmp_path / 'c'}: ") == 1
    assert json.loads(out)["unknown_rate"] > 0.2
