"""A GPT is transformers' GPT-2, on padded rows and on packed ones."""

import numpy as np
import pytest
import torch
from refusals import refuses
from tiny_gpt import SHAPE, build_theirs

from bertsmith.data.batches import pack
from bertsmith.errors import ConfigError, InputError
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import load_gpt
from bertsmith.model import dense_attention
from bertsmith.model.dropout import dropout_seed

LENGTHS = range(1, 130)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    theirs = build_theirs()
    folder = tmp_path_factory.mktemp("gpt")
    theirs.save_pretrained(folder)
    return load_gpt(folder), theirs


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    mask = torch.ones(5, 29, dtype=torch.int64)
    mask[1, 20:] = 0
    mask[2, 1:] = 0
    mask[3, :4] = 0
    mask[4, 7:9] = 0
    return torch.randint(0, SHAPE["vocab_size"], mask.shape), mask


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_logits_loss_and_gradients_are_theirs(pair, inputs, path, monkeypatch):
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: path == "fused")
    ours, theirs = pair
    ids, mask = inputs
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, 1:][mask[:, :-1] == 0] = -100  # transformers predicts from padding, too
    labels[0, 5] = -100
    outputs = [model(ids, attention_mask=mask, labels=labels) for model in (ours, theirs)]
    is_real = mask.bool()
    torch.testing.assert_close(
        *(output.logits[is_real] for output in outputs), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(*(output.loss for output in outputs), atol=1e-5, rtol=0.0)
    for model, output in zip(pair, outputs, strict=True):
        model.zero_grad()
        output.loss.backward()
    block, layer = theirs.transformer.h[1], ours.layers[1]
    gradients = [
        (ours.word.weight.grad, theirs.transformer.wte.weight.grad),
        (ours.position.weight.grad, theirs.transformer.wpe.weight.grad),
        (ours.final_norm.weight.grad, theirs.transformer.ln_f.weight.grad),
        (layer.attention.qkv.weight.grad.T, block.attn.c_attn.weight.grad),
        (layer.attention.output.bias.grad, block.attn.c_proj.bias.grad),
        (layer.up.weight.grad.T, block.mlp.c_fc.weight.grad),
        (layer.down.weight.grad.T, block.mlp.c_proj.weight.grad),
    ]
    for mine, their in gradients:
        assert their.abs().max() > 1e-3
        torch.testing.assert_close(mine, their, atol=1e-5, rtol=1e-5)


def test_packed_rows_are_padded_ones_for_all_lengths(pair):
    ours, theirs = pair
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, SHAPE["vocab_size"], length) for length in LENGTHS]
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    ids = torch.zeros(mask.shape, dtype=torch.int64)
    ids[mask] = torch.from_numpy(np.concatenate(sequences))
    batch = pack(sequences)
    with torch.no_grad():
        logits = ours.compute_logits(ours.encode(batch))
        expected = theirs(ids, attention_mask=mask.long()).logits
    for index, packed in zip(batch.order, logits.split(batch.lengths), strict=True):
        torch.testing.assert_close(packed, expected[index, : len(packed)], atol=1e-5, rtol=1e-5)


def test_labels_after_padding_are_not_learned(pair, inputs):
    ours, _ = pair
    ids, mask = inputs
    labels = ids.masked_fill(mask == 0, -100)
    others = labels.clone()
    others[3, 4] = (labels[3, 4] + 1) % SHAPE["vocab_size"]  # the first token after the padding
    losses = [ours(ids, attention_mask=mask, labels=each).loss for each in (labels, others)]
    assert torch.equal(*losses)


def test_dropout_of_a_sequence_does_not_depend_on_its_batch():
    config = GptConfig(**SHAPE | {"resid_pdrop": 0.2, "embd_pdrop": 0.2, "attn_pdrop": 0.2})
    torch.manual_seed(0)
    model = Gpt(config).train()
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, SHAPE["vocab_size"], length) for length in (9, 30, 17)]
    with dropout_seed(3, torch.device("cpu"), (3, 1)):
        batch = pack(sequences).with_step_indices([0, 1, 2])
        together = model.encode(batch).split(batch.lengths)
    for index, hidden in zip(batch.order, together, strict=True):
        with dropout_seed(3, torch.device("cpu"), (3, 1)):
            alone = model.encode(pack([sequences[index]]).with_step_indices([index]))
        torch.testing.assert_close(hidden, alone, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(alone, model.eval().encode(pack([sequences[index]])), atol=1e-2)
        model.train()


def test_initial_weights_are_narrower_where_they_are_added():
    torch.manual_seed(0)
    model = Gpt(GptConfig(500, n_embd=128, n_layer=8, n_head=2, n_positions=32))
    layer = model.layers[3]
    for weight, std in (
        (model.word.weight, 0.02), (layer.attention.qkv.weight, 0.02), (layer.up.weight, 0.02),
        (layer.attention.output.weight, 0.005), (layer.down.weight, 0.005),
    ):  # fmt: skip
        assert float(weight.detach().std()) == pytest.approx(std, rel=0.03)
    assert not layer.up.bias.any() and bool((layer.attention_norm.weight == 1).all())


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"n_head": 5}, ("n_embd", "36", "n_head")),
        ({"n_layer": 0}, ("n_layer", "0")),
        ({"resid_pdrop": 1.0}, ("resid_pdrop", "1.0")),
        ({"activation_function": "tanh"}, ("activation_function", "tanh")),
        ({"eos_token_id": -1}, ("eos_token_id", "-1")),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes, parts):
    with refuses(ConfigError, *parts):
        GptConfig(**SHAPE | changes)


def test_inputs_that_cannot_be_read_are_refused(pair):
    model, _ = pair
    with refuses(InputError, "input_ids", "141 columns", "140"):
        model(torch.zeros(1, 141, dtype=torch.int64))
    ids = torch.tensor([[1, 2, 3]])
    with refuses(InputError, "input_ids, row 0, column 1", "101"):
        model(torch.tensor([[1, 101, 3]]))
    with refuses(InputError, "labels, row 0, column 2", "101"):
        model(ids, labels=torch.tensor([[1, 2, 101]]))
    with refuses(InputError, "labels", "[1, 2]"):
        model(ids, labels=torch.tensor([[1, 2]]))
