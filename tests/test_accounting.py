"""Parameters are counted by component, exactly, and against transformers' own model."""

import pytest
import torch
from tiny_models import tiny_config
from torch import nn

from bertsmith.accounting import (
    ATTENTION,
    FEED_FORWARD,
    Component,
    beyond_formula,
    component_of,
    count_parameters,
    formula,
    pretraining_model,
    total,
)
from bertsmith.model.bert import PRESETS, BertConfig, BertModel

WIDTH, INNER, LAYERS, WORDS, POSITIONS = 30, 47, 3, 101, 37


def small_config() -> BertConfig:
    return tiny_config(
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        vocab_size=WORDS,
        max_position_embeddings=POSITIONS,
        type_vocab_size=5,
    )


@pytest.mark.parametrize(
    ("preset", "by_formula", "exact"),
    [("base", 108_369_408, 109_482_240), ("large", 333_236_224, 335_141_888)],
)
def test_the_released_sizes(preset: str, by_formula: int, exact: int) -> None:
    assert formula(BertConfig.from_preset(preset, vocab_size=30_000)) == by_formula
    counts = count_parameters(pretraining_model(BertConfig.from_preset(preset, vocab_size=30_522)))
    assert total(counts, heads=False) == exact


def test_every_component_by_hand() -> None:
    counts = count_parameters(pretraining_model(small_config()))
    assert {name: (each.matrices, each.vectors) for name, each in counts.items()} == {
        "word embedding": (WORDS * WIDTH, 0),
        "position embedding": (POSITIONS * WIDTH, 0),
        "segment embedding": (5 * WIDTH, 0),
        "embedding LayerNorm": (0, 2 * WIDTH),
        "attention": (LAYERS * 4 * WIDTH**2, LAYERS * 4 * WIDTH),
        "LayerNorms": (0, LAYERS * 4 * WIDTH),
        "feed-forward": (LAYERS * 2 * WIDTH * INNER, LAYERS * (WIDTH + INNER)),
        "masked_lm head": (WIDTH**2, 3 * WIDTH + WORDS),
        "next_sentence head": (2 * WIDTH, 2),
        "pooler": (WIDTH**2, WIDTH),
    }
    assert counts[ATTENTION].per_layer == 4 * WIDTH**2 + 4 * WIDTH
    assert counts["pooler"].per_layer == 0


@pytest.mark.parametrize("preset", [*PRESETS, "small_config"])
def test_as_many_as_transformers_has(preset: str) -> None:
    import transformers

    config = (
        small_config()
        if preset == "small_config"
        else BertConfig.from_preset(preset, vocab_size=997)
    )
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
             "intermediate_size", "max_position_embeddings", "type_vocab_size")  # fmt: skip
    theirs = transformers.BertConfig(**{name: getattr(config, name) for name in names})
    with torch.device("meta"):
        encoder = transformers.BertModel(theirs)
        with_heads = transformers.BertForPreTraining(theirs)
    counts = count_parameters(pretraining_model(config))
    assert total(counts, heads=False) == sum(each.numel() for each in encoder.parameters())
    assert total(counts) == sum(each.numel() for each in with_heads.parameters())


@pytest.mark.parametrize("config", [small_config(), BertConfig.from_preset("base", 30_522)])
def test_what_the_formula_leaves_out_adds_up(config: BertConfig) -> None:
    counts = count_parameters(pretraining_model(config))
    lines = beyond_formula(counts, config)
    assert formula(config) + sum(lines.values()) == total(counts, heads=False)


def test_the_lines_of_base_are_what_the_formula_forgets() -> None:
    config = BertConfig.from_preset("base", 30_522)
    assert beyond_formula(count_parameters(pretraining_model(config)), config) == {
        "embedding LayerNorm": 2 * 768,
        "biases of attention": 12 * 4 * 768,
        "LayerNorms of the layers": 12 * 4 * 768,
        "biases of feed-forward": 12 * (3072 + 768),
        "pooler": 768**2 + 768,
    }


class Sharing(BertModel):
    """All layers are one, and embeddings are projected."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList([self.layers[0]] * config.num_hidden_layers)
        self.embeddings.projection = nn.Linear(7, config.hidden_size)


def test_shared_weights_count_once_and_are_used_often() -> None:
    with torch.device("meta"):
        counts = count_parameters(Sharing(small_config()))
    matrices = 2 * WIDTH * INNER
    assert counts[FEED_FORWARD] == Component(
        matrices=matrices,
        vectors=WIDTH + INNER,
        used=LAYERS * matrices,
        per_layer=matrices + WIDTH + INNER,
    )
    assert counts["embedding projection"].total == 8 * WIDTH
    lines = beyond_formula(counts, small_config())
    assert formula(small_config()) + sum(lines.values()) == total(counts)


def test_what_is_unknown_is_counted_under_its_own_name() -> None:
    assert component_of("generator.layers.0.attention.qkv.weight") == "generator"
    assert component_of("heads.span.dense.weight") == "span head"
    assert component_of("temperature") == "temperature"
