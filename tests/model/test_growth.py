"""A model that grows: new rows are what they should be, and old answers stay the same."""

import pytest
import torch

from bertsmith.model.heads import MaskedLMHead
from bertsmith.model.reinitialize import extend_words, set_positions, start_masked_lm_head

PIECES = [(3,), (5, 7, 100), (2, 2, 9, 11), ()]


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
    model = small_model("masked_lm", hidden_act=activation)
    head = model.heads["masked_lm"]
    assert isinstance(head, MaskedLMHead)
    torch.nn.init.ones_(head.norm.weight)
    torch.nn.init.zeros_(head.norm.bias)
    counts = torch.arange(101)
    start_masked_lm_head(head, counts)
    hidden = torch.nn.functional.layer_norm(torch.randn(17, 33), (33,))
    torch.testing.assert_close(head.transform(hidden), hidden, atol=0.1, rtol=0)
    torch.testing.assert_close(
        head.bias.softmax(0), (counts + 1.0) / (counts + 1.0).sum(), atol=1e-6, rtol=1e-5
    )
