"""`bertsmith params`: every number that it prints comes from the model."""

import json

import pytest
import torch
from tiny_models import save_tiny, tiny_config
from transformers import AutoConfig, AutoModel

from bertsmith.model.loading import load_model
from bertsmith.pretraining.static_vectors import count_static_vectors
from bertsmith.pretraining.vector_settings import VectorSettings


@pytest.fixture
def facts(bertsmith):
    """What the command gives as JSON."""
    return lambda *words: json.loads(bertsmith("params", *words, "--json"))


def test_sizes(bertsmith, facts):
    text = bertsmith("params", "base")
    for part in ("109,482,240", "108,770,304", "12·L·H²", "biases of attention", "+590,592"):
        assert part in text
    by_sizes = facts("--layers", 12, "--hidden", 768)
    assert by_sizes == facts("base")
    assert by_sizes["bytes"] == {"fp32": 4 * 110_106_428, "bf16": 2 * 110_106_428}
    flags = "--layers 3 --hidden 30 --heads 5 --intermediate 47 --vocab-size 101 --type-vocab 1"
    config = facts("tiny", *flags.split(), "--max-position-embeddings", 37)["config"]
    assert [config[name] for name in (
        "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
        "vocab_size", "max_position_embeddings", "type_vocab_size",
    )] == [3, 30, 5, 47, 101, 37, 1]  # fmt: skip


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "electra"])
def test_a_family_has_the_same_segments_with_a_preset_and_with_sizes(facts, family):
    by_preset = facts("small", "--family", family)
    by_sizes = facts("--layers", 4, "--hidden", 512, "--family", family)
    assert by_sizes["config"]["type_vocab_size"] == 1 + (family != "roberta")
    assert by_sizes == by_preset


def test_the_positions_are_those_that_tokens_can_have(bertsmith, facts):
    counts = facts("tiny", "--family", "roberta")
    assert (counts["config"]["max_position_embeddings"], counts["max_length"]) == (514, 512)
    assert "512 positions" in bertsmith("params", "tiny", "--family", "roberta")


def test_a_folder_counts_what_it_holds(bertsmith, facts, tmp_path):
    folder = save_tiny(tmp_path / "m", "classify", labels=("a", "b", "c"))
    found = facts(folder)
    assert found["parameters"] == sum(each.numel() for each in load_model(folder).parameters())
    head = found["components"]["classify head"]["parameters"]
    assert head == 3 * (tiny_config().hidden_size + 1)
    assert "the folder: " not in bertsmith("params", folder)


def test_static_vectors_have_neither_heads_nor_the_formula(bertsmith, facts, corpus_dir, tmp_path):
    folder = tmp_path / "vectors"
    report = count_static_vectors(VectorSettings(corpus_dir, folder, size=11))
    counts = facts(folder)
    assert counts["parameters"] == counts["components"]["word embedding"]["parameters"]
    assert "formula" not in counts
    shape = f"0 layers, 11 wide, {report.vocab_size:,} tokens\n"
    assert bertsmith("params", folder).startswith(shape)


TINY = {
    "vocab_size": 30522, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 512,
}  # fmt: skip
SIZES = {
    "roberta": ("tiny", {**TINY, "max_position_embeddings": 514, "type_vocab_size": 1}),
    "distilbert": ("tiny", {"dim": 128, "n_layers": 1, "n_heads": 2, "hidden_dim": 512}),
    "electra": ("tiny", {**TINY, "embedding_size": 128}),
    "albert": ("tiny", {**TINY, "embedding_size": 64}),
    "modernbert": ("mini", {**TINY, "hidden_size": 256, "num_hidden_layers": 7,
                            "num_attention_heads": 4, "intermediate_size": 384}),
}  # fmt: skip


@pytest.mark.parametrize("family", SIZES)
def test_a_size_of_every_family_as_transformers_counts_it(facts, family):
    size, shape = SIZES[family]
    more = {"add_pooling_layer": False} if family == "roberta" else {}
    with torch.device("meta"):
        theirs = AutoModel.from_config(
            AutoConfig.for_model(family, **shape, pad_token_id=0), **more
        )
    held = sum(each.numel() for each in theirs.parameters())
    assert facts(size, "--family", family)["encoder"] == held


@pytest.mark.parametrize(("line", "parts"), [
    ("", ["tiny, mini, small, medium, base, large", "--layers", "--hidden"]),
    ("bsae", ["'bsae'", "tiny, mini, small, medium, base, large"]),
    ("no/such/folder", ["no/such/folder: "]),
    ("--layers 2 --hidden 30 --heads 4", [" 30 ", " 4."]),
    ("base --layers 0", ["--layers: found 0; ", "1 to 1,024"]),
    ("base --max-position-embeddings 99999999", ["-embeddings: found 99999999; ", "1,048,576"]),
    ("base --embedding 64", ["--embedding: found 64", "bert", "--family albert or electra"]),
    ("base --shared all", ["--shared: found 'all'", "bert", "--family albert"]),
    ("m --hidden 30", ["--hidden cannot", "folder m", "tiny, mini, small, medium, base, large"]),
])  # fmt: skip
def test_what_cannot_be_is_one_line(refused, tmp_path, monkeypatch, line, parts):
    monkeypatch.chdir(save_tiny(tmp_path / "m").parent)
    told = refused("params", *line.split())
    assert all(part in told for part in parts)
