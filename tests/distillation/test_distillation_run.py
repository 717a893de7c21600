"""Distillation as a whole: what a student learns, what it leaves behind, and what is refused."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from refusals import refuses
from samples import SAMPLES, prepare
from stop_at import StopAt
from tiny_models import GOOD, load_for_task, save_tiny, tiny_tokenizer, write_csv, write_reviews
from tiny_tokenizers import tiny_byte_bpe

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts
from bertsmith.distillation.run import distill, token_similarity
from bertsmith.distillation.settings import DistillSettings
from bertsmith.distillation.student import shorten
from bertsmith.distillation.teacher import fingerprint
from bertsmith.errors import CheckpointError, ConfigError, InputError, Interrupted, as_flags
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.model.bert import BertModel
from bertsmith.model.families import build_heads
from bertsmith.model.families.static_vectors import StaticConfig
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.tasks.auto import load
from bertsmith.tasks.catalog import task_of_folder
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.journal import read_journal


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A teacher of four layers that sorts reviews, and two tables."""
    folder = tmp_path_factory.mktemp("distill")
    save_tiny(folder / "start", num_hidden_layers=4, initializer_range=0.1)
    write_reviews(folder / "train.csv", 80)
    write_reviews(folder / "eval.csv", 30, seed=1)
    finetune(Classify, settings_in(folder, folder / "teacher"))
    return folder


def settings_in(folder, out):
    return ClassifySettings(
        model=folder / "start", train=folder / "train.csv", eval=folder / "eval.csv", out=out,
        steps=40, learning_rate=5e-3, dropout=0.0, device="cpu", precision="fp32", threads=1,
    )  # fmt: skip


@pytest.fixture
def settings(place, tmp_path):
    return replace(settings_in(place, tmp_path / "out"), model=place / "teacher")


@pytest.fixture
def student(place):
    return DistillSettings(teacher=place / "teacher", hidden_weight=1.0)


def journal(out):
    return read_journal(out / "journal.jsonl")


def test_a_student_of_one_layer_is_described_as_such(place):
    settings = DistillSettings(teacher=place / "teacher", num_layers=1)
    _, made_of = shorten(settings, load_model(place / "teacher"))
    assert made_of == f"layer 0 of the 4 of {place / 'teacher'}"


def test_a_student_of_half_the_layers_learns_what_its_teacher_knows(settings, student, place):
    result = distill(student, Classify, settings)
    assert result.made_of == f"layers 0, 3 of the 4 of {place / 'teacher'}"
    scores, sides = result.student.evaluation, result.comparison
    assert scores.accuracy > 0.8
    assert evaluate(load(settings.out, device="cpu", precision="fp32"), settings.eval) == scores
    teacher, model = load_model(place / "teacher"), load_model(settings.out)
    assert model.config == replace(teacher.config, num_hidden_layers=2)
    assert sides.after.scores["accuracy"] == pytest.approx(scores.accuracy)
    assert sides.after.parameters["encoder"] * 2 == sides.before.parameters["encoder"]
    assert "teacher (before) and student (after)" in str(result)


def test_a_stopped_run_is_continued_as_if_it_never_stopped(settings, student, place, tmp_path):
    settings = replace(settings, steps=6)
    student = replace(student, unlabelled=place / "eval.csv", cache=tmp_path / "cache")
    result = distill(student, Classify, settings)
    assert result.num_unlabelled == 30
    assert "30 of 30 unlabelled texts are also eval texts" in str(result)
    stopped = replace(settings, out=tmp_path / "stopped")
    with refuses(Interrupted, f"{stopped.out}: ", "step-00000004"):
        distill(student, Classify, stopped, [StopAt(4)])
    resumed = replace(stopped, resume=True)
    with refuses(ConfigError, "--soft-temperature was 2.0, is now 3.0"):
        distill(replace(student, soft_temperature=3.0), Classify, resumed)
    distill(student, Classify, resumed)
    first, second = (load_model(path).state_dict() for path in (settings.out, stopped.out))
    assert all(torch.equal(first[name], second[name]) for name in first)
    losses = [[entry.get("loss") for entry in journal(r.out)] for r in (settings, stopped)]
    assert losses[0] == losses[1]


def test_texts_without_labels_teach(settings, student, place, tmp_path):
    few = replace(settings, limit=4, steps=60)
    result = distill(replace(student, unlabelled=place / "train.csv"), Classify, few)
    assert (result.num_unlabelled, result.student.num_train) == (80, 4)
    assert result.student.evaluation.accuracy > 0.8
    assert "80 texts without labels, with the teacher's outputs as targets" in str(result)
    assert "language" not in str(result)
    foreign = write_csv(tmp_path / "foreign.csv", ("text",), *[[" ".join(GOOD * 9)]] * 30)
    student = replace(student, unlabelled=foreign)
    told = str(distill(student, Classify, replace(settings, steps=1, overwrite=True)))
    assert "check that they are in the language of --train" in as_flags(told)


