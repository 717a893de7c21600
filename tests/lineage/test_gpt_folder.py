"""Folders of transformers' gpt2 are read and written, and what a GPT is not is refused."""

import json

import pytest
import torch
import transformers
from refusals import refuses
from tiny_gpt import SHAPE, build_theirs

from bertsmith.errors import CheckpointError
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import GPT_FOLDER, load_gpt, save_gpt
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors


@pytest.fixture
def folder(tmp_path):
    build_theirs().save_pretrained(tmp_path)
    return tmp_path


def change_tensors(folder, **changes):
    """Replace tensors; None removes one."""
    file = folder / "model.safetensors"
    tensors = read_safetensors(file) | changes
    write_safetensors(file, {name: each for name, each in tensors.items() if each is not None})


def change_config(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_folder_of_ours_opens_in_transformers(tmp_path):
    torch.manual_seed(0)
    ours = Gpt(GptConfig(**SHAPE | {"n_inner": 50, "layer_norm_epsilon": 1e-4})).eval()
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    save_gpt(ours, tmp_path)
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert type(theirs) is transformers.GPT2LMHeadModel
    assert not report["missing_keys"] and not report["unexpected_keys"]
    ids = torch.randint(0, SHAPE["vocab_size"], (3, 20))
    with torch.no_grad():
        torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, atol=1e-5, rtol=1e-5)
    before = torch.get_rng_state()
    again = load_gpt(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)  # nothing is drawn at random
    assert all(parameter.requires_grad for parameter in again.parameters())
    assert again.config == ours.config
    for name, tensor in ours.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_sizes_may_have_the_names_that_all_models_share(folder):
    expected = load_gpt(folder).config
    file = folder / "config.json"
    settings = json.loads(file.read_text())
    for own, shared in GPT_FOLDER.other_names.items():
        settings[shared] = settings.pop(own)
    file.write_text(json.dumps(settings))
    assert load_gpt(folder).config == expected
    assert transformers.AutoConfig.from_pretrained(folder).n_head == expected.n_head


def test_names_without_prefix_and_stored_masks_are_read(folder):
    expected = load_gpt(folder).state_dict()

    file = folder / "model.safetensors"
    tensors = {
        name.removeprefix("transformer."): tensor for name, tensor in read_safetensors(file).items()
    }
    masks = {"h.0.attn.bias": torch.ones(1, 1, 4, 4), "h.1.attn.masked_bias": torch.tensor(-1e4)}
    write_safetensors(file, tensors | masks)
    for name, tensor in load_gpt(folder).state_dict().items():
        assert torch.equal(tensor, expected[name])


def test_an_output_layer_may_be_stored_as_a_copy_alone(folder):
    word = load_gpt(folder).word.weight.detach()
    change_tensors(folder, **{"lm_head.weight": word.clone()})
    load_gpt(folder)
    change_tensors(folder, **{"lm_head.weight": word + 1})
    with refuses(CheckpointError, "lm_head.weight"):
        load_gpt(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "xlnet"),
        ("scale_attn_by_inverse_layer_idx", True),
        ("tie_word_embeddings", False),
        ("n_head", 7),
    ],
)
def test_a_model_that_we_do_not_compute_is_refused(folder, key, value):
    change_config(folder, **{key: value})
    with refuses(CheckpointError, "config.json", key, str(value)):
        load_gpt(folder)


def test_missing_ids_are_those_of_gpt_2(folder):
    file = folder / "config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({key: settings[key] for key in settings if "token_id" not in key}))
    config = load_gpt(folder).config
    theirs = transformers.GPT2Config()
    assert (config.bos_token_id, config.eos_token_id) == (theirs.bos_token_id, theirs.eos_token_id)


def test_a_missing_entry_is_named(folder):
    file = folder / "config.json"
    settings = json.loads(file.read_text())
    del settings["vocab_size"]
    file.write_text(json.dumps(settings))
    with refuses(CheckpointError, "config.json", "vocab_size is missing"):
        load_gpt(folder)


def test_missing_further_and_misfit_weights_are_refused(folder):
    name = "transformer.h.1.ln_2.bias"
    change_tensors(folder, **{name: None})
    with refuses(CheckpointError, "h.1.ln_2.bias", "missing"):
        load_gpt(folder)
    change_tensors(folder, **{name: torch.zeros(36), "score.weight": torch.zeros(2, 36)})
    with refuses(CheckpointError, "score.weight"):
        load_gpt(folder)
    change_tensors(folder, **{"score.weight": None})
    change_config(folder, n_positions=139)
    with refuses(CheckpointError, "wpe.weight", "[140, 36]"):
        load_gpt(folder)


def test_a_folder_without_config_is_refused(folder):
    (folder / "config.json").unlink()
    with refuses(CheckpointError, "config.json"):
        load_gpt(folder)
