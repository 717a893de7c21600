"""Distillation as a whole: what a student learns, what it leaves behind, and what is refused."""

import json
import os
import signal
from dataclasses import replace

import pytest
import torch
import transformers
from samples import SAMPLES
from tiny_models import save_tiny, tiny_tokenizer, write_reviews

from bertsmith.distillation.run import DistillSettings, distill
from bertsmith.errors import BertsmithError, CheckpointError, ConfigError, Interrupted
from bertsmith.evaluation import side_by_side as before_after
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.tasks.auto import load
from bertsmith.tasks.catalog import task_named, task_of_folder
from bertsmith.tasks.text_classification import Classify, ClassifySettings
from bertsmith.tokenization.wordpiece import WordPieceTokenizer


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Models are timed for as short as can be."""
    monkeypatch.setattr(before_after, "TIMED_SECONDS", 0.01)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A teacher of four layers that sorts reviews, and two tables."""
    folder = tmp_path_factory.mktemp("distill")
    save_tiny(folder / "start", num_hidden_layers=4, initializer_range=0.1)
    write_reviews(folder / "train.csv", 80)
    write_reviews(folder / "eval.csv", 30, seed=1)
    finetune(Classify, settings_in(folder, folder / "teacher"))
    return folder


def settings_in(folder, out, **changes):
    known = {"steps": 80, "learning_rate": 5e-3, "dropout": 0.0}
    known |= {"device": "cpu", "precision": "fp32", "threads": 1}
    return ClassifySettings(
        model=folder / "start", train=folder / "train.csv", eval=folder / "eval.csv", out=out,
        **{**known, **changes},
    )  # fmt: skip


@pytest.fixture
def settings(place, tmp_path):
    return settings_in(place, tmp_path / "out")


@pytest.fixture
def student(place):
    return DistillSettings(teacher=place / "teacher", hidden_weight=1.0)


def journal(out):
    return [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]


def test_a_student_of_half_the_layers_learns_what_its_teacher_knows(settings, student, place):
    result = distill(student, Classify, settings)
    assert result.made_of == f"layers 0, 3 of the 4 of {place / 'teacher'}"
    scores = result.student.evaluation
    assert scores.accuracy > 0.8
    assert evaluate(load(settings.out, device="cpu", precision="fp32"), settings.eval) == scores
    teacher, model = load_model(place / "teacher"), load_model(settings.out)
    assert model.config == replace(teacher.config, num_hidden_layers=2)
    sides = result.comparison
    assert sides.after.scores["accuracy"] == pytest.approx(scores.accuracy)
    assert sides.after.parameters["encoder"] * 2 == sides.before.parameters["encoder"]
    assert "teacher (before) and student (after)" in str(result)


def test_the_run_names_its_teacher_and_the_journal_its_terms(settings, student, place):
    result = distill(student, Classify, replace(settings, steps=3))
    run = json.loads((settings.out / "run.json").read_text())
    told = run["distillation"]
    assert told["teacher"] == str(place / "teacher")
    assert told["teacher_sha256"] == run["config"]["teaching"]["teacher"]
    assert (told["soft_temperature"], told["hidden_weight"]) == (2.0, 1.0)
    assert run["result"] == json.loads(json.dumps(result.to_json()))
    first = next(entry for entry in journal(settings.out) if "loss" in entry)
    parts = 0.5 * first["classify_loss"] + 0.5 * first["soft_loss"] + first["hidden_loss"]
    assert first["loss"] == pytest.approx(parts)
    assert {"classify_accuracy", "soft_accuracy", "hidden_accuracy"} <= first.keys()


def test_it_starts_as_the_teachers_own_layers(settings, student, place):
    result = distill(student, Classify, replace(settings, steps=1, learning_rate=1e-30))
    before, after = load_model(place / "teacher"), load_model(settings.out)
    for mine, theirs in ((0, 0), (1, 3)):
        for name, weight in after.layers[mine].named_parameters():
            assert torch.equal(weight, before.layers[theirs].get_parameter(name)), name
    assert torch.equal(after.heads["classify"].dense.weight, before.heads["classify"].dense.weight)
    assert result.student.labels == ("neg", "pos")