@pytest.mark.same_on_all_computers
def test_spaces_of_gpt_2_are_no_letters_and_parts_of_characters_are():
    """In its tokens a space is `Ġ`, a letter, and half a Chinese character is `æ` or the like."""
    tokenizer = tiny_byte_bpe()

    def encoded(text):
        ids = np.array(tokenizer.encode_ids(text), np.int32)
        return EncodedExamples.of_texts(EncodedTexts.of([(ids, np.zeros_like(ids), 0)]))

    numbers, other = encoded("  7  9" * 400), encoded(" - -  8" * 400)
    assert token_similarity(numbers, numbers, tokenizer) is None
    assert token_similarity(numbers, other, tokenizer) is None
    english, chinese = encoded(" the river" * 400 + "  7" * 4000), encoded("中国" * 400)
    assert token_similarity(chinese, chinese, tokenizer) == pytest.approx(1)
    assert token_similarity(english, chinese, tokenizer) == 0
    assert token_similarity(english, encoded(" the river" * 400), tokenizer) == pytest.approx(1)


def test_examples_that_are_not_files_have_no_comparison(settings, student):
    result = distill(student, Classify, replace(settings, steps=1), dataset=Classify.read(settings))
    assert result.comparison is None
    assert "teacher (before)" not in str(result) and "None" not in str(result)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"classify"}))
def test_every_task_has_students(name, tmp_path):
    task, settings = prepare(name, tmp_path, 12, 9, threads=1, steps=1)
    dataset, out, teacher = task.read(settings), tmp_path / "student", tmp_path / "teacher"
    save_model(load_for_task(settings, dataset)[0], teacher, tiny_tokenizer())
    dataset.task.write_files(teacher)
    student = DistillSettings(teacher=teacher, unlabelled=settings.eval)
    sides = distill(student, task, replace(settings, model=teacher, out=out)).comparison
    assert sides.after.parameters["total"] < sides.before.parameters["total"]
    assert task_of_folder(read_folder(out)) is task
    assert load_model(out).config.num_hidden_layers == 1
    getattr(transformers, SAMPLES[name].transformers).from_pretrained(out)


def test_a_teacher_is_scored_on_labels_with_another_separator_than_its_own(tmp_path):
    task, settings = prepare("classify --multi-label", tmp_path, 12, 9, threads=1, steps=1)
    dataset, teacher = task.read(settings), tmp_path / "teacher"
    model = load_for_task(settings, dataset)[0]
    assert settings.label_separator == model.task_settings["label_separator"] == "|"
    model.task_settings["label_separator"] = ";"
    save_model(model, teacher, tiny_tokenizer())
    settings = replace(settings, model=teacher, out=tmp_path / "student")
    sides = distill(DistillSettings(teacher=teacher), task, settings).comparison
    assert sides.before.scores.keys() == sides.after.scores.keys()
    assert load_model(settings.out).task_settings["label_separator"] == "|"


def test_a_cache_is_of_the_vectors_of_one_pooling(tmp_path):
    task, settings = prepare("embed", tmp_path, 12, 9, threads=1, steps=1)
    teacher, out = tmp_path / "teacher", tmp_path / "student"
    save_model(load_for_task(settings, task.read(settings))[0], teacher, tiny_tokenizer())
    student = DistillSettings(teacher=teacher, cache=tmp_path / "cache")
    for pooling in ("mean", "first_token"):
        SentenceFolder(pooling).write(teacher, load_model(teacher).config.hidden_size)
        expected = contextlib.nullcontext()
        if pooling == "first_token":
            expected = refuses(ConfigError, "cache: ", "of another teacher")
        with expected:
            distill(student, task, replace(settings, model=teacher, out=out / pooling))


def test_it_starts_as_the_teachers_own_layers_and_the_run_names_it(settings, student, place):
    result = distill(student, Classify, replace(settings, steps=1, learning_rate=1e-30))
    before, after = load_model(place / "teacher"), load_model(settings.out)
    for mine, theirs in ((0, 0), (1, 3)):
        for name, weight in after.layers[mine].named_parameters():
            assert torch.equal(weight, before.layers[theirs].get_parameter(name)), name
    assert torch.equal(after.heads["classify"].dense.weight, before.heads["classify"].dense.weight)
    run = json.loads((settings.out / "run.json").read_text())
    assert run["distillation"]["teacher"] == str(place / "teacher")
    assert run["result"] == json.loads(json.dumps(result.to_json()))
    first = next(entry for entry in journal(settings.out) if "loss" in entry)
    parts = 0.5 * first["classify_loss"] + 0.5 * first["soft_loss"] + first["hidden_loss"]
    assert first["loss"] == pytest.approx(parts)


def test_a_teacher_in_bf16_has_a_fingerprint_of_its_own(place):
    teacher = load_model(place / "teacher")
    in_fp32 = fingerprint(teacher)
    assert fingerprint(teacher.to(torch.bfloat16)) != in_fp32


