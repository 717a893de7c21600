"""Fine-tuning as a whole: what it learns, what it saves, and what it refuses beforehand."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from stop_at import StopAt
from tiny_models import load_for_task, reviews, save_tiny, save_tiny_of, write_reviews
from tiny_tokenizers import TINY

from bertsmith.errors import BertsmithError, CheckpointError, ConfigError, InputError, Interrupted
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.model.loading import load_model
from bertsmith.tasks.auto import load
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify, ClassifySettings


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a pre-trained model and two tables."""
    folder = tmp_path_factory.mktemp("finetune")
    save_tiny(folder / "model", "masked_lm")
    write_reviews(folder / "train.csv", 80)
    write_reviews(folder / "eval.csv", 30, seed=1)
    return folder


@pytest.fixture
def settings(place, tmp_path):
    return ClassifySettings(
        model=place / "model",
        train=place / "train.csv",
        eval=place / "eval.csv",
        out=tmp_path / "out",
        steps=40,
        learning_rate=5e-3,
        device="cpu",
        precision="fp32",
    )


def journal(settings):
    lines = (settings.out / "journal.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def load_for_names(settings, names):
    return load_for_task(settings, TaskDataset(Classify(names), [], []))


def test_a_run_goes_on_as_it_was_chosen_to_compute(settings, tmp_path, remember):
    settings = replace(settings, precision="auto", dropout=0.0, steps=8)
    fp32 = {"bf16_gflops": 0.0, "fp32_medium_error": 0.0}  # predictions in bf16 are not for all
    remember("explicit", **fp32, fp32_medium_gflops=1e9)
    whole = finetune(Classify, settings)
    stopped = replace(settings, out=tmp_path / "stopped")
    with pytest.raises(Interrupted):
        finetune(Classify, stopped, [StopAt(3)])
    remember("fused", **fp32, fp32_medium_gflops=0.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)  # as on another machine
    try:
        continued = finetune(Classify, replace(stopped, resume=True))
    finally:
        torch.set_num_threads(threads)
    assert untimed(journal(stopped)) == untimed(journal(settings))
    assert continued.evaluation == whole.evaluation


def untimed(entries):
    times = ("elapsed_seconds", "tokens_per_second")
    return [{k: v for k, v in entry.items() if k not in times} for entry in entries]


def test_from_scratch_keeps_shape_and_words_but_no_weight(settings):
    given, tokenizer = load_for_names(settings, ("neg", "pos"))
    fresh, same_tokenizer = load_for_names(replace(settings, from_scratch=True), ("neg", "pos"))
    assert fresh.config == given.config
    assert same_tokenizer.fingerprint == tokenizer.fingerprint
    before = given.state_dict()
    for name, weight in fresh.state_dict().items():
        is_constant = "norm" in name or "bias" in name  # ones and zeros in any new model
        assert is_constant or not torch.equal(weight, before[name]), name
    assert torch.equal(fresh.embeddings.norm.weight, torch.ones(fresh.config.hidden_size))


def test_it_learns_and_saves_the_best_weights(settings):
    result = finetune(Classify, settings)
    scores = {
        entry["step"]: entry["held_out_classify_accuracy"]
        for entry in journal(settings)
        if "held_out_loss" in entry
    }
    assert list(scores) == [5, 10, 15, 20, 25, 30, 35, 40]
    assert result.evaluation.accuracy == scores[result.best_step] == max(scores.values())
    assert result.evaluation.accuracy > 0.8  # 0.5 is guessing
    assert result.labels == ("neg", "pos")
    assert result.num_overlap == 0
    classifier = load(settings.out, device="cpu", precision="fp32")
    assert evaluate(classifier, settings.eval) == result.evaluation
    held_out = reviews(30, seed=1)
    predicted = classifier([example.text for example in held_out])
    right = [row.label == example.label for row, example in zip(predicted, held_out, strict=True)]
    assert np.mean(right) == result.evaluation.accuracy
    run = json.loads((settings.out / "run.json").read_text())
    assert run["result"]["evaluation"]["accuracy"] == result.evaluation.accuracy
    assert "missing" in result.load_report  # the new head, and the pooler
    assert f"best after step {result.best_step}" in str(result)


@pytest.mark.parametrize("step", [3, 12, 33])
def test_a_stopped_run_is_continued_as_if_it_never_stopped(settings, tmp_path, step):
    whole = finetune(Classify, settings)
    stopped = replace(settings, out=tmp_path / "stopped")
    with pytest.raises(Interrupted, match=rf"stopped after step {step}, saved.*typed --resume"):
        finetune(Classify, stopped, [StopAt(step)], "typed --resume")
    assert "Pass --resume to continue" in refusal(stopped, ConfigError)
    assert "learning_rate was 0.005, is now 0.1" in refusal(
        replace(stopped, resume=True, learning_rate=0.1), ConfigError
    )
    content = stopped.train.read_text()
    stopped.train.write_text(content.replace("film", "story", 1))
    message = refusal(replace(stopped, resume=True), ConfigError)
    assert "the examples of --train are not those that it began with" in message
    assert "--eval" not in message
    stopped.train.write_text(content)
    other = replace(stopped, resume=True, metric="macro_f1")
    assert "best.figure was" in refusal(other, ConfigError)
    continued = finetune(Classify, replace(stopped, resume=True))
    assert continued.best_step == whole.best_step
    assert continued.evaluation == whole.evaluation
    first, second = (load_model(path).state_dict() for path in (settings.out, stopped.out))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert [entry.get("loss") for entry in journal(settings)] == [
        entry.get("loss") for entry in journal(stopped)
    ]
    assert not (stopped.out / "checkpoints").exists()
    assert "complete" in refusal(replace(stopped, resume=True), ConfigError)


def test_a_step_that_would_be_divided_otherwise_is_another_run(settings):
    settings = replace(settings, threads=1)
    with pytest.raises(Interrupted):
        finetune(Classify, settings, [StopAt(3)])
    message = refusal(replace(settings, resume=True, threads=2), ConfigError)
    assert "num_parts was 1, is now 2" in message
    assert "Give --threads 1, as it began" in message
    other = replace(settings, resume=True, threads=2, batch_size=8)
    assert "batch_size was 16, is now 8" in refusal(other, ConfigError)
    finetune(Classify, replace(settings, resume=True))


def test_a_run_stopped_before_its_scores_is_scored_and_not_trained_again(settings):
    expected = finetune(Classify, settings)
    path, weights = settings.out / "run.json", settings.out / "model.safetensors"
    run = json.loads(path.read_text())
    written, entries = weights.stat().st_mtime_ns, journal(settings)
    path.write_text(json.dumps({k: v for k, v in run.items() if k != "result"}))
    other = replace(settings, resume=True, learning_rate=0.1)
    assert "learning_rate was 0.005, is now 0.1" in refusal(other, ConfigError)
    again = finetune(Classify, replace(settings, resume=True))
    assert again.to_json() == expected.to_json()
    assert json.loads(path.read_text()) == run
    assert (weights.stat().st_mtime_ns, journal(settings)) == (written, entries)
    assert "complete" in refusal(replace(settings, resume=True), ConfigError)


def test_patience_ends_a_run_early(settings):
    settings = replace(settings, learning_rate=1e-30, patience=2)  # no weight moves
    result = finetune(Classify, settings)
    assert result.training.steps == 15
    assert result.best_step == 5


def test_the_same_seed_gives_the_same_weights(settings, tmp_path):
    settings = replace(settings, steps=3)
    finetune(Classify, settings)
    again = replace(settings, out=tmp_path / "again")
    finetune(Classify, again)
    first, second = (load_model(path).state_dict() for path in (settings.out, again.out))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_macro_f1_may_decide(settings):
    result = finetune(Classify, replace(settings, metric="macro_f1", steps=10))
    best = max(
        entry["held_out_classify_macro_f1"]
        for entry in journal(settings)
        if "held_out_loss" in entry
    )
    assert result.evaluation.macro_f1 == best


def test_frozen_layers_keep_their_weights_through_a_stop(settings, tmp_path):
    settings = replace(settings, steps=4, freeze_layers=1, layer_decay=0.9)
    settings = replace(settings, class_weights=("balanced",))
    result = finetune(Classify, settings)
    before, after = load_model(settings.model).state_dict(), load_model(settings.out).state_dict()
    for name in before.keys() & after.keys():
        is_frozen = name.startswith(("embeddings.", "layers.0."))
        assert torch.equal(before[name], after[name]) == is_frozen, name
    stopped = replace(settings, out=tmp_path / "stopped")
    with pytest.raises(Interrupted):
        finetune(Classify, stopped, [StopAt(2)])
    other = replace(stopped, resume=True, class_weights=())
    assert "task_settings.loss.weights was" in refusal(other, ConfigError)
    continued = finetune(Classify, replace(stopped, resume=True))
    assert continued.evaluation == result.evaluation
    assert "has 2 layers" in refusal(
        replace(settings, freeze_layers=3, out=tmp_path / "x"), ConfigError
    )


def test_limit_and_sample_take_less(settings):
    result = finetune(Classify, replace(settings, steps=1, limit=31, sample=16))
    assert result.num_train == 16


def test_held_out_texts_among_the_training_texts_are_counted(settings):
    result = finetune(Classify, replace(settings, steps=1, eval=settings.train))
    assert result.num_overlap == 80
    assert "80 of the held-out texts" in str(result)


def test_max_length_is_saved_with_the_model(settings):
    result = finetune(Classify, replace(settings, steps=1, max_length=7))
    long = sum(len(e.text.split()) > 5 for e in reviews(80))
    assert (result.num_train_windowed, result.num_train_truncated) == (long, 0)
    assert f"{long} training texts were longer" in str(result)
    assert load(settings.out).loaded.max_length == 7


def test_a_head_is_kept_only_for_the_same_labels(settings, tmp_path):
    stored = save_tiny(tmp_path / "fine-tuned", "classify", labels=("neg", "pos"))
    settings = replace(settings, model=stored)
    weight = load_model(stored).heads["classify"].dense.weight
    kept, _ = load_for_names(settings, ("neg", "pos"))
    assert torch.equal(kept.heads["classify"].dense.weight, weight)
    fresh, _ = load_for_names(settings, ("0", "1"))
    assert not torch.equal(fresh.heads["classify"].dense.weight, weight)
    assert fresh.id2label == {0: "0", 1: "1"}
    more, _ = load_for_names(settings, ("a", "b", "c"))
    assert more.heads["classify"].dense.weight.shape == (3, 24)
    assert fresh.heads["classify"].dense.weight.detach().std().item() == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize(
    "given, examples, steps",
    [({}, 2_000, 500), ({}, 200, 100), ({"epochs": 2}, 200, 26), ({"steps": 7}, 200, 7)],
)
def test_the_length_of_a_run(settings, given, examples, steps):
    settings = replace(settings, **{"steps": None, **given})
    assert settings.num_steps(steps_per_epoch=-(-examples // 16)) == steps


def refusal(settings, kind):
    with pytest.raises(kind) as caught:
        finetune(Classify, settings)
    return str(caught.value)


def test_special_tokens_that_the_files_lack_need_rows_too(settings, tmp_path):
    learned = TINY["byte-bpe"]()
    folder = save_tiny_of(tmp_path / "m", "roberta", vocab_size=learned.vocab_size - 1)
    for file in folder.glob("*token*"):
        file.unlink()
    (folder / "vocab.txt").unlink(missing_ok=True)
    learned.save(folder)
    (folder / "tokenizer.json").unlink(missing_ok=True)
    words = refusal(replace(settings, model=folder), CheckpointError)
    assert "tokens, the embedding" in words and str(folder) in words


def test_nothing_is_written_over_unasked(settings):
    settings.out.mkdir()
    (settings.out / "notes.txt").write_text("mine")
    assert "not empty" in refusal(settings, ConfigError)
    assert "holds --model" in refusal(replace(settings, out=settings.model), ConfigError)
    around = replace(settings, out=settings.model.parent, overwrite=True)
    assert "holds --model" in refusal(around, ConfigError)
    assert "a file, not a folder" in refusal(replace(settings, out=settings.train), ConfigError)
    finetune(Classify, replace(settings, steps=1, overwrite=True))
    assert (settings.out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "train, held_out, changes, parts",
    [
        ("text,label\ngood,pos\nbad,neg\n", "text,label\nso,neutral\n", {}, ["eval.csv:2", "'neu"]),
        (
            "text,label\ngood,pos\nfine,pos\n",
            "text,label\na,pos\n",
            {},
            ["train.csv", "only label"],
        ),
        ("text,label\ngood,pos\nbad,\n", "text,label\na,pos\n", {}, ["train.csv:3", "'label'"]),
        ("text,label\n", "text,label\na,pos\n", {}, ["train.csv", "no complete rows"]),
        ("text,label\ngood,pos\nbad,neg\n", "", {}, ["eval.csv", "nothing in it"]),
        ("text,label\ngood,1\nbad,0\n", "text,label\na,1\n", {"max_length": 99}, ["4 to 37"]),
        ("text,label\ngood,1\nbad,0\n", "text,label\na,1\n", {"device": "tpu"}, ["'tpu'"]),
    ],
)
def test_bad_input_leaves_an_earlier_model_as_it_was(
    settings, tmp_path, train, held_out, changes, parts
):
    earlier = save_tiny(settings.out, "classify", labels=("a", "b"))
    before = {path.name: path.read_bytes() for path in earlier.iterdir()}
    (tmp_path / "train.csv").write_text(train)
    (tmp_path / "eval.csv").write_text(held_out)
    message = refusal(
        replace(
            settings,
            train=tmp_path / "train.csv",
            eval=tmp_path / "eval.csv",
            overwrite=True,
            **changes,
        ),
        BertsmithError,
    )
    for part in parts:
        assert part in message
    assert before == {path.name: path.read_bytes() for path in earlier.iterdir()}


def test_a_model_folder_that_is_none(settings, tmp_path):
    assert "nowhere" in refusal(replace(settings, model=tmp_path / "nowhere"), CheckpointError)


def test_settings_that_exclude_each_other(settings):
    with pytest.raises(ConfigError, match="--epochs and --steps"):
        replace(settings, epochs=2)
    for name, value in (("batch_size", 0), ("learning_rate", float("nan")), ("seed", -1)):
        flag = "--" + name.replace("_", "-")
        with pytest.raises(ConfigError, match=f"{flag}: found {value}"):
            replace(settings, **{name: value})


def test_missing_files(settings, tmp_path):
    assert "no such file" in refusal(replace(settings, eval=tmp_path / "no.csv"), InputError)


def test_narrow_models_learn_faster(settings):
    settings = replace(settings, learning_rate=None)
    np.testing.assert_allclose([settings.rate(768), settings.rate(384)], [5e-5, 1e-4])
