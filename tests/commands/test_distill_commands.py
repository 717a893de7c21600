"""`bertsmith distill` as it is typed: a task, and pre-training."""

import io
import json
import shutil
from contextlib import redirect_stdout

import pytest
import torch
import transformers
from folders import contents
from tiny_models import save_tiny, save_tiny_of, tiny_tokenizer, write_reviews
from tiny_runs import FP32, LENGTHS, small_corpus

from bertsmith.cli import main
from bertsmith.commands.distill_pretraining import describe_student
from bertsmith.data.corpus import Corpus
from bertsmith.model.loading import load_model

BOTH_SIDES = "teacher (before) and student (after):"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A teacher and a table."""
    folder = tmp_path_factory.mktemp("distill-commands")
    save_tiny(folder / "teacher", "classify", labels=("neg", "pos"), num_hidden_layers=4)
    write_reviews(folder / "data.csv", 12)
    return folder


def of_task(place, out, *more):
    return [
        "finetune", "classify", "--teacher", place / "teacher", "--train", place / "data.csv",
        "--eval", place / "data.csv", "--out", out, "--steps", 2, *FP32, *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def reader(corpus_dir, tmp_path_factory):
    """A pre-trained teacher with the corpus's vocabulary."""
    folder, tokenizer = tmp_path_factory.mktemp("reader"), Corpus.open(corpus_dir).tokenizer()
    return save_tiny_of(
        folder, "bert", ["masked_lm", "next_sentence"], tokenizer, num_hidden_layers=4,
        num_attention_heads=2, initializer_range=0.02,
    )  # fmt: skip


def of_corpus(corpus_dir, teacher, out, *more):
    return [
        "distill", "pretraining", "--teacher", teacher, "--corpus", corpus_dir, "--out", out,
        *LENGTHS, "--checkpoint-every", 2, "--device", "cpu", *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def taught(corpus_dir, reader, tmp_path_factory):
    """The folder of a student of another family, and what its run printed."""
    out, printed = tmp_path_factory.mktemp("taught") / "out", io.StringIO()
    words = of_corpus(corpus_dir, reader, out, "--steps", 4, "--family", "distilbert")
    with redirect_stdout(printed):
        main([*map(str, words)])
    return out, printed.getvalue()


def forget(out, *keys):
    """Remove facts of a run, as if it had ended before them; give all that it had."""
    facts = json.loads((out / "run.json").read_text())
    left = {name: value for name, value in facts.items() if name not in keys}
    (out / "run.json").write_text(json.dumps(left))
    return facts


def test_pretraining_with_a_teacher(taught, reader):
    out, printed = taught
    assert "student    layers 0, 3 of the 4 of " in printed
    assert "held-out masked LM loss" in printed
    assert BOTH_SIDES in printed
    lines = (out / "journal.jsonl").read_text().splitlines()
    first = next(entry for entry in map(json.loads, lines) if "loss" in entry)
    parts = 0.3 * first["mlm_loss"] + 0.7 * first["soft_loss"] + 0.15 * first["hidden_loss"]
    assert first["loss"] == pytest.approx(parts)
    run = json.loads((out / "run.json").read_text())
    assert run["distillation"]["teacher"] == str(reader)
    assert run["config"]["pretraining"]["mask_share"] == 0.8
    before, after = (run["comparison"][side]["scores"] for side in ("before", "after"))
    assert before["held_out_mlm_loss"] == pytest.approx(5.0, abs=0.3)
    last = json.loads(lines[-1])["held_out_mlm_loss"]
    assert after["held_out_mlm_loss"] == pytest.approx(last, abs=1e-4)
    model = load_model(out)
    assert (model.config.num_hidden_layers, list(model.heads)) == (2, ["masked_lm"])
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out).eval()
    assert type(theirs).__name__ == "DistilBertForMaskedLM"
    ids = torch.randint(5, 60, (3, 13), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, theirs(ids).logits, atol=1e-5, rtol=1e-5)