def test_a_student_of_another_width(settings, student, tmp_path):
    narrow = save_tiny(tmp_path / "narrow", hidden_size=12, num_hidden_layers=1)
    student = replace(student, student=narrow, hidden_weight=0.0)
    result = distill(student, Classify, replace(settings, model=narrow, steps=1))
    assert load_model(settings.out).config.hidden_size == 12
    assert str(narrow) in result.made_of


def test_static_vectors_have_no_layers(settings, student, tmp_path):
    """As a student or a teacher they have no hidden states, and no layers to start from."""
    tokenizer = tiny_tokenizer()
    config = StaticConfig(tokenizer.vocab_size, 24, max_position_embeddings=37)
    bare, classifier = tmp_path / "bare", tmp_path / "classifier"
    save_model(BertModel(config), bare, tokenizer)
    model = BertModel(config, build_heads(config, ["classify"], 2))
    save_model(model, classifier, tokenizer, id2label={0: "neg", 1: "pos"})
    hidden = "--hidden-weight: found 1.0"
    with refuses(ConfigError, hidden, f"{bare} has static vectors"):
        distill(replace(student, student=bare), Classify, replace(settings, model=bare))
    for start, parts in (
        (settings.model, [hidden, f"{classifier} has static vectors"]),
        (None, [f"{classifier}: static vectors have no layers", "--student"]),
    ):
        taught = replace(student, teacher=classifier, student=start)
        with refuses(ConfigError, *parts):
            distill(taught, Classify, replace(settings, model=taught.start))


def test_a_loss_that_compares_examples_has_two_in_each_step(tmp_path):
    """Of 12 pairs with and 400 without a label, a step of 4 would have a single one to compare."""
    task, settings = prepare("embed", tmp_path, 12, 9, threads=1, steps=1)
    settings = replace(settings, loss="contrastive", batch_size=4)
    teacher = save_tiny(tmp_path / "teacher")
    settings = replace(settings, model=teacher, out=tmp_path / "out")
    likeness = SAMPLES["embed"].write(tmp_path / "unlabelled.csv", 400, seed=3)
    student = DistillSettings(teacher=teacher, unlabelled=likeness)
    distill(student, task, settings, dataset=task.read(settings))
    losses = [entry["embed_loss"] for entry in journal(settings.out) if "embed_loss" in entry]
    assert losses[0] > 0
    with refuses(ConfigError, "--batch-size: found 2", "3 or more"):
        distill(student, task, replace(settings, batch_size=2, overwrite=True))


def of_another_piece(folder):
    vocab = tiny_tokenizer().vocab
    WordPieceTokenizer([*vocab[:7], "splendid", *vocab[8:]]).save(save_tiny(folder))
    return folder


OTHERS = {
    "another piece": of_another_piece,
    "narrow": lambda f: save_tiny(f, hidden_size=12),
    "bare": save_tiny,
    "tagger": lambda f: save_tiny(f, "tag", labels=("a", "b")),
}


@pytest.mark.parametrize("kind, flag, value, parts", [
    (CheckpointError, "student", "another piece", ["other: ", "'splendid' instead of 'lovely'"]),
    (ConfigError, "student", "narrow", ["--hidden-weight: found 1.0", " 12 ", " 24", "--student"]),
    (CheckpointError, "teacher", "bare", ["other: ", "'bertsmith finetune classify'"]),
    (CheckpointError, "teacher", "tagger", ["other: ", "'tag'", "'bertsmith finetune classify'"]),
    (ConfigError, "teacher", DistillSettings().teacher, ["--teacher is missing"]),
    (ConfigError, "num_layers", 5, ["--num-layers: found 5", "teacher", "1 to 4"]),
    (ConfigError, "soft_weight", 1.5, ["--soft-weight: found 1.5", "0 to 1"]),
])  # fmt: skip
def test_refusals(settings, student, tmp_path, kind, flag, value, parts):
    value = OTHERS[value](tmp_path / "other") if isinstance(value, str) else value
    with refuses(kind, *parts):
        student = replace(student, **{flag: value})
        distill(student, Classify, replace(settings, model=student.start))
    assert not settings.out.exists()


def test_eval_examples_of_standard_input_are_refused_before_training(settings, student):
    with refuses(InputError, "--eval: standard input can be read only once"):
        distill(student, Classify, replace(settings, eval=Path("-")))
    assert not settings.out.exists()


def test_what_does_not_fit_the_teacher(settings, student, place, tmp_path):
    table = tmp_path / "train.csv"
    table.write_text("text,label\ngood,pos\nbad,neg\nfilm,so\n")
    with refuses(ConfigError, f"{place / 'teacher'}: ", "'so'", "'neg', 'pos'"):
        distill(student, Classify, replace(settings, train=table))
    with refuses(ConfigError, f"--model: found {tmp_path}", f"{place / 'teacher'}. "):
        distill(student, Classify, replace(settings, model=tmp_path))
    # The teacher is not written over.
    inside = replace(settings, out=place / "teacher", overwrite=True)
    with refuses(ConfigError, f"--teacher {inside.out}"):
        distill(student, Classify, inside)
