"""Fine-tuning as a whole: what it learns, what it saves, and what it refuses beforehand."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from folders import contents
from limits import file_size_limit
from refusals import refuses
from samples import prepare
from stop_at import StopAt
from tiny_models import load_for_task, reviews, save_tiny
from torch_threads import another_number

from bertsmith.errors import BertsmithWarning, ConfigError, InputError, Interrupted
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.model.loading import load_model
from bertsmith.tasks.auto import load
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify
from bertsmith.training.best_weights import BestSettings, BestWeights
from bertsmith.training.journal import read_journal
from bertsmith.training.workers.local import LocalWorkers


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder, how = (
        tmp_path_factory.mktemp("finetune"),
        {"learning_rate": 5e-3, "seed": 2, "threads": 1},
    )
    model = save_tiny(folder / "model", "masked_lm")
    return prepare("classify", folder, 80, 30, model=model, steps=40, **how)[1]


@pytest.fixture
def settings(place, tmp_path):
    return replace(place, out=tmp_path / "out")


@pytest.fixture(scope="module")
def whole(place):
    return finetune(Classify, place)


def journal(out):
    return read_journal(out / "journal.jsonl")


def load_for_names(settings, *names):
    return load_for_task(settings, TaskDataset(Classify(names), [], []))


def test_from_scratch_keeps_shape_and_words_but_no_weight(settings):
    given, tokenizer = load_for_names(settings, "neg", "pos")
    fresh, same = load_for_names(replace(settings, from_scratch=True), "neg", "pos")
    assert (fresh.config, same.fingerprint) == (given.config, tokenizer.fingerprint)
    before = given.state_dict()
    for name, weight in fresh.state_dict().items():
        is_constant = "norm" in name or "bias" in name  # ones and zeros in any new model
        assert is_constant or not torch.equal(weight, before[name]), name
    assert torch.equal(fresh.embeddings.norm.weight, torch.ones(fresh.config.hidden_size))


def test_frozen_layers_keep_their_weights_through_a_stop_and_another_machine(
    settings, tmp_path, remember
):
    settings = replace(
        settings, steps=4, freeze_layers=1, layer_decay=0.9, class_weights=("balanced",),
        precision="auto", dropout=0.0,
    )  # fmt: skip
    fp32 = {"bf16_gflops": 0.0, "fp32_medium_error": 0.0}  # predictions in bf16 are not for all
    remember("explicit", **fp32, fp32_medium_gflops=1e9)
    finetune(Classify, settings)
    before, after = load_model(settings.model).state_dict(), load_model(settings.out).state_dict()
    for name in before.keys() & after.keys():
        is_frozen = name.startswith(("embeddings.", "layers.0."))
        assert torch.equal(before[name], after[name]) == is_frozen, name
    stopped = replace(settings, out=tmp_path / "stopped")
    with pytest.raises(Interrupted):
        finetune(Classify, stopped, [StopAt(2)])
    other = replace(stopped, resume=True, class_weights=())
    refusal(other, "--class-weights was [1.21", "is now not set")
    remember("fused", **fp32, fp32_medium_gflops=0.0)
    with another_number():
        finetune(Classify, replace(stopped, resume=True))
    losses = [[entry.get("loss") for entry in journal(s.out)] for s in (settings, stopped)]
    assert losses[0] == losses[1]


def test_a_head_is_kept_only_for_the_same_labels(settings, tmp_path):
    stored = save_tiny(tmp_path / "fine-tuned", "classify", labels=("neg", "pos"))
    settings = replace(settings, model=stored)
    models = [load_for_names(settings, *names)[0] for names in (("neg", "pos"), "01", "abc")]
    kept, fresh, more = (model.heads["classify"].dense.weight for model in models)
    weight = load_model(stored).heads["classify"].dense.weight
    assert torch.equal(kept, weight) and not torch.equal(fresh, weight)
    assert models[1].id2label == {0: "0", 1: "1"}
    assert more.shape == (3, 24)


def test_it_learns_and_saves_the_best_weights(whole):
    scores = {
        entry["step"]: entry["held_out_classify_accuracy"]
        for entry in journal(whole.out)
        if "held_out_loss" in entry
    }
    assert list(scores) == [5, 10, 15, 20, 25, 30, 35, 40]
    assert whole.evaluation.accuracy == scores[whole.best_step] == max(scores.values())
    assert whole.evaluation.accuracy > 0.8  # 0.5 is guessing
    assert (whole.labels, whole.num_overlap) == (("neg", "pos"), 0)
    run = json.loads((whole.out / "run.json").read_text())
    assert run["result"]["evaluation"]["accuracy"] == whole.evaluation.accuracy
    assert "missing" in whole.load_report  # the new head, and the pooler


class Joined(LocalWorkers):
    """Waits for its processes, which may need longer to start than a short run takes."""

    def __enter__(self):
        super().__enter__()
        self.wait()
        return self


def test_two_processes_learn_what_one_does(settings, tmp_path, monkeypatch):
    monkeypatch.setattr("bertsmith.training.trainer.LocalWorkers", Joined)
    alone = replace(settings, steps=3, dropout=0.0)
    together = replace(alone, threads=2, out=tmp_path / "together")
    for each in (alone, together):
        finetune(Classify, each)
    assert json.loads((together.out / "run.json").read_text())["processes"] == 2
    # A step of two parts is summed in another order.
    found, expected = (load_model(each.out).state_dict() for each in (together, alone))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_stopped_run_is_continued_as_if_it_never_stopped(settings, whole):
    with refuses(Interrupted, "out: ", "step 33,", "step-00000033", "typed --resume"):
        finetune(Classify, settings, [StopAt(33)], "typed --resume")
    refusal(settings, "out: ", "--resume", "--overwrite", "--out")
    resumed = replace(settings, resume=True)
    other = save_tiny(settings.out.parent / "other", "masked_lm", "next_sentence")
    for changes, *parts in (({"learning_rate": 0.1}, "--learning-rate was 0.005, is now 0.1"),
                            ({"model": other}, "out: ", "--model")):  # fmt: skip
        refusal(replace(resumed, **changes), *parts)
    content = settings.train.read_text()
    settings.train.write_text(content.replace("film", "story", 1))
    assert "--eval" not in refusal(resumed, "out: ", "--train")
    settings.train.write_text(content)
    continued = finetune(Classify, resumed)
    assert (continued.best_step, continued.evaluation) == (whole.best_step, whole.evaluation)
    first, second = (load_model(out).state_dict() for out in (whole.out, settings.out))
    assert all(torch.equal(first[name], second[name]) for name in first)
    losses = [[entry.get("loss") for entry in journal(out)] for out in (settings.out, whole.out)]
    assert losses[0] == losses[1]
    assert not (settings.out / "checkpoints").exists()
    assert "--resume" not in refusal(resumed, "out: ", "--out", "--overwrite")


def test_another_number_of_threads_may_go_on(settings, tmp_path):
    """Also where an earlier version noted the parts of a step among what must be the same."""
    plain = replace(settings, steps=20, dropout=0.0)
    whole = finetune(Classify, replace(plain, out=tmp_path / "undisturbed"))
    with refuses(Interrupted, "step 7,", worded=False):
        finetune(Classify, plain, [StopAt(7)], "typed --resume")
    path = settings.out / "run.json"
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, "config": {**run["config"], "num_parts": 1}}))
    with pytest.warns(BertsmithWarning) as caught:
        finetune(Classify, replace(plain, resume=True, threads=2))
    assert "began with 1 part of each step" in str(caught[0].message)
    found, expected = (load_model(out).state_dict() for out in (settings.out, whole.out))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_patience_ends_a_run_early_and_macro_f1_may_decide(settings):
    still = replace(settings, learning_rate=1e-30, patience=2)  # no weight moves
    result = finetune(Classify, replace(still, metric="macro_f1"))
    assert (result.training.steps, result.best_step) == (15, 5)
    scores = [entry.get("held_out_classify_macro_f1", 0) for entry in journal(settings.out)]
    assert result.evaluation.macro_f1 == max(scores)


@pytest.mark.parametrize(("from_start", "step"), [(False, 3), (True, 0)])
def test_of_equal_scores_the_lower_loss_is_best_and_the_start_only_if_asked_for(from_start, step):
    best = BestWeights(BestSettings("score", from_start=from_start))
    for at, (score, loss) in enumerate([(0.9, 1.0), (0.5, 1.0), (0.7, 2.0), (0.7, 1.5)]):
        best.consider({"step": at, "score": score, "held_out_loss": loss})
    assert best.step == step


def test_what_was_read_is_counted(settings):
    result = finetune(Classify, replace(settings, steps=1, limit=31, sample=16))
    assert result.num_train == 16
    one = replace(settings, steps=1, eval=settings.train, max_length=7, overwrite=True)
    result = finetune(Classify, one)
    assert result.num_overlap == 80
    assert "80 of the eval texts" in str(result)
    long = sum(len(e.text.split()) > 5 for e in reviews(80))
    assert (result.num_train_windowed, result.num_train_truncated) == (long, 0)
    assert load(settings.out).loaded.max_length == 7  # as it was trained


def refusal(settings, *parts, kind=ConfigError):
    with refuses(kind, *parts) as caught:
        finetune(Classify, settings)
    return str(caught.value)


def test_nothing_is_written_over_unasked(settings):
    settings.out.mkdir()
    (settings.out / "notes.txt").write_text("mine")
    refusal(settings, "out: ", "--out", "--overwrite")
    inside = replace(settings, out=settings.model.parent, overwrite=True)
    refusal(inside, f"{inside.out}: ", f"--model {settings.model}", "--out")
    finetune(Classify, replace(settings, steps=1, overwrite=True))
    assert (settings.out / "notes.txt").read_text() == "mine"


def test_bad_input_leaves_an_earlier_model_as_it_was(settings, tmp_path):
    earlier = save_tiny(settings.out, "classify", labels=("a", "b"))
    before, table = contents(earlier), tmp_path / "table.csv"
    for text, *parts in (("so,neutral\n", "table.csv:2: ", "'neutral'", "'neg', 'pos'"),
                         ("good,pos\nbad,\n", "table.csv:3: ", "'label'")):  # fmt: skip
        table.write_text(f"text,label\n{text}")
        asked = replace(settings, eval=table, overwrite=True)
        refusal(asked, *parts, kind=InputError)
    refusal(replace(settings, max_length=99, overwrite=True), "max_length: found 99", "4 to 37")
    assert before == contents(earlier)


FULL_AT = {
    "model.safetensors": ["continue it, with: the same call"],
    "README.md": ["continue it, with: the same call"],
    "run.json": ["Nothing was changed"],
}


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("kind", ["one run", "a series"])
@pytest.mark.parametrize("name", FULL_AT)
def test_a_disk_that_is_full_in_a_run_says_how_it_goes_on(settings, monkeypatch, name, kind):
    settings = replace(settings, steps=4, seeds=None if kind == "one run" else 2)
    run = finetune if kind == "one run" else finetune_repeatedly
    fsync = os.fsync

    def full(file):
        if f"/.{name}." in str(Path(f"/proc/self/fd/{file}").readlink()):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with refuses(InputError, f"{name}: the disk is full. ", *FULL_AT[name]) as caught:
            run(Classify, settings)
    is_begun = name != "run.json"
    assert (f"The run so far is in {settings.out}" in str(caught.value)) == is_begun
    assert ("Nothing was changed" in str(caught.value)) != is_begun
    again = run(Classify, replace(settings, resume=is_begun))
    fresh = run(Classify, replace(settings, out=settings.out.with_name("fresh")))
    first, second = (load_model(result.out).state_dict() for result in (again, fresh))
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())


def test_a_disk_that_is_full_in_a_new_run_keeps_the_earlier_one(settings, monkeypatch):
    settings = replace(settings, steps=2)
    finetune(Classify, settings)
    before = (settings.out / "model.safetensors").read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with refuses(InputError, "run.json: the disk is full. ", "out/earlier-run. Free"):
            finetune(Classify, replace(settings, overwrite=True))
    assert (settings.out / "earlier-run" / "model.safetensors").read_bytes() == before
    finetune(Classify, settings)


def test_a_run_that_was_saved_names_its_last_checkpoint(settings):
    settings = replace(settings, steps=4)
    with pytest.raises(Interrupted):
        finetune(Classify, settings, [StopAt(2)])
    with (
        refuses(InputError, "File too large", "from step-00000002, ", "Solve that"),
        file_size_limit(20_000),
    ):
        finetune(Classify, replace(settings, resume=True))
