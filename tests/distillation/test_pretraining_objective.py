"""A pre-trained teacher: its loss terms and its workers."""

import pytest
import torch
from small_workers import (
    check_same_as_one_process,
    small_model,
    small_objective,
    small_workers,
)

from bertsmith.distillation.objective import DistillationWeights
from bertsmith.distillation.pretraining_objective import PretrainingDistillation
from bertsmith.model.shared import SharedModel


def objective(corpus_dir, dtype=torch.float32, hidden_weight=0.2):
    pretraining = small_objective(corpus_dir, max_length=16, pairs="none", batch_size=4)
    teacher = small_model("masked_lm", seed=7, num_hidden_layers=3, initializer_range=0.3)
    weights = DistillationWeights(
        soft_weight=0.7, soft_temperature=2.0, hidden_weight=hidden_weight
    )
    reading = SharedModel(teacher.to(dtype).eval())
    return PretrainingDistillation(pretraining, reading, weights, "")


def new_team(task):
    dtype = next(task.teacher.model.parameters()).dtype
    return small_workers(task, 2, dtype, small_model("masked_lm", num_hidden_layers=1))


def test_workers_do_what_one_process_would(corpus_dir):
    alone, together = (objective(corpus_dir, torch.bfloat16) for _ in range(2))
    check_same_as_one_process(new_team(alone), new_team(together))


def test_terms_of_the_triple_loss(corpus_dir):
    task = objective(corpus_dir)
    model, teacher = small_model("masked_lm", num_hidden_layers=1).eval(), task.teacher.model
    for batch in task.micro_batches(1):
        terms = task.losses(model, batch)
        assert {name: term.count for name, term in terms.items()} == task.counts(batch)
        weights = {name: term.weight for name, term in terms.items()}
        assert weights == pytest.approx({"mlm": 0.3, "soft": 0.7, "hidden": 0.2})
        assert torch.equal(terms["mlm"].sum, task.pretraining.losses(model, batch)["mlm"].sum)
        places = batch.targets["masked_positions"]
        with torch.no_grad():
            logits, teacher_logits = (
                one.heads["masked_lm"](one.encode(batch)[places], one.embeddings.word.weight) / 2
                for one in (model, teacher)
            )
        soft = 4 * torch.nn.functional.kl_div(
            logits.log_softmax(-1), teacher_logits.softmax(-1), reduction="sum"
        )
        torch.testing.assert_close(terms["soft"].sum.detach(), soft, rtol=1e-4, atol=1e-5)
        own = task.losses(teacher, batch)
        assert own["soft"].sum.item() == pytest.approx(0, abs=1e-3)
        assert own["hidden"].correct == batch.num_tokens
    assert "held_out_mlm_loss" in task.evaluate(model)


def test_without_a_weight_hidden_states_are_not_compared(corpus_dir):
    task, model = objective(corpus_dir, hidden_weight=0.0), small_model("masked_lm").eval()
    for batch in task.micro_batches(1):
        assert list(task.losses(model, batch)) == ["mlm", "soft"] == list(task.counts(batch))
