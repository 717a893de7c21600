"""Folders of `marian` are read as transformers wrote them, and written so that it opens them."""

import json
from dataclasses import MISSING, fields

import pytest
import torch
import transformers
from refusals import refuses
from tiny_marian import build_theirs, draw_sequences, pad
from tiny_tokenizers import tiny_wordpiece

from bertsmith.errors import CheckpointError
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.lineage.transformer_folder import (
    TRANSFORMER_FOLDER,
    load_transformer,
    save_transformer,
)
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors


@pytest.fixture
def folder(tmp_path):
    build_theirs().save_pretrained(tmp_path)
    return tmp_path


def change_config(folder, **changes):
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(settings | changes), encoding="utf-8")


def change_tensors(folder, **changes):
    path = folder / "model.safetensors"
    tensors = {n: t.clone() for n, t in read_safetensors(path).items()} | changes
    write_safetensors(path, {n: t for n, t in tensors.items() if t is not None})


def test_a_folder_comes_back_with_the_same_weights(folder, tmp_path):
    ours = load_transformer(folder)
    with torch.no_grad():
        ours.logit_bias[0, 5] = 3.0  # published models have such biases
    save_transformer(ours, tmp_path / "again")
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "again").eval()
    assert theirs.final_logits_bias[0, 5] == 3.0
    for name, tensor in load_transformer(tmp_path / "again").state_dict().items():
        assert torch.equal(tensor, ours.state_dict()[name]), name
    before = build_theirs()
    sources, targets = draw_sequences((5, 9)), draw_sequences((4, 4), seed=3)
    inputs = {"input_ids": pad(sources, 0), "attention_mask": (pad(sources, -1) >= 0).long()}
    with torch.no_grad():
        logits = [model(**inputs, labels=pad(targets, -100)).logits for model in (before, theirs)]
    logits[0][..., 5] += 3.0
    torch.testing.assert_close(*logits, atol=1e-5, rtol=1e-5)


def test_transformers_opens_a_new_model_with_its_tokenizer(tmp_path):
    tokenizer = tiny_wordpiece()
    torch.manual_seed(0)
    config = TransformerConfig(
        tokenizer.vocab_size, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, pad_token_id=tokenizer.pad_id,
        eos_token_id=tokenizer.sep_id, decoder_start_token_id=tokenizer.cls_id,
    )  # fmt: skip
    save_transformer(Transformer(config), tmp_path, tokenizer)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert isinstance(theirs, transformers.MarianMTModel)
    assert theirs.generation_config.decoder_start_token_id == tokenizer.cls_id
    assert theirs.generation_config.forced_eos_token_id is None
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert library("the river").input_ids[1:-1] == tokenizer.encode_ids("the river")


def test_stored_copies_must_be_equal(folder):
    word = load_transformer(folder).word.weight.detach()
    change_tensors(folder, **{"lm_head.weight": word.clone(), "model.shared.weight": None})
    load_transformer(folder)
    change_tensors(folder, **{"model.decoder.embed_tokens.weight": word + 1})
    with refuses(CheckpointError, "model.decoder.embed_tokens.weight"):
        load_transformer(folder)


def test_older_folders_with_fixed_positions_are_read(folder):
    change_tensors(folder, **{"model.encoder.embed_positions.weight": torch.zeros(61, 36)})
    load_transformer(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "xlnet"),
        ("share_encoder_decoder_embeddings", False),
        ("scale_embedding", False),
        ("normalize_embedding", True),
        ("d_model", 35),
    ],
)
def test_a_model_that_we_do_not_compute_is_refused(folder, key, value):
    change_config(folder, **{key: value})
    with refuses(CheckpointError, "config.json", key, str(value)):
        load_transformer(folder)


def remove_entry(folder, key):
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    del settings[key]
    path.write_text(json.dumps(settings), encoding="utf-8")


def test_a_missing_entry_has_the_value_that_it_has_in_transformers(folder):
    theirs = transformers.MarianConfig()
    assert theirs.scale_embedding is TRANSFORMER_FOLDER.absent["scale_embedding"]
    for field in fields(TransformerConfig):
        if field.default is not MISSING:
            read = TRANSFORMER_FOLDER.absent.get(field.name, field.default)
            assert read == getattr(theirs, field.name), field.name
    change_config(folder, activation_function="relu")
    remove_entry(folder, "activation_function")
    assert load_transformer(folder).config.activation_function == "gelu"
    remove_entry(folder, "scale_embedding")
    with refuses(CheckpointError, "config.json", "scale_embedding", "False"):
        load_transformer(folder)


def test_missing_and_further_weights_are_refused(folder):
    name = "model.decoder.layers.1.encoder_attn.k_proj.bias"
    change_tensors(folder, **{name: None})
    with refuses(CheckpointError, name, "missing"):
        load_transformer(folder)
    change_tensors(folder, **{name: torch.zeros(36), "score.weight": torch.zeros(2, 36)})
    with refuses(CheckpointError, "score.weight"):
        load_transformer(folder)


def test_a_gpt_is_refused_with_its_command(folder):
    change_config(folder, model_type="gpt2")
    with refuses(CheckpointError, "this is a GPT", "commands are generate"):
        load_transformer(folder)
