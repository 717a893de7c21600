"""A generator and a discriminator as one model: shared embeddings, samples, folders."""

import pytest
import torch
from refusals import refuses

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.electra_pair import (
    ElectraPair,
    build_trained,
    generator_config,
    load_generator,
    new_pair,
)
from bertsmith.model.families.electra import ElectraConfig
from bertsmith.model.loading import load_model
from bertsmith.model.masked_lm_loss import SAMPLED_BLOCK, sample_tokens
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model

VOCAB = 311


def config(**changes):
    return ElectraConfig(**{
        "vocab_size": VOCAB, "hidden_size": 24, "embedding_size": 13, "num_hidden_layers": 3,
        "num_attention_heads": 3, "intermediate_size": 44, "max_position_embeddings": 37,
        "initializer_range": 0.2, **changes,
    })  # fmt: skip


def pair(**changes):
    torch.manual_seed(3)
    return new_pair(config(**changes), 0.5).eval()


@pytest.mark.parametrize(
    ("words", "dtype"), [(7, torch.float32), (SAMPLED_BLOCK, torch.bfloat16), (311, torch.float32)]
)
def test_a_draw_is_the_sum_that_its_word_passes(words, dtype):
    generator = torch.Generator().manual_seed(words)
    logits = 2 * torch.randn(997, words, generator=generator)
    logits[:, 3] = -200.0  # a probability of zero is never taken
    probabilities = logits.softmax(-1).to(dtype)
    draws = torch.rand(997, generator=generator)
    sums = probabilities.double().cumsum(-1)
    expected = torch.searchsorted(sums, sums[:, -1:] * draws.double()[:, None], right=True)[:, 0]
    found = sample_tokens(probabilities, draws)
    assert (found == expected).float().mean() > 0.999  # sums of fp32 may round at a bound
    assert (found != 3).all()
    ends = torch.zeros(2, words, dtype=dtype)
    ends[0, 5] = ends[1, words - 1] = 1.0
    for draw in (0.0, 1 - 2**-24):
        assert sample_tokens(ends, torch.full((2,), draw)).tolist() == [5, words - 1]


def test_the_generator_is_a_share_as_wide():
    for share, width, heads in ((0.5, 12, 1), (1 / 3, 8, 1), (1.0, 24, 3), (0.75, 18, 2)):
        found = generator_config(config(), share)
        assert (found.hidden_size, found.num_attention_heads) == (width, heads)
        assert found.intermediate_size == round(44 * share)
        assert (found.num_hidden_layers, found.embedding_size, found.vocab_size) == (3, 13, VOCAB)


def test_a_pair_comes_back_from_its_folder(tmp_path):
    model = pair()
    save_model(model, tmp_path)
    again = build_trained(read_folder(tmp_path))
    assert isinstance(again, ElectraPair) and not again.training
    assert again.embeddings.word is again.generator.embeddings.word
    assert (again.config, again.generator.config) == (model.config, model.generator.config)
    mine, theirs = dict(model.named_parameters()), dict(again.named_parameters())
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert torch.equal(value, theirs[name]) and theirs[name].requires_grad, name
    again.set_dropout(0.25)
    assert again.generator.config.hidden_dropout_prob == 0.25
    alone = load_model(tmp_path)
    assert set(alone.heads) == {"replaced_token"}
    with refuses(ConfigError, "embeddings.word.weight", "[311, 13]"):
        ElectraPair.of(alone, pair(initializer_range=0.1).generator)
    save_model(alone, tmp_path / "alone")
    with refuses(CheckpointError, f"{tmp_path}/alone/generator", "--objective masked_lm"):
        load_generator(tmp_path / "alone")
