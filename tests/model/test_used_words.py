"""A model with the words of its texts alone computes the same, and is whole again when saved."""

from dataclasses import replace

import numpy as np
import torch

from bertsmith.data.batches import pack
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.vocabulary_subset import VocabularySubset

CONFIG = BertConfig(
    vocab_size=53, hidden_size=22, num_hidden_layers=2, num_attention_heads=2, intermediate_size=29,
    max_position_embeddings=31, pad_token_id=3,
)  # fmt: skip
ROWS = [np.array(row, dtype=np.int32) for row in ([5, 41, 41, 7], [5, 11, 7])]
USED = [3, 5, 7, 11, 41]


def model_with_head():
    torch.manual_seed(0)
    return BertModel(CONFIG, build_heads(CONFIG, ["classify"], 3)).eval()


def test_a_narrowed_model_computes_the_same_and_is_whole_again_when_widened():
    model = model_with_head()
    before, expected = model.embeddings.word.weight.detach().clone(), model.encode(pack(ROWS))
    used = VocabularySubset.of(model, ROWS)
    assert used.ids.tolist() == USED
    used.narrow(model)
    narrow = model.embeddings.word
    assert narrow.weight.shape == (5, 22)
    assert narrow.padding_idx == 0
    found = model.encode(pack([used.numbers[row] for row in ROWS]))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    with torch.no_grad():
        narrow.weight += 1.0
    with used.widened(model):
        widened = model.embeddings.word.weight.detach()
        assert model.embeddings.word.padding_idx == 3
    assert model.embeddings.word is narrow
    before[USED] += 1.0
    torch.testing.assert_close(widened, before, rtol=0, atol=0)


def test_padding_is_found_again_and_a_frozen_embedding_stays_frozen():
    model = model_with_head()
    model.config = replace(CONFIG, pad_token_id=52)
    model.embeddings.word.weight.requires_grad = False
    used = VocabularySubset.of(model, ROWS)
    used.narrow(model)
    assert model.embeddings.word.padding_idx == 4
    assert not model.embeddings.word.weight.requires_grad
    with used.widened(model):
        assert not model.embeddings.word.weight.requires_grad
