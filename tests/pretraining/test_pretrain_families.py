"""Pre-training of each family: a folder of its own kind, which transformers reads as we do."""

import json
from typing import get_args, get_type_hints

import pytest
import torch
import transformers

from bertsmith import cli
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.families import FAMILIES
from bertsmith.model.loading import load_model
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import new_shape

WORDS = ["--preset", "tiny", "--steps", "2", "--max-length", "16", "--batch-size", "4",
         "--eval-rows", "4", "--max-position-embeddings", "32", "--threads", "1",
         "--precision", "fp32", "--device", "cpu", "--objective", "masked_lm",
         "--pairs", "none"]  # fmt: skip


def test_every_family_can_be_asked_for():
    named, _ = get_args(get_type_hints(ModelSettings)["family"])
    assert sorted(get_args(named)) == list(FAMILIES)


@pytest.mark.parametrize("family", ["roberta", "albert", "distilbert", "electra"])
def test_a_run_writes_a_folder_of_its_family(family, corpus_dir, tmp_path, capsys):
    out = tmp_path / "run"
    cli.main(
        ["pretrain", "--family", family, "--corpus", str(corpus_dir), "--out", str(out), *WORDS]
    )
    assert "trained" in capsys.readouterr().out
    assert json.loads((out / "config.json").read_text())["model_type"] == family
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out).eval()
    ours = load_model(out)
    ids = torch.randint(5, 100, (3, 32), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found, expected = ours(ids).logits, theirs(ids).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


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
    sizes = {
        (family, preset): config(corpus_dir, family=family, preset=preset).embedding_size
        for family in ("albert", "electra")
        for preset in ("tiny", "mini", "base")
    }
    assert sizes == {
        ("albert", "tiny"): 64, ("albert", "mini"): 128, ("albert", "base"): 128,
        ("electra", "tiny"): 128, ("electra", "mini"): 128, ("electra", "base"): 768,
    }  # fmt: skip
    shared = config(corpus_dir, family="albert", preset="mini", shared="attention")
    assert shared.num_hidden_groups == 4


def test_what_a_family_has_not_is_refused_before_anything_is_written(corpus_dir, tmp_path, capsys):
    out = tmp_path / "run"
    with pytest.raises(SystemExit):
        cli.main(
            ["pretrain", "--family", "roberta", "--corpus", str(corpus_dir), "--out", str(out),
             *WORDS[:-2], "--pairs", "next_sentence"]
        )  # fmt: skip
    assert "family roberta have no head for it. Pass --pairs none" in capsys.readouterr().err
    assert not out.exists()
    with pytest.raises(ConfigError, match="Only albert's layers share weights"):
        ModelSettings(family="electra", shared="all")