class StopAt:
    """Asks the run to stop when a step is written, as Ctrl-C does."""

    def __init__(self, step):
        self.step = step

    def begin(self, computing):
        pass

    def write(self, entry, status):
        if entry["step"] == self.step:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("is_cached", [False, True])
def test_a_stopped_run_is_continued_as_if_it_never_stopped(
    settings, student, place, tmp_path, is_cached
):
    settings = replace(settings, steps=12, threads=2)
    student = replace(student, unlabelled=place / "eval.csv")
    if is_cached:
        student = replace(student, cache=tmp_path / "cache")
    whole = distill(student, Classify, settings)
    assert whole.num_unlabelled == 30
    stopped = replace(settings, out=tmp_path / "stopped")
    with pytest.raises(Interrupted):
        distill(student, Classify, stopped, [StopAt(7)])
    resumed = replace(stopped, resume=True)
    with pytest.raises(ConfigError, match=r"teaching\.soft_temperature was 2\.0, is now 3\.0"):
        distill(replace(student, soft_temperature=3.0), Classify, resumed)
    distill(student, Classify, resumed)
    first, second = (load_model(path).state_dict() for path in (settings.out, stopped.out))
    assert all(torch.equal(first[name], second[name]) for name in first)
    losses = [[entry.get("loss") for entry in journal(r.out)] for r in (settings, stopped)]
    assert losses[0] == losses[1]


def test_texts_without_labels_teach(settings, student, place, tmp_path):
    few = replace(settings, limit=4, steps=120)
    student = replace(student, unlabelled=place / "train.csv")
    result = distill(student, Classify, few)
    assert result.num_unlabelled == 80
    assert result.student.num_train == 4
    assert result.student.evaluation.accuracy > 0.8
    assert "80 texts without labels, with the teacher's outputs as targets" in str(result)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"classify"}))
def test_every_task_has_students(name, tmp_path):
    sample = SAMPLES[name]
    files = {}
    for seed, (kind, count) in enumerate({"train": 24, "eval": 9}.items()):
        (tmp_path / kind).mkdir()
        files[kind] = sample.write(tmp_path / kind / sample.file, count, seed)
    task = task_named(name.split()[0])
    settings = task.settings(
        model=save_tiny(tmp_path / "start"), out=tmp_path / "teacher", device="cpu",
        precision="fp32", threads=1, steps=2, **files, **sample.settings,
    )  # fmt: skip
    finetune(task, settings)
    out = tmp_path / "out"
    student = DistillSettings(teacher=tmp_path / "teacher", unlabelled=files["eval"])
    result = distill(student, task, replace(settings, out=out))
    assert (
        result.comparison.after.parameters["total"] < result.comparison.before.parameters["total"]
    )
    assert task_of_folder(read_folder(out)) is task
    assert load_model(out).config.num_hidden_layers == 1
    getattr(transformers, sample.transformers).from_pretrained(out)


def refusal(settings, student, kind):
    with pytest.raises(kind) as caught:
        distill(student, Classify, settings)
    assert not settings.out.exists()
    return str(caught.value)


def test_another_vocabulary(settings, student, tmp_path):
    folder = save_tiny(tmp_path / "other", vocab_size=tiny_tokenizer().vocab_size)
    vocab = list(tiny_tokenizer().vocab)
    vocab[7] = "splendid"
    WordPieceTokenizer(vocab, model_max_length=37).save(folder)
    message = refusal(settings, replace(student, student=folder), CheckpointError)
    assert "its vocabulary is not that of the teacher" in message
    assert "piece 7 is 'splendid' and 'lovely'" in message
    WordPieceTokenizer(tiny_tokenizer().vocab, lowercase=False, model_max_length=37).save(folder)
    message = refusal(settings, replace(student, student=folder), CheckpointError)
    assert "lowercase is False and True" in message
    WordPieceTokenizer(vocab[:-1], model_max_length=37).save(folder)
    message = refusal(settings, replace(student, student=folder), CheckpointError)
    assert f"{len(vocab) - 1} and {len(vocab)} pieces" in message


