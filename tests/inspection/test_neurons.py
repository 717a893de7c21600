"""Queries and keys: attention is the softmax of their products, and pages spell them finely."""

import numpy as np
import pytest
import torch
from test_head_outputs import FAMILIES, save_family, tiny_row
from tiny_models import save_tiny

from bertsmith.inspection.head_outputs import pack_copies
from bertsmith.inspection.head_vectors import HeadVectors
from bertsmith.inspection.layer_outputs import compute_layers
from bertsmith.inspection.look import look
from bertsmith.inspection.neurons import NUM_LEVELS, plain_neurons
from bertsmith.inspection.page_limits import MAX_PAGE_WEIGHTS
from bertsmith.inspection.plain_values import ALPHABET
from bertsmith.model.loading import load_model

SCALES = {"queries": "queryScales", "keys": "keyScales"}


def read_numbers(text, scales, shape):
    """Read what the page reads: two characters for each number, [heads, tokens, size]."""
    numbers = np.array([ALPHABET.index(character) for character in text]).reshape(-1, 2)
    levels = numbers[:, 0] * len(ALPHABET) + numbers[:, 1]
    shares = (2 * levels / (NUM_LEVELS - 1) - 1).reshape(len(scales), *shape)
    return shares * np.array(scales)[:, None, None]


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_the_softmax_of_the_products(family, tmp_path):
    model = load_model(save_family(tmp_path / "model", family))
    ids, type_ids = tiny_row()
    layers = compute_layers(model, pack_copies(model, ids, type_ids))
    assert len(layers.head_vectors) == len(layers.attentions)
    for vectors, attention in zip(layers.head_vectors, layers.attentions, strict=True):
        scores = vectors.queries @ vectors.keys.transpose(1, 2)
        # In layers of ModernBERT a head sees near tokens alone.
        scores = scores.masked_fill(attention == 0, -torch.inf)
        torch.testing.assert_close(scores.softmax(-1), attention, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("family", "hides"), [("bert", False), ("modernbert", True)])
def test_the_page_says_if_a_head_cannot_see_every_word(family, hides, tmp_path):
    folder = save_family(tmp_path / "model", family, "masked_lm")
    assert look(folder, "a good [MASK]", device="cpu").data["hidesWords"] is hides


def test_the_page_spells_numbers_to_three_digits(tmp_path):
    result = look(save_tiny(tmp_path / "model", "masked_lm"), "a good [MASK]", device="cpu")
    (neurons,) = result.data["neurons"]
    vectors = result.decided.layers.head_vectors
    shape = len(result.tokens), neurons["size"]
    for kind in SCALES:
        expected = torch.cat([getattr(each, kind) for each in vectors]).numpy()
        numbers = read_numbers(neurons[kind], neurons[SCALES[kind]], shape)
        largest = np.abs(expected).max((1, 2), keepdims=True)
        assert (np.abs(numbers - expected) / largest).max() < 5e-4


def test_numbers_at_the_ends_of_the_scale_and_zero_are_spelled():
    queries = torch.tensor([[[3.0, -3.0, 0.0]]])
    (neurons,) = plain_neurons([[HeadVectors(queries, torch.zeros(1, 2, 3))]])
    assert neurons["queryScales"] == [3.0] and neurons["keyScales"] == [1.0]
    np.testing.assert_array_equal(read_numbers(neurons["queries"], [3.0], (1, 3)), queries)
    assert not read_numbers(neurons["keys"], [1.0], (2, 3)).any()


def test_a_page_without_room_leaves_them_out():
    size = 64
    for num_tokens, is_left_out in ((55, False), (56, True)):
        vectors = HeadVectors(*torch.ones(2, 12, num_tokens, size))
        num_weights = 12 * 12 * num_tokens**2
        assert (2 * 2 * 12 * 12 * num_tokens * size + num_weights > MAX_PAGE_WEIGHTS) == is_left_out
        assert (plain_neurons([[vectors] * 12]) is None) == is_left_out
