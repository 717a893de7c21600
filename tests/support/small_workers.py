"""Train a small model with workers, and check that they compute the same as one process."""

import pytest
import torch
from torch_threads import threads

from bertsmith.data.corpus import Corpus
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.matrix_products import has_onednn, measured_products, using_route
from bertsmith.training.settings import OptimSettings
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.protocol import total_counts
from bertsmith.training.workers.share import Plan

OPTIM = OptimSettings(learning_rate=3e-3, weight_decay=0.1)


def small_config(kind=BertConfig, **changes):
    settings = {
        "vocab_size": 150, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 40, "max_position_embeddings": 32,
    }  # fmt: skip
    return kind(**{**settings, **changes})


def small_model(*heads, seed=0, config=None, **changes):
    """Make a model with random weights, in training mode."""
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


def small_workers(task, num_shares, dtype=torch.float32, model=None, optim=OPTIM):
    return LocalWorkers(model or small_model(), dtype, Plan(task, optim, 3, num_shares))


def train(workers, first, end):
    """Train the steps from `first` to before `end`.

    Return a list with the figures of each step, each followed by the norm of its gradient.
    """
    figures = []
    for step in range(first, end):
        figures.append(workers.compute(step, total_counts(workers.prepare(step))))
        figures.append(workers.reduce_gradients())
        workers.update(step, rate=3e-3, divisor=2.0)
    return figures


def check_same_as_one_process(alone, together, steps=4):
    """Check that one process and several train the same weights.

    Two steps are trained before all processes have started for certain, the others after that.
    """
    if not has_onednn():
        pytest.skip("this process pretends to have no oneDNN, which the others have")
    # One thread sums in the same order, however many cores there are. The route of fp32 products is
    # the one that the other processes take, as in a run.
    with threads(1), using_route(measured_products().value.float32_route):
        expected = train(alone, 1, steps + 1)  # without `with`, `alone` starts no processes
        with together:
            figures = train(together, 1, 3)
            together.wait()
            assert together.is_complete
            assert figures + train(together, 3, steps + 1) == expected
    for name, array in alone.state_dict().items():
        assert torch.equal(together.state_dict()[name], array), name
    assert torch.equal(together.arrays.weights, alone.arrays.weights)
    assert torch.equal(together.arrays.compute_weights, alone.arrays.compute_weights)
