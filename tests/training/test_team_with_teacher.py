"""A teacher in several processes: the same weights as in one, and the teacher's exist once."""

import time
from dataclasses import replace

import pytest
import torch

from bertsmith.data.shards import Corpus
from bertsmith.distillation.objective import Teaching
from bertsmith.distillation.pretraining_objective import PretrainingDistillation
from bertsmith.distillation.teacher_vectors import VectorCache
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.shared import SharedModel
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.optim import OptimSettings
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.member import Plan
from bertsmith.training.workers.protocol import total_counts

DEADLINE = 300.0
CONFIG = BertConfig(
    vocab_size=150,
    hidden_size=24,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=40,
    max_position_embeddings=32,
)


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in the same order, however many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def model_of(config, seed):
    torch.manual_seed(seed)
    return BertModel(config, build_heads(config, ["masked_lm"]))


def objective(corpus_dir, dtype, cache=None):
    pretraining = Pretraining(
        Corpus.open(corpus_dir),
        Corpus.open(corpus_dir, "held_out"),
        PretrainingSettings(max_length=31, pairs="none"),
        batch_size=6,
        micro_batch_size=2,
        eval_rows=8,
    )
    teacher = model_of(replace(CONFIG, num_hidden_layers=3, initializer_range=0.3), 7)
    teaching = Teaching(soft_weight=0.7, soft_temperature=2.0, hidden_weight=0.2)
    reading = SharedModel(teacher.to(dtype).eval())
    return PretrainingDistillation(pretraining, reading, teaching, "", cache)


def new_team(task, num_members, dtype):
    settings = OptimSettings(learning_rate=3e-3)
    return LocalWorkers(
        model_of(CONFIG, 0), dtype, Plan(task, settings, seed=3, num_members=num_members)
    )


def train(team, first, end):
    found = []
    for step in range(first, end):
        found.append(team.compute(step, total_counts(team.prepare(step))))
        found.append(team.reduce_gradients())
        team.update(step, rate=3e-3, divisor=1.0)
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_cached", [False, True])
def test_workers_do_what_one_process_would(corpus_dir, tmp_path, dtype, is_cached):
    alone = new_team(objective(corpus_dir, dtype), 2, dtype)
    expected = train(alone, 1, 5)
    cache = None
    if is_cached:  # the first two steps are read, the others written
        cache = VectorCache(tmp_path, {"teacher": ""}, CONFIG.hidden_size, dtype, hidden=True)
        train(new_team(objective(corpus_dir, dtype, cache), 2, dtype), 1, 3)
    together = new_team(objective(corpus_dir, dtype, cache), 2, dtype)
    with together:
        deadline = time.monotonic() + DEADLINE
        while not together.is_complete and time.monotonic() < deadline:
            together.poll_workers()
            time.sleep(0.05)
        assert together.is_complete
        assert train(together, 1, 5) == expected
    assert torch.equal(together.arrays.weights, alone.arrays.weights)
    if cache is not None:
        assert cache.facts()["cached_batches"] == 4 * 3


def test_terms_of_the_triple_loss(corpus_dir):
    task = objective(corpus_dir, torch.float32)
    model, teacher = model_of(CONFIG, 0).eval(), task.teacher.model
    for batch in task.micro_batches(1):
        terms = task.losses(model, batch)
        assert {name: term.count for name, term in terms.items()} == task.counts(batch)
        assert [(n, t.weight) for n, t in terms.items()] == [
            ("mlm", pytest.approx(0.3)), ("soft", 0.7), ("hidden", 0.2)
        ]  # fmt: skip
        expected = task.pretraining.losses(model, batch)["mlm"]
        assert torch.equal(terms["mlm"].sum, expected.sum)
        places = batch.targets["masked_positions"]
        with torch.no_grad():
            logits, taught = (
                one.heads["masked_lm"](one.encode(batch)[places], one.embeddings.word.weight) / 2
                for one in (model, teacher)
            )
        soft = 4 * torch.nn.functional.kl_div(
            logits.log_softmax(-1), taught.softmax(-1), reduction="sum"
        )
        torch.testing.assert_close(terms["soft"].sum.detach(), soft, rtol=1e-4, atol=1e-5)
        own = task.losses(teacher, batch)
        assert own["soft"].sum.item() == pytest.approx(0, abs=1e-3)
        assert own["hidden"].correct == batch.num_tokens
    assert task.identity()["teaching"]["soft_temperature"] == 2.0
    assert "held_out_mlm_loss" in task.evaluate(model)
    assert task.describe(1) == task.pretraining.describe(1)


def test_batches_are_those_of_pretraining(corpus_dir):
    task = objective(corpus_dir, torch.float32)
    mine, theirs = task.micro_batches(3), task.pretraining.micro_batches(3)
    assert [b.input_ids.tolist() for b in mine] == [b.input_ids.tolist() for b in theirs]
