"""Steps are timed as a run does them, and choose a size; random text is a corpus as any other."""

import numpy as np
import pytest
import torch
from small_workers import small_objective
from tiny_models import tiny_config

from bertsmith.data.batches import pack
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.pretraining import auto_size as sizing
from bertsmith.pretraining.auto_size import choose_preset
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.random_corpus import write_random_corpus
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.pretraining.step_timer import MIN_STEPS, StepTimer, longest_share
from bertsmith.training.machine import Machine


@pytest.fixture
def objective(corpus_dir):
    train, held_out = Corpus.open(corpus_dir), Corpus.open(corpus_dir, "held_out")
    settings = PretrainingSettings(max_length=16, start_steps=5, start_length=8)
    return Pretraining(
        train, held_out, settings, batch_size=6, micro_batch_size=3, seed=1, eval_rows=5
    )


def model_for(objective):
    config = tiny_config(vocab_size=objective.train.corpus.vocab_size)
    return BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))


def test_the_longest_share_of_a_step():
    batches = [pack([np.arange(length)]) for length in (5, 7, 11, 2, 3)]
    assert [longest_share(batches, members) for members in (1, 2, 3, 7)] == [28, 19, 11, 11]


def test_real_steps_of_the_phase_that_is_asked_for(objective):
    model = model_for(objective)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    with StepTimer(objective, model, "fp32", 1) as timer:
        found = timer.time(6, warm_up=1)
        assert timer.time_evaluation() > 0
    assert found.num_steps == MIN_STEPS
    assert found.compute > 0 and found.update > 0
    steps = range(7, 7 + MIN_STEPS)
    tokens = [sum(b.num_tokens for b in objective.micro_batches(step)) for step in steps]
    assert found.tokens == sum(tokens) / MIN_STEPS
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name], rtol=0, atol=1e-4)


def test_another_size_for_a_trial_leaves_the_objective_as_it_was(objective):
    smaller = objective.resized(3, 2)
    assert [batch.num_sequences for batch in smaller.micro_batches(9)] == [3]
    assert [batch.num_sequences for batch in objective.micro_batches(9)] == [3, 3]
    model = model_for(objective).eval()
    with torch.inference_mode():
        whole = objective.evaluate(model)
        assert smaller.evaluate(model) != whole
        assert objective.evaluate(model) == whole


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


def test_rows_are_long_and_frequent_words_frequent(tmp_path):
    write_random_corpus(tmp_path, 211)
    train, held_out = Corpus.open(tmp_path), Corpus.open(tmp_path, "held_out")
    assert train.vocab_size == train.tokenizer().vocab_size == 211
    settings = PretrainingSettings(max_length=128, short_seq_prob=0.0)
    (batch,) = Pretraining(train, held_out, settings, batch_size=64).micro_batches(1)
    assert np.mean(batch.lengths) > 126
    assert batch.input_ids.max() < 211
    counts = np.bincount(train.token_ids(0, train.num_tokens), minlength=211)
    assert (counts[:5] == 0).all()
    assert counts[5] / counts[6] == pytest.approx(2, rel=0.05)
    assert counts[5] / counts[14] == pytest.approx(10, rel=0.1)
    with pytest.raises(ConfigError, match="--vocab-size 5: allowed is 6 or more"):
        write_random_corpus(tmp_path, 5)
