"""Each family, with its own kind of tokenizer, from text to a fine-tuned model."""

import json
from typing import get_args, get_type_hints

import pytest
import torch
import transformers
from refusals import refuses
from tiny_models import write_reviews

from bertsmith.commands.pretrain import describe_run
from bertsmith.data.corpus import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.families import FAMILIES
from bertsmith.model.loading import load_model
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import new_shape

MACHINE = ["--threads", "1", "--device", "cpu", "--precision", "fp32"]
SMALL = ["--steps", "3", "--preset", "tiny", "--batch-size", "4", "--eval-rows", "4",
         "--max-length", "24", "--max-position-embeddings", "32", *MACHINE]  # fmt: skip


def test_every_family_can_be_asked_for():
    named, _ = get_args(get_type_hints(ModelSettings)["family"])
    assert sorted(get_args(named)) == list(FAMILIES)


@pytest.mark.parametrize(("family", "kind", "mask"), [
    ("roberta", "byte-bpe", "<mask>"), ("modernbert", "byte-bpe", "<mask>"),
    ("albert", "unigram", "[MASK]"), ("distilbert", "wordpiece", "[MASK]"),
])  # fmt: skip
def test_from_text_to_a_fine_tuned_model(family, kind, mask, corpus_dir, tmp_path, bertsmith):
    """An ELECTRA is in commands/test_pretrain_replaced_tokens.py."""
    text = corpus_dir.parent / "text.txt"
    tokens, corpus, out, task = (tmp_path / name for name in ("tokens", "corpus", "run", "task"))
    bertsmith("tokenizer", "train", text, "--kind", kind, "--vocab-size", 300, "--out", tokens)
    bertsmith("corpus", "build", text, "--tokenizer", tokens, "--out", corpus, "--held-out", 0.15,
              "--processes", 1)  # fmt: skip
    how = ["--recipe", family] if family in ("roberta", "albert") else ["--family", family]
    result = bertsmith("pretrain", *how, "--corpus", corpus, "--out", out, *SMALL, "--json")
    told = describe_run(json.loads(result) | {"held_out_mlm_loss": 0.0})
    assert f'bertsmith fill {out} "… {mask} …"' in told
    assert json.loads((out / "config.json").read_text())["model_type"] == family
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out).eval()
    ids = torch.randint(5, 100, (3, 31), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found, expected = load_model(out)(ids).logits, theirs(ids).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    theirs = transformers.AutoTokenizer.from_pretrained(out)
    assert theirs.model_max_length == 32
    assert load_model(out)(**theirs("baba ceba " * 40, truncation=True, return_tensors="pt"))
    assert f"{mask} 1:" in bertsmith("fill", out, f"baba {mask} ceba")
    train, held_out = (write_reviews(tmp_path / name, 20) for name in ("train.csv", "eval.csv"))
    bertsmith("finetune", "classify", "--model", out, "--train", train, "--eval", held_out,
              "--out", task, "--epochs", 1, "--max-length", 24, *MACHINE)  # fmt: skip
    assert load_model(task).config.model_type == family


def config(corpus_dir, **settings):
    said = ModelSettings(**settings)
    return new_shape(said, said.preset, Corpus.open(corpus_dir))


def test_sizes_are_those_of_the_papers(corpus_dir):
    roberta = config(corpus_dir, family="roberta", preset="base")
    tokenizer = Corpus.open(corpus_dir).tokenizer()
    assert roberta.max_length == 512
    assert roberta.max_position_embeddings == 513 + tokenizer.pad_id
    assert (roberta.pad_token_id, roberta.bos_token_id, roberta.eos_token_id) == (
        tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id,
    )  # fmt: skip
    assert config(corpus_dir, family="distilbert", preset="base").num_hidden_layers == 6
    for family, widths in (("albert", [64, 128]), ("electra", [128, 768])):
        shapes = [config(corpus_dir, family=family, preset=preset) for preset in ("tiny", "base")]
        assert [shape.embedding_size for shape in shapes] == widths
    shared = config(corpus_dir, family="albert", preset="mini", shared="attention")
    assert shared.num_hidden_groups == 4


def test_what_a_family_has_not_is_refused_before_anything_is_written(corpus_dir, tmp_path, refused):
    words = ["--family", "roberta", "--corpus", corpus_dir, "--out", tmp_path / "run", *SMALL]
    told = refused("pretrain", *words, "--pairs", "next_sentence")
    assert "--pairs: found 'next_sentence'" in told and "roberta" in told and "--pairs none" in told
    assert not (tmp_path / "run").exists()
    with refuses(ConfigError, "shared: found 'all'", "electra", "--family albert", "--from"):
        ModelSettings(family="electra", shared="all")
