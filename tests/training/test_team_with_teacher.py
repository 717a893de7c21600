"""A teacher in several processes: the same weights as in one, and the teacher's exist once."""

import pytest
import torch
from small_workers import (
    check_same_as_one_process,
    small_model,
    small_objective,
    small_workers,
    train,
)

from bertsmith.distillation.objective import Teaching
from bertsmith.distillation.pretraining_objective import PretrainingDistillation
from bertsmith.distillation.teacher_vectors import VectorCache
from bertsmith.model.shared import SharedModel


def objective(corpus_dir, dtype, cache=None):
    pretraining = small_objective(corpus_dir, pairs="none")
    teacher = small_model("masked_lm", seed=7, num_hidden_layers=3, initializer_range=0.3)
    teaching = Teaching(soft_weight=0.7, soft_temperature=2.0, hidden_weight=0.2)
    reading = SharedModel(teacher.to(dtype).eval())
    return PretrainingDistillation(pretraining, reading, teaching, "", cache)


def new_team(task, dtype):
    return small_workers(task, 2, dtype, small_model("masked_lm", num_hidden_layers=1))


@pytest.mark.parametrize(("dtype", "is_cached"), [(torch.float32, True), (torch.bfloat16, False)])
def test_workers_do_what_one_process_would(corpus_dir, tmp_path, dtype, is_cached):
    cache = None
    if is_cached:  # the first two steps are read, the others written
        cache = VectorCache(tmp_path, {"teacher": ""}, 24, dtype, hidden=True)
        train(new_team(objective(corpus_dir, dtype, cache), dtype), 1, 3)
    alone = new_team(objective(corpus_dir, dtype), dtype)
    check_same_as_one_process(alone, new_team(objective(corpus_dir, dtype, cache), dtype))
    if cache is not None:
        assert cache.facts()["cached_batches"] == 4 * 3


def test_terms_of_the_triple_loss(corpus_dir):
    task = objective(corpus_dir, torch.float32)
    model, teacher = small_model("masked_lm", num_hidden_layers=1).eval(), task.teacher.model
    for batch in task.micro_batches(1):
        terms = task.losses(model, batch)
        assert {name: term.count for name, term in terms.items()} == task.counts(batch)
        weights = {name: term.weight for name, term in terms.items()}
        assert weights == pytest.approx({"mlm": 0.3, "soft": 0.7, "hidden": 0.2})
        assert torch.equal(terms["mlm"].sum, task.pretraining.losses(model, batch)["mlm"].sum)
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
