"""Sizes are tried from the smallest on, and the largest that gets enough tokens is taken."""

import pytest
import torch
from small_workers import small_objective

from bertsmith.errors import ConfigError
from bertsmith.model.config import BertConfig
from bertsmith.pretraining import auto_size as sizing
from bertsmith.pretraining.auto_size import choose_preset
from bertsmith.training.machine import Machine

MACHINE = Machine(torch.device("cpu"), "fp32", num_processes=1)


# All of them small, so that none takes long.
SHAPES = dict.fromkeys(
    sizing.NEEDED_TOKENS, BertConfig.from_preset("tiny", 200, max_position_embeddings=32)
)


def test_the_largest_size_that_gets_enough_tokens_is_taken(corpus_dir, monkeypatch):
    objective = small_objective(corpus_dir, max_length=16, batch_size=16, micro_batch_size=None)
    choice = choose_preset(objective, SHAPES, 0.001, MACHINE)
    assert choice.preset == "tiny"
    assert list(choice.tokens) == ["tiny", "mini"]  # too few tokens end the search
    assert min(choice.tokens.values()) > 0
    assert "size tiny, the largest that 0.001 minutes serve here" in str(choice)
    monkeypatch.setattr(sizing, "NEEDED_TOKENS", {"tiny": 0.0, "mini": 1.0, "small": 1e15})
    assert choose_preset(objective, SHAPES, 10.0, MACHINE).preset == "mini"
    with pytest.raises(ConfigError, match="'auto' without a time"):
        choose_preset(objective, SHAPES, None, MACHINE)