def test_a_stopped_run_goes_on_bit_for_bit(bertsmith, corpus_dir, reader, taught, tmp_path):
    out = shutil.copytree(taught[0], tmp_path / "out")
    words = of_corpus(corpus_dir, reader, out, "--steps", 4, "--family", "distilbert", "--resume")
    journal, whole = (out / "journal.jsonl").read_text(), load_model(out).state_dict()
    wanted = forget(out, "comparison")
    assert BOTH_SIDES in bertsmith(*words)
    assert (out / "journal.jsonl").read_text() == journal  # nothing learnt again
    found = forget(out, "summary", "comparison")
    assert found["comparison"]["after"]["scores"] == wanted["comparison"]["after"]["scores"]
    # As if it had been stopped after two steps.
    (out / "model.safetensors").unlink()
    (out / "checkpoints" / "step-00000004").rename(tmp_path / "gone")
    result = json.loads(bertsmith(*words, "--json"))
    assert result["steps"] == 4
    assert result["made_of"] == wanted["distillation"]["made_of"]
    learned = result | {"held_out_mlm_loss": 0.0}  # as if it had, so that a next command is shown
    lines = describe_student(learned, result["comparison"]).splitlines()
    assert lines[-1].startswith("next ") and lines.index(BOTH_SIDES) < len(lines) - 3
    assert all(value.equal(whole[name]) for name, value in load_model(out).state_dict().items())


@pytest.mark.parametrize("recipe", [(), ("--recipe", "distill/pretraining")])
def test_a_missing_teacher_is_named(refused, corpus_dir, tmp_path, monkeypatch, recipe):
    """The output is in the current folder."""
    monkeypatch.chdir(tmp_path)
    words = ("--corpus", corpus_dir, "--steps", 1, "--out", "out", *recipe)
    assert "--teacher is missing" in refused("distill", "pretraining", *words)


def test_a_corpus_and_a_student_that_do_not_fit_the_teacher(refused, corpus_dir, reader, tmp_path):
    out, tokenizer = tmp_path / "out", Corpus.open(corpus_dir).tokenizer()
    student = save_tiny_of(
        tmp_path / "short", "bert", ["masked_lm"], tokenizer, max_position_embeddings=11
    )
    words = of_corpus(corpus_dir, reader, out, "--steps", 1)
    error = refused(*words, "--student", student)
    assert "the student TMP/short reads 11 tokens. Pass --max-length 11 or less." in error.replace(
        str(tmp_path), "TMP"
    )
    documents = ["a b c. d e.", "f g."]
    other = small_corpus(tmp_path / "corpus", tiny_tokenizer(), documents)
    error = refused(*of_corpus(other, reader, out, "--steps", 1))
    assert "its vocabulary is not that of the teacher" in error
    assert f"Build the corpus with --tokenizer {reader}." in error


def test_a_student_of_a_task_is_compared_with_its_teacher_once(bertsmith, place, tmp_path):
    out = tmp_path / "out"
    words = of_task(place, out, "--num-layers", 3)
    printed = bertsmith(*words)
    assert printed.startswith("student: layers 0, 1, 3 of the 4 of ")
    assert BOTH_SIDES in printed
    wanted, journal = forget(out, "result"), (out / "journal.jsonl").read_text()
    assert BOTH_SIDES in bertsmith(*words, "--resume")
    both = [facts["result"]["comparison"]["after"]["scores"] for facts in (wanted, forget(out))]
    assert both[0] == both[1]
    assert (out / "journal.jsonl").read_text() == journal  # nothing learnt again


def test_refusals(refused, corpus_dir, reader, place, tmp_path):
    out = tmp_path / "out"
    folds = of_task(place, out, "--folds", 2, "--cache", tmp_path / "cache")
    del folds[folds.index("--eval") : folds.index("--eval") + 2]
    bare, other = save_tiny(tmp_path / "bare"), save_tiny(tmp_path / "other", "masked_lm")
    assert "--cache and --folds exclude each other" in refused(*folds)
    for teacher, more, told in (
        (bare, (), f"{bare}: "),
        (other, (), f"{other} (id 5 is 'baba' instead of 'good')"),
        (reader, ("--objective", "replaced_token"), "--objective: found 'replaced_token'"),
    ):
        assert told in refused(*of_corpus(corpus_dir, teacher, out, "--steps", 2, *more))
    assert not out.exists()
    # Several students are not written over their teacher.
    shutil.copytree(place / "teacher", out)
    before = contents(out)
    words = of_task(place, out, "--model", place / "teacher", "--seeds", 2, "--overwrite")
    for flag, named in (("--teacher", out), ("--cache", out / "cache")):
        assert f"{flag} {named}" in refused(*words, flag, named)
    assert contents(out) == before