def test_another_student_of_another_width(settings, student, tmp_path):
    narrow = save_tiny(tmp_path / "narrow", hidden_size=12, num_hidden_layers=1)
    student = replace(student, student=narrow)
    message = refusal(settings, student, ConfigError)
    assert "vectors of 12 numbers cannot be compared with the teacher's of 24" in message
    result = distill(replace(student, hidden_weight=0.0), Classify, replace(settings, steps=2))
    assert load_model(settings.out).config.hidden_size == 12
    assert str(narrow) in result.made_of
    assert "hidden_loss" not in journal(settings.out)[-2]


def test_a_teacher_of_another_task(settings, student, tmp_path):
    bare = replace(student, teacher=save_tiny(tmp_path / "bare"))
    assert (
        "was not fine-tuned; a teacher here is one that 'bertsmith finetune classify'"
        in refusal(settings, bare, CheckpointError)
    )
    tagger = save_tiny(tmp_path / "tagger", "tag", labels=("a", "b"))
    message = refusal(settings, replace(student, teacher=tagger), CheckpointError)
    assert "was fine-tuned to 'tag' with the head 'tag'" in message
    several = save_tiny(tmp_path / "several", "multi_label", labels=("neg", "pos"))
    message = refusal(settings, replace(student, teacher=several), CheckpointError)
    assert "was fine-tuned to 'classify' with the head 'multi_label'" in message


def test_labels_that_the_teacher_does_not_know(settings, student, tmp_path):
    table = tmp_path / "train.csv"
    table.write_text("text,label\ngood,pos\nbad,neg\nfilm,so\n")
    message = refusal(replace(settings, train=table), student, ConfigError)
    assert "teacher: the teacher does not know the label 'so' of the examples" in message
    assert "it knows 'neg', 'pos'" in message


def test_labels_in_another_order(settings, student, place, tmp_path):
    model = load_model(place / "teacher")
    head = model.heads["classify"].dense
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(weight.flip(0))
    model.id2label = {0: "pos", 1: "neg"}
    save_model(model, tmp_path / "turned", tiny_tokenizer())
    turned = replace(student, teacher=tmp_path / "turned")
    result = distill(turned, Classify, settings)
    assert result.student.labels == ("pos", "neg")
    assert result.student.evaluation.accuracy > 0.8


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"num_layers": 5}, "has 4 layers. Give 1 to 4"),
        ({"num_layers": 0}, "--num-layers: found 0"),
        ({"teacher": DistillSettings().teacher}, "--teacher: not given"),
    ],
)
def test_layers_and_teachers_that_there_are_not(settings, student, changes, words):
    assert words in refusal(settings, replace(student, **changes), BertsmithError)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"soft_weight": 1.5}, "--soft-weight: found 1.5; allowed is 0 to 1"),
        ({"soft_temperature": 0.0}, "--soft-temperature: found 0.0; allowed is above 0"),
        ({"hidden_weight": -1.0}, "--hidden-weight: found -1.0"),
        ({"num_layers": 2, "student": "x"}, "--num-layers and --student exclude"),
    ],
)
def test_settings_that_nothing_can_be_learnt_by(changes, words):
    with pytest.raises(ConfigError, match=words):
        DistillSettings(**changes)


def test_the_teacher_is_not_written_over(settings, student, place):
    inside = replace(settings, out=place / "teacher", overwrite=True)
    start = replace(student, student=place / "start")
    for who in (student, start):
        with pytest.raises(ConfigError, match="holds --teacher"):
            distill(who, Classify, inside)
    with pytest.raises(ConfigError, match="holds --student"):
        distill(start, Classify, replace(inside, out=place / "start"))


def test_a_cache_of_another_teacher(settings, student, place, tmp_path):
    student = replace(student, cache=tmp_path / "cache")
    distill(student, Classify, replace(settings, steps=1))
    other = replace(settings, out=tmp_path / "second")
    model = load_model(place / "teacher")
    with torch.no_grad():
        model.heads["classify"].dense.bias.add_(0.5)
    save_model(model, tmp_path / "other", tiny_tokenizer())
    message = refusal(other, replace(student, teacher=tmp_path / "other"), ConfigError)
    assert "a cache that was made of another teacher. Choose another --cache" in message
    assert "for other texts" in refusal(replace(other, limit=50), student, ConfigError)
