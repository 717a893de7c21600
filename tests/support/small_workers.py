"""A small model trained by workers, and the check that they do what one process would."""

import torch
from torch_threads import threads

from bertsmith.data.shards import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import OptimSettings
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.member import Plan
from bertsmith.training.workers.protocol import total_counts

OPTIM = OptimSettings(learning_rate=3e-3, weight_decay=0.1)


def small_config(kind=BertConfig, **changes):
    settings = {
        "vocab_size": 150, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 40, "max_position_embeddings": 32,
    }  # fmt: skip
    return kind(**{**settings, **changes})


def small_model(*heads, seed=0, config=None, **changes):
    """A model with random weights, for training."""
    torch.manual_seed(seed)
    config = config or small_config(**changes)
    return BertModel(config, build_heads(config, heads or ["masked_lm", "next_sentence"]))


def small_objective(corpus_dir, kind=Pretraining, pairs="next_sentence", max_length=31, **sizes):
    return kind(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=max_length, pairs=pairs),
        **{"batch_size": 6, "micro_batch_size": 2, "eval_rows": 8, **sizes},
    )


def small_workers(task, num_members, dtype=torch.float32, model=None, optim=OPTIM):
    return LocalWorkers(model or small_model(), dtype, Plan(task, optim, 3, num_members))


def train(workers, first, end):
    """Train steps from `first` to before `end`; return the figures and gradient norm of each."""
    found = []
    for step in range(first, end):
        found.append(workers.compute(step, total_counts(workers.prepare(step))))
        found.append(workers.reduce_gradients())
        workers.update(step, rate=3e-3, divisor=2.0)
    return found


def check_same_as_one_process(alone, together, steps=4):
    """Train by one process and by several, whose workers may be up or not at first."""
    with threads(1):  # which sums in the same order, however many cores there are
        expected = train(alone, 1, steps + 1)  # not entered: it has no workers
        with together:
            found = train(together, 1, 3)
            together.wait()
            assert together.is_complete
            assert found + train(together, 3, steps + 1) == expected
    for name, array in alone.state_dict().items():
        assert torch.equal(together.state_dict()[name], array), name
    assert torch.equal(together.arrays.weights, alone.arrays.weights)
    assert torch.equal(together.arrays.computing, alone.arrays.computing)
