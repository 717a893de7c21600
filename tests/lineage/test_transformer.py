"""A Transformer is transformers' MarianMTModel, and its fixed positions are the paper's."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refuses
from tiny_marian import SHAPE, build_theirs, draw_sequences, pad

from bertsmith.errors import ConfigError
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.lineage.transformer import Transformer, TransformerConfig, build_sines
from bertsmith.lineage.transformer_folder import load_transformer
from bertsmith.model import dense_attention
from bertsmith.model.dropout import dropout_seed

SOURCES = draw_sequences((6, 18, 2, 31, 7))
TARGETS = draw_sequences((10, 3, 26, 13, 10), seed=2)
START = SHAPE["decoder_start_token_id"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    theirs = build_theirs()
    folder = tmp_path_factory.mktemp("marian")
    theirs.save_pretrained(folder)
    return load_transformer(folder), theirs


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_logits_loss_and_gradients_are_theirs(pair, path, monkeypatch):
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: path == "fused")
    ours, theirs = pair
    expected = theirs(
        input_ids=pad(SOURCES, 0),
        attention_mask=(pad(SOURCES, -1) >= 0).long(),
        labels=pad(TARGETS, -100),
    )
    batch = SourceTarget.of(SOURCES, TARGETS, START)
    logits = ours.compute_logits(ours.decode(batch))
    for index, row in zip(batch.order, logits.split(batch.target.lengths), strict=True):
        torch.testing.assert_close(row, expected.logits[index, : len(row)], atol=1e-5, rtol=1e-5)
    loss = F.cross_entropy(logits, batch.labels)
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=0.0)
    for model, value in ((ours, loss), (theirs, expected.loss)):
        model.zero_grad()
        value.backward()
    encoder, decoder = theirs.model.encoder.layers[1], theirs.model.decoder.layers[2]
    mine, read = ours.encoder[1], ours.decoder[2]
    sides = ("q_proj", "k_proj", "v_proj")
    gradients = [
        (ours.word.weight.grad, theirs.model.shared.weight.grad),
        (
            mine.attention.qkv.weight.grad,
            torch.cat([getattr(encoder.self_attn, side).weight.grad for side in sides]),
        ),
        (read.source_attention.query.weight.grad, decoder.encoder_attn.q_proj.weight.grad),
        (
            read.source_attention.key_value.weight.grad,
            torch.cat([getattr(decoder.encoder_attn, side).weight.grad for side in sides[1:]]),
        ),
        (read.source_attention_norm.bias.grad, decoder.encoder_attn_layer_norm.bias.grad),
        (mine.feed_forward.up.weight.grad, encoder.fc1.weight.grad),
        (read.feed_forward_norm.weight.grad, decoder.final_layer_norm.weight.grad),
    ]
    for found, their in gradients:
        assert their.abs().max() > 1e-3
        torch.testing.assert_close(found, their, atol=1e-5, rtol=1e-5)


def test_a_pair_is_computed_alone_as_with_others(pair):
    ours, _ = pair
    batch = SourceTarget.of(SOURCES, TARGETS, START)
    with torch.no_grad():
        together = ours.decode(batch).split(batch.target.lengths)
        for index, hidden in zip(batch.order, together, strict=True):
            alone = ours.decode(SourceTarget.of([SOURCES[index]], [TARGETS[index]], START))
            torch.testing.assert_close(hidden, alone, atol=1e-5, rtol=1e-5)


def test_a_target_token_does_not_see_those_after_it(pair):
    ours, _ = pair
    other = [*TARGETS[0][:5], 50, *TARGETS[0][6:]]
    with torch.no_grad():
        first, second = (
            ours.decode(SourceTarget.of([SOURCES[0]], [target], START))
            for target in (TARGETS[0], other)
        )
    torch.testing.assert_close(first[:6], second[:6], atol=1e-6, rtol=1e-6)
    assert not torch.allclose(first[6:], second[6:], atol=1e-3)


def test_dropout_of_a_pair_does_not_depend_on_its_batch():
    shape = {name: value for name, value in SHAPE.items() if name in vars(TransformerConfig(9))}
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**shape | {"dropout": 0.2, "attention_dropout": 0.2}))
    model.train()

    def decode(numbers):
        sources, targets = ([each[n] for n in numbers] for each in (SOURCES, TARGETS))
        with dropout_seed(3, CPU, (3, 1)):
            batch = SourceTarget.of(sources, targets, START, numbers)
            rows = model.decode(batch).split(batch.target.lengths)
        return {numbers[place]: row for place, row in zip(batch.order, rows, strict=True)}

    together = decode([0, 1, 2, 3, 4])
    for number in range(5):
        alone = decode([number])[number]
        torch.testing.assert_close(together[number], alone, atol=1e-5, rtol=1e-5)


def test_positions_are_sines_and_cosines_of_the_papers_angles():
    size, positions = 10, 23
    sines = build_sines(positions, size, CPU)
    for position in (0, 1, 7, 22):
        for place in range(size // 2):
            angle = position / 10000 ** (2 * place / size)
            expected = math.sin(angle), math.cos(angle)
            found = sines[position, place].item(), sines[position, size // 2 + place].item()
            np.testing.assert_allclose(found, expected, atol=1e-6)


def test_what_is_read_has_the_variance_of_one_at_the_start():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(400, d_model=64, encoder_layers=1, decoder_layers=1))
    assert float(model.word.weight.detach().std()) == pytest.approx(64**-0.5, rel=0.05)
    qkv = model.encoder[0].attention.qkv.weight.detach()
    assert float(qkv.std()) == pytest.approx(64**-0.5, rel=0.05)
    assert not model.decoder[0].source_attention.key_value.bias.any()


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"encoder_attention_heads": 5}, ("d_model", "36", "encoder_attention_heads")),
        ({"decoder_layers": 0}, ("decoder_layers", "0")),
        ({"dropout": 1.0}, ("dropout", "1.0")),
        ({"d_model": 9, "encoder_attention_heads": 3, "decoder_attention_heads": 3}, ("d_model",)),
        ({"eos_token_id": 101}, ("eos_token_id", "101")),
        ({"activation_function": "tanh"}, ("activation_function", "tanh")),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes, parts):
    shape = {name: value for name, value in SHAPE.items() if name in vars(TransformerConfig(9))}
    with refuses(ConfigError, *parts):
        TransformerConfig(**shape | changes)
