"""A model that changes: new rows are what they should be, and old answers stay the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertsmith.data.batches import pack
from bertsmith.model.bert import BertModel
from bertsmith.model.families.roberta import RobertaConfig
from bertsmith.model.reinitialize import (
    extend_words,
    initialize_sinusoidal,
    reset_queries,
    set_positions,
    sinusoids,
    start_masked_lm_head,
)
from bertsmith.model.vocabulary_subset import VocabularySubset

PIECES = [(3,), (5, 7, 100), (2, 2, 9, 11), ()]


def copied(model):
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def changed(before, model):
    after = dict(model.named_parameters())
    return {name for name, weight in before.items() if not torch.equal(weight, after[name])}


def test_new_words_begin_as_the_mean_of_their_pieces(small_model, padded_inputs):
    model = small_model("masked_lm", "next_sentence")
    head, outputs = model.heads["masked_lm"], model(**padded_inputs)
    rows, bias = model.embeddings.word.weight.clone(), head.bias.clone()
    extend_words(model, 101, PIECES)
    assert model.config.vocab_size == 105
    for found, before in ((model.embeddings.word.weight, rows), (head.bias, bias)):
        assert torch.equal(found[:101], before)
        for row, ids in zip(found[101:104], PIECES[:3], strict=True):
            torch.testing.assert_close(row, sum(before[id_] for id_ in ids) / len(ids))
        torch.testing.assert_close(found[104], before.mean(0))
        assert found.requires_grad
    assert model.embeddings.word.padding_idx == 0
    after = model(**padded_inputs)
    torch.testing.assert_close(after.logits[..., :101], outputs.logits)
    torch.testing.assert_close(after.next_sentence_logits, outputs.next_sentence_logits)
    # A word of one piece is as likely as that piece.
    torch.testing.assert_close(after.logits[..., 101], outputs.logits[..., 3])


def test_rows_beyond_the_vocabulary_are_used_first(small_model):
    model = small_model()
    rows = model.embeddings.word.weight.clone()
    extend_words(model, 97, PIECES[:1])
    assert model.config.vocab_size == 101
    assert torch.equal(model.embeddings.word.weight[97], rows[3])
    assert torch.equal(model.embeddings.word.weight[98:], rows[98:])
    extend_words(model, 98, [(1,)] * 7)
    assert model.config.vocab_size == 105


def test_positions_are_repeated(small_model, padded_inputs):
    model = small_model()
    before, rows = model(**padded_inputs), model.embeddings.position.weight.clone()
    set_positions(model, 71)
    assert model.config.max_position_embeddings == 71
    assert torch.equal(model.embeddings.position.weight, torch.cat([rows, rows, rows[:13]]))
    torch.testing.assert_close(model(**padded_inputs).last_hidden_state, before.last_hidden_state)
    assert model(torch.ones(2, 71, dtype=torch.int64)).last_hidden_state.shape == (2, 71, 33)
    set_positions(model, 23)
    assert torch.equal(model.embeddings.position.weight, rows[:23])


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu", "silu"])
def test_a_new_head_passes_vectors_on_and_guesses_by_frequency(small_model, activation):
    head = small_model("masked_lm", hidden_act=activation).heads["masked_lm"]
    torch.nn.init.ones_(head.norm.weight)
    torch.nn.init.zeros_(head.norm.bias)
    counts = torch.arange(101)
    start_masked_lm_head(head, counts[:-1])  # fewer tokens than embeddings
    counts[-1] = 0
    hidden = torch.nn.functional.layer_norm(torch.randn(17, 33), (33,))
    torch.testing.assert_close(head.transform(hidden), hidden, atol=0.1, rtol=0)
    expected = (counts + 1.0) / (counts + 1.0).sum()
    torch.testing.assert_close(head.bias.softmax(0), expected, atol=1e-6, rtol=1e-5)


def test_a_distance_between_positions_is_the_same_rotation_everywhere():
    rows = sinusoids(200, 64).double()
    products = rows @ rows.T
    for distance in (0, 1, 7, 50):
        found = products.diagonal(distance)
        torch.testing.assert_close(found, found[0].expand(200 - distance), atol=1e-3, rtol=0)


def test_only_positions_become_waves_from_the_first_that_is_used(small_model):
    model = small_model("masked_lm", initializer_range=0.05)
    before = copied(model)
    initialize_sinusoidal(model)
    assert changed(before, model) == {"embeddings.position.weight"}
    assert model.embeddings.position.weight.abs().max().item() == pytest.approx(0.14, rel=0.01)

    config = RobertaConfig(101, 32, 1, 2, 37, max_position_embeddings=29, pad_token_id=1)
    model = BertModel(config, {})
    before = copied(model)["embeddings.position.weight"]
    initialize_sinusoidal(model)
    after = model.embeddings.position.weight
    assert torch.equal(after[:2], before[:2])
    torch.testing.assert_close(after[2:] / after[2, 1], sinusoids(27, 32))


def test_after_a_reset_only_the_last_layer_reads_evenly(small_model, padded_inputs):
    model = small_model("classify", num_labels=2)
    before = model(**padded_inputs, output_attentions=True).attentions
    kept, weights = copied(model), dict(model.named_parameters())
    reset_queries(model)
    after = model(**padded_inputs, output_attentions=True).attentions
    torch.testing.assert_close(after[0], before[0])
    mask = padded_inputs["attention_mask"]
    even = (mask / mask.sum(-1, keepdim=True))[:, None, None, :] * mask[:, None, :, None]
    torch.testing.assert_close(after[-1], even.expand_as(after[-1]).float())
    assert not torch.allclose(before[-1], after[-1])
    names = {"layers.1.attention.qkv.weight", "layers.1.attention.qkv.bias"}
    assert changed(kept, model) == names
    for name in names:  # keys and values stay
        assert torch.equal(kept[name][33:], weights[name][33:]), name


def test_a_model_of_the_used_words_is_the_same_and_whole_again_when_widened(small_model):
    rows = [np.array(row, dtype=np.int32) for row in ([5, 41, 41, 7], [5, 11, 7])]
    model = small_model("classify", num_labels=3)
    model.config = replace(model.config, pad_token_id=52)
    before, expected = copied(model)["embeddings.word.weight"], model.encode(pack(rows))
    used = VocabularySubset.of(model, rows)
    used.shrink(model)
    narrow = model.embeddings.word
    assert (len(narrow.weight), narrow.padding_idx) == (5, 4)
    found = model.encode(pack([used.new_ids[row] for row in rows]))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    with torch.no_grad():
        narrow.weight += 1.0
    with used.widened(model):
        widened = model.embeddings.word
    assert model.embeddings.word is narrow
    assert widened.padding_idx == 52
    before[[5, 7, 11, 41, 52]] += 1.0
    torch.testing.assert_close(widened.weight.detach(), before, rtol=0, atol=0)
