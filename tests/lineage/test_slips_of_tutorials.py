"""Slips that many tutorials share, each beside what the paper and its released code do."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny_models import tiny_model

from bertsmith.data.batches import pack
from bertsmith.data.corpus import Corpus
from bertsmith.lineage.encoder_decoder import EncoderDecoder
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.lineage.transformer import Transformer, TransformerConfig
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.parameter_counts import count_parameters, pretraining_model, sum_parameters
from bertsmith.pretraining.row_source import RowSource
from bertsmith.pretraining.settings import PretrainingSettings

CLEAR = 0.01
"""Far more than rounding: the networks are different ones."""


@pytest.fixture(scope="module")
def layer():
    """The first layer of a BERT, with what went in and came out of one text, [tokens, hidden]."""
    model = tiny_model()
    seen = []
    handle = model.layers[0].register_forward_hook(
        lambda module, inputs, output: seen.append((inputs[0], output))
    )
    ids = np.arange(5, 5 + 13) % model.config.vocab_size
    with torch.inference_mode():
        model.encode(pack([ids]))
    handle.remove()
    ((before, after),) = seen
    return model.layers[0], before[:13].clone(), after[:13].clone()


def attend(attention, hidden, divisor):
    query, key, value = attention.qkv(hidden).chunk(3, dim=-1)
    heads = [each.unflatten(-1, (attention.num_heads, -1)) for each in (query, key, value)]
    query, key, value = (each.transpose(0, 1) for each in heads)
    weights = (query @ key.transpose(1, 2) / divisor).softmax(-1)
    return attention.output((weights @ value).transpose(0, 1).flatten(1))


@torch.inference_mode()
def compute(layer, hidden, *, divisor=None, is_pre_norm=False, activation=F.gelu):
    """Compute a layer by the textbook; without options as BERT does."""
    attention, feed_forward = layer.attention, layer.feed_forward
    size = hidden.shape[1] // attention.num_heads
    divisor = math.sqrt(size) if divisor is None else divisor(size)

    def feed(vectors):
        return feed_forward.down(activation(feed_forward.up(vectors)))

    if is_pre_norm:
        hidden = hidden + attend(attention, layer.attention_norm(hidden), divisor)
        return hidden + feed(layer.feed_forward_norm(hidden))
    hidden = layer.attention_norm(hidden + attend(attention, hidden, divisor))
    return layer.feed_forward_norm(hidden + feed(hidden))


def distance(first, second):
    return float((first - second).abs().max())


def test_scores_are_divided_by_the_root_of_the_size_of_a_head(layer):
    module, before, after = layer
    assert distance(compute(module, before), after) < 1e-5
    assert distance(compute(module, before, divisor=lambda size: size), after) > CLEAR


def test_bert_normalizes_after_each_part_of_a_layer(layer):
    module, before, after = layer
    assert distance(compute(module, before, is_pre_norm=True), after) > CLEAR


def test_bert_has_gelu_and_no_relu(layer):
    module, before, after = layer
    assert distance(compute(module, before, activation=F.relu), after) > CLEAR


def test_next_sentence_needs_pairs_that_follow_and_pairs_that_do_not(corpus_dir):
    corpus = Corpus.open(corpus_dir, "train")

    def targets_with(pairs):
        settings = PretrainingSettings(max_length=32, pairs=pairs)
        return [batch.targets for batch in RowSource(corpus, settings, 0).evaluation_batches(64, 0)]

    labels = torch.cat(
        [targets["next_sentence_labels"] for targets in targets_with("next_sentence")]
    )
    assert labels.unique().tolist() == [0, 1]
    assert not any("next_sentence_labels" in targets for targets in targets_with("none"))


def test_a_count_of_parameters_has_biases_layernorms_and_pooler():
    counts = count_parameters(
        pretraining_model(
            BertConfig(
                vocab_size=30522, **PRESETS["base"], num_attention_heads=12, intermediate_size=3072
            )
        )
    )
    encoder = {name: each for name, each in counts.items() if not name.endswith(" head")}
    assert sum_parameters(encoder) == 109_482_240  # "110M" in the paper, section 3
    matrices = sum(each.matrices for name, each in encoder.items() if name != "pooler")
    assert matrices == 108_770_304 == sum_parameters(encoder) - 711_936


def test_the_transformer_of_2017_normalizes_after_each_part_of_a_layer():
    torch.manual_seed(0)
    model: EncoderDecoder = Transformer(
        TransformerConfig(
            31, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3,
            decoder_attention_heads=3, encoder_ffn_dim=44, decoder_ffn_dim=44,
        )
    ).eval()  # fmt: skip
    batch = SourceTarget.of([[5, 6, 7, 8]], [[9, 10, 11]], 0)
    with torch.inference_mode():
        for hidden in (model.encode(batch.source), model.decode(batch)):
            # New LayerNorms change nothing, so what leaves the last one has mean 0 and variance 1.
            # A pre-norm network adds to its vectors up to the end.
            torch.testing.assert_close(hidden.mean(-1), torch.zeros(len(hidden)), atol=1e-5, rtol=0)
            variance = hidden.var(-1, unbiased=False)
            torch.testing.assert_close(variance, torch.ones(len(hidden)), atol=1e-3, rtol=0)
