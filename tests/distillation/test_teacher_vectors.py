"""A pre-trained teacher: its loss terms, its workers, and its vectors, kept for nobody else."""

from dataclasses import replace

import pytest
import torch
from refusals import refuses
from small_workers import (
    check_same_as_one_process,
    small_model,
    small_objective,
    small_workers,
    train,
)

from bertsmith.distillation.cache_folder import load_array
from bertsmith.distillation.objective import Teaching
from bertsmith.distillation.pretraining_objective import PretrainingDistillation
from bertsmith.distillation.teacher_vectors import VectorCache
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.shared import SharedModel

FACTS = {"teacher": "one", "tokenizer": "its own"}


def cache_in(folder, hidden=True, dtype=torch.float32, **facts):
    return VectorCache(folder, FACTS | facts, 24, dtype, hidden=hidden)


def objective(corpus_dir, cache=None, hidden_weight=0.2, dtype=torch.float32, **sizes):
    sizes = {"batch_size": 4} | sizes
    pretraining = small_objective(corpus_dir, max_length=16, pairs="none", **sizes)
    pretraining.settings = replace(pretraining.settings, duplicates=1)
    teacher = small_model("masked_lm", seed=7, num_hidden_layers=3, initializer_range=0.3)
    teaching = Teaching(soft_weight=0.7, soft_temperature=2.0, hidden_weight=hidden_weight)
    reading = SharedModel(teacher.to(dtype).eval())
    return PretrainingDistillation(pretraining, reading, teaching, "", cache)


def losses_of(task, step=1):
    dtype = next(task.teacher.model.parameters()).dtype
    model = small_model("masked_lm", num_hidden_layers=1).to(dtype).eval()
    return [
        {name: term.sum.item() for name, term in task.losses(model, batch).items()}
        for batch in task.micro_batches(step)
    ]


def kept(cache):
    return sorted(cache.directory.glob("*.npy"))


def new_team(task):
    dtype = next(task.teacher.model.parameters()).dtype
    return small_workers(task, 2, dtype, small_model("masked_lm", num_hidden_layers=1))


def test_workers_do_what_one_process_would(corpus_dir, tmp_path):
    dtype = torch.bfloat16
    cache = cache_in(tmp_path / "cache", dtype=dtype)
    train(new_team(objective(corpus_dir, cache, dtype=dtype)), 1, 3)  # the others are written
    alone, together = (objective(corpus_dir, kept, dtype=dtype) for kept in (None, cache))
    check_same_as_one_process(new_team(alone), new_team(together))
    assert cache.facts()["cached_batches"] == 4 * 2


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
    assert "held_out_mlm_loss" in task.evaluate(model)


@pytest.mark.parametrize(
    ("dtype", "hidden_weight"), [(torch.float32, 0.2), (torch.bfloat16, 0.2), (torch.float32, 0.0)]
)
def test_a_cache_changes_no_number(corpus_dir, tmp_path, dtype, hidden_weight):
    cache = cache_in(tmp_path / "cache", hidden_weight > 0, dtype)
    settings = {"hidden_weight": hidden_weight, "dtype": dtype}
    expected = losses_of(objective(corpus_dir, **settings))
    assert ("hidden" in expected[0]) == (hidden_weight > 0)
    for _ in "written", "read":
        assert losses_of(objective(corpus_dir, cache, **settings)) == expected
        assert len(kept(cache)) == len(expected) == 2
    widths = {load_array(path).dtype.itemsize for path in kept(cache)}
    assert widths == {dtype.itemsize}


def test_a_cache_of_something_else_is_refused(tmp_path):
    cache_in(tmp_path / "cache", hidden=False)
    for change, part in (
        ({"teacher": "two"}, "--cache"),
        ({"tokenizer": "another"}, "--cache"),
        ({"dtype": torch.bfloat16}, "--precision"),
        ({"hidden": True}, "--hidden-weight 0"),
    ):
        with refuses(ConfigError, f"{tmp_path / 'cache'}: ", part):
            cache_in(tmp_path / "cache", **{"hidden": False} | change)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / ".manifest.json.1.tmp").write_text("{")  # left by a stopped write
    assert cache_in(tmp_path).holds_all
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "manifest.json").unlink()
    for manifest, place in ((None, f"{tmp_path}: "), ("{", "manifest.json")):
        if manifest is not None:
            (tmp_path / "manifest.json").write_text(manifest)
        with refuses(ConfigError, place, "--cache") as refused:
            cache_in(tmp_path)
        assert "emove" not in str(refused.value)  # it is the user's own


def test_any_damage_is_named(corpus_dir, tmp_path):
    cache = cache_in(tmp_path / "cache")
    task = objective(corpus_dir, cache)
    losses_of(task)
    path = kept(cache)[0]
    whole = path.read_bytes()
    flipped = whole[:200] + bytes([whole[200] ^ 4]) + whole[201:]
    for content in (b"", whole[:-1], flipped):
        path.write_bytes(content)
        with refuses(CheckpointError, f"{path}: ", worded=False):  # named by a checksum
            losses_of(task)
