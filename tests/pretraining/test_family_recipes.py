"""The recipe of each family, with its own kind of tokenizer, from text to a fine-tuned model."""

import json

import pytest
from tiny_models import write_reviews

from bertsmith import cli
from bertsmith.commands.pretrain import describe
from bertsmith.model.loading import load_model

SMALL = ["--steps", "3", "--preset", "tiny", "--batch-size", "4", "--eval-rows", "4",
         "--max-length", "24", "--max-position-embeddings", "32", "--threads", "1",
         "--device", "cpu"]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "kind", "mask"),
    [
        ("electra", "wordpiece", "[MASK]"),
        ("roberta", "byte-bpe", "<mask>"),
        ("albert", "unigram", "[MASK]"),
    ],
)
def test_from_text_to_a_fine_tuned_model(family, kind, mask, corpus_dir, tmp_path, capsys):
    text, tokens, corpus, out = (
        str(corpus_dir.parent / "text.txt"), str(tmp_path / "tokens"), str(tmp_path / "corpus"),
        str(tmp_path / "run"),
    )  # fmt: skip
    cli.main(["tokenizer", "train", text, "--kind", kind, "--vocab-size", "300", "--out", tokens])
    cli.main(["corpus", "build", text, "--tokenizer", tokens, "--out", corpus, "--held-out",
              "0.15", "--processes", "1"])  # fmt: skip
    capsys.readouterr()
    cli.main(["pretrain", family, "--corpus", corpus, "--out", out, *SMALL, "--json"])
    result = json.loads(capsys.readouterr().out)
    guesser = f"{out}/generator" if family == "electra" else out
    assert f'bertsmith fill {guesser} "… {mask} …"' in describe(
        {**result, "held_out_mlm_loss": 0.0}
    )
    cli.main(["fill", guesser, f"baba {mask} ceba"])
    assert f"{mask} 1:" in capsys.readouterr().out
    rows = [str(write_reviews(tmp_path / name, 20)) for name in ("train.csv", "eval.csv")]
    cli.main(["finetune", "classify", "--model", out, "--train", rows[0], "--eval", rows[1],
              "--out", str(tmp_path / "task"), "--epochs", "1", "--max-length", "24",
              "--threads", "1"])  # fmt: skip
    assert load_model(tmp_path / "task").config.model_type == family
