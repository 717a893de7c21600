"""`bertsmith distill` as it is typed: a task, and pre-training."""

import json
import shutil

import pytest
import torch
import transformers
from tiny_models import save_tiny, write_reviews

from bertsmith.cli import main
from bertsmith.data.shards import Corpus
from bertsmith.errors import CheckpointError
from bertsmith.evaluation import side_by_side as before_after
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.pretraining import micro_batch

FP32 = ("--device", "cpu", "--precision", "fp32")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Models are timed for as short as can be."""
    monkeypatch.setattr(before_after, "TIMED_SECONDS", 0.01)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A teacher and a table."""
    folder = tmp_path_factory.mktemp("distill-commands")
    save_tiny(folder / "teacher", "classify", labels=("neg", "pos"), num_hidden_layers=4)
    write_reviews(folder / "data.csv", 12)
    return folder


@pytest.fixture
def bertsmith(capsys):
    """Run a command line; gives what it printed."""

    def run(*args):
        main([str(arg) for arg in args])
        return capsys.readouterr().out

    return run


def of_task(place, out, *more):
    return [
        "finetune", "classify", "--teacher", place / "teacher", "--train", place / "data.csv",
        "--eval", place / "data.csv", "--out", out, "--steps", 2, *FP32, *more,
    ]  # fmt: skip


def test_a_student_by_flags(bertsmith, place, tmp_path):
    printed = bertsmith(*of_task(place, tmp_path / "out", "--num-layers", 3))
    assert printed.startswith("student: layers 0, 1, 3 of the 4 of ")
    assert "teacher (before) and student (after):" in printed
    found = json.loads(bertsmith(*of_task(place, tmp_path / "json", "--json")))
    assert found["comparison"]["before"]["parameters"]["encoder"] > 0
    assert found["labels"] == ["neg", "pos"]


def test_a_student_by_a_recipe(bertsmith, place, tmp_path, capsys):
    recipe = tmp_path / "student.toml"
    recipe.write_text(
        f"train = '{place}/data.csv'\neval = '{place}/data.csv'\nsteps = 1\n"
        f"[distillation]\nteacher = '{place}/teacher'\nnum_layers = 1\nsoft_temperature = 3.0\n"
    )
    found = json.loads(
        bertsmith("finetune", "classify", recipe, "--out", tmp_path / "out", "--json", *FP32)
    )
    assert found["made_of"].startswith("layers 0 of the 4")
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["distillation"]["soft_temperature"] == 3.0


def test_several_students(bertsmith, place, tmp_path):
    found = json.loads(
        bertsmith(*of_task(place, tmp_path / "out", "--seeds", 2, "--cache", tmp_path / "c",
                           "--json"))
    )  # fmt: skip
    assert found["names"] == ["seed-0", "seed-1"]
    assert load_model(tmp_path / "out").config.num_hidden_layers == 2


@pytest.mark.parametrize("inside", ["teacher", "cache"])
def test_several_students_are_not_written_over_their_teacher(
    bertsmith, place, tmp_path, capsys, inside
):
    out = shutil.copytree(place / "teacher", tmp_path / "out")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    named = {"teacher": out, "cache": out / "cache"}[inside]
    args = of_task(place, out, "--model", place / "teacher", "--seeds", 2, "--overwrite")
    with pytest.raises(SystemExit):
        bertsmith(*args, f"--{inside}", named)
    assert f"--{inside} {named}" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_what_is_asked_for_in_vain(bertsmith, place, tmp_path, capsys):
    for words, more in {
        "--cache and --folds exclude": ("--folds", 2, "--cache", tmp_path / "cache"),
        "--num-layers: found beside": ("--num-layers", 1, "--model", place / "teacher"),
    }.items():
        args = of_task(place, tmp_path / "out", *more)
        if "--folds" in args:
            del args[args.index("--eval") : args.index("--eval") + 2]
        with pytest.raises(SystemExit):
            bertsmith(*args)
        assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def reader(corpus_dir, tmp_path_factory):
    """A pre-trained teacher with the corpus's vocabulary."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=Corpus.open(corpus_dir).vocab_size,
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=32,
    )
    folder = tmp_path_factory.mktemp("reader")
    model = BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))
    save_model(model, folder, Corpus.open(corpus_dir).tokenizer())
    return folder


def of_corpus(corpus_dir, teacher, out, *more):
    return [
        "distill", "pretraining", "--teacher", teacher, "--corpus", corpus_dir, "--out", out,
        "--max-length", 16, "--batch-size", 4, "--eval-rows", 4, "--threads", 1,
        "--checkpoint-every", 2, *FP32, *more,
    ]  # fmt: skip


def test_pretraining_with_a_teacher(bertsmith, corpus_dir, reader, tmp_path):
    printed = bertsmith(*of_corpus(corpus_dir, reader, tmp_path / "out", "--steps", 4))
    assert "student    layers 0, 3 of the 4 of " in printed
    assert "held out mlm loss" in printed
    assert "teacher (before) and student (after):" in printed
    lines = (tmp_path / "out" / "journal.jsonl").read_text().splitlines()
    first = next(entry for entry in map(json.loads, lines) if "loss" in entry)
    parts = 0.3 * first["mlm_loss"] + 0.7 * first["soft_loss"] + 0.15 * first["hidden_loss"]
    assert first["loss"] == pytest.approx(parts)
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["distillation"]["teacher"] == str(reader)
    assert run["config"]["pretraining"]["mask_share"] == 0.8
    before, after = (run["comparison"][side]["scores"] for side in ("before", "after"))
    assert before["held_out_mlm_loss"] == pytest.approx(5.0, abs=0.3)
    last = json.loads(lines[-1])["held_out_mlm_loss"]
    assert after["held_out_mlm_loss"] == pytest.approx(last, abs=1e-4)
    model = load_model(tmp_path / "out")
    assert (model.config.num_hidden_layers, list(model.heads)) == (2, ["masked_lm"])
    transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")


def test_a_student_of_the_family_distilbert(bertsmith, corpus_dir, reader, tmp_path):
    out = tmp_path / "out"
    bertsmith(*of_corpus(corpus_dir, reader, out, "--steps", 2, "--family", "distilbert"))
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(out).eval()
    assert type(theirs).__name__ == "DistilBertForMaskedLM"
    assert theirs.config.n_layers == 2
    ids = torch.randint(5, 60, (3, 13), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, found = theirs(ids).logits, load_model(out)(ids).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_run_that_ended_before_the_comparison_makes_it_when_resumed(bertsmith, place, tmp_path):
    words = of_task(place, tmp_path / "out")
    printed = bertsmith(*words)
    run = tmp_path / "out" / "run.json"
    facts = json.loads(run.read_text())
    del facts["result"]
    run.write_text(json.dumps(facts))
    again = bertsmith(*words, "--resume")
    assert "teacher (before) and student (after):" in again
    assert "result" in json.loads(run.read_text())
    assert "teacher (before) and student (after):" in printed


def test_pretraining_that_ended_before_the_comparison(bertsmith, corpus_dir, reader, tmp_path):
    words = of_corpus(corpus_dir, reader, tmp_path / "out", "--steps", 2)
    bertsmith(*words)
    run = tmp_path / "out" / "run.json"
    facts = json.loads(run.read_text())
    wanted = facts.pop("comparison")
    run.write_text(json.dumps(facts))
    journal = (tmp_path / "out" / "journal.jsonl").read_text()
    assert "teacher (before) and student (after):" in bertsmith(*words, "--resume")
    found = json.loads(run.read_text())["comparison"]
    assert found["after"]["scores"] == wanted["after"]["scores"]
    assert (tmp_path / "out" / "journal.jsonl").read_text() == journal  # nothing learnt again


def test_what_a_teacher_said_serves_students_of_any_size(
    bertsmith, corpus_dir, reader, tmp_path, monkeypatch
):
    monkeypatch.setattr(micro_batch, "MAX_KEPT", 10**5)  # some rows, of a flatter student more
    for num_layers in (2, 1):
        words = ("--steps", 2, "--cache", tmp_path / "cache", "--num-layers", num_layers)
        bertsmith(*of_corpus(corpus_dir, reader, tmp_path / str(num_layers), *words))
        if num_layers == 2:
            written = set((tmp_path / "cache").iterdir())
    assert set((tmp_path / "cache").iterdir()) == written


def test_a_pretraining_teacher_is_asked_once(
    bertsmith, capsys, corpus_dir, reader, place, tmp_path
):
    cache = tmp_path / "cache"

    def distill(name, *more):
        args = of_corpus(
            corpus_dir, reader, tmp_path / name, "--steps", 3, "--duplicates", 1, *more
        )
        return bertsmith(*args)

    distill("asked")
    assert f"cache      {cache}  (3 batches, " in distill("kept", "--cache", cache)
    models = [load_model(tmp_path / name).state_dict() for name in ("asked", "kept")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    # Another student, taught otherwise: nothing is computed again.
    written = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    distill("other", "--cache", cache, "--num-layers", 1, "--soft-weight", 0.5)
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == written
    with pytest.raises(SystemExit) as left:
        bertsmith(*of_task(place, tmp_path / "task", "--cache", cache))
    assert left.value.code == 2
    assert f"{cache}: a cache that was made for another purpose" in capsys.readouterr().err


def test_a_stopped_run_goes_on_bit_for_bit(bertsmith, corpus_dir, reader, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    bertsmith(*of_corpus(corpus_dir, reader, whole, "--steps", 4, "--json"))
    bertsmith(*of_corpus(corpus_dir, reader, parts, "--steps", 4, "--json"))
    # As if it had been stopped after two steps.
    run = json.loads((parts / "run.json").read_text())
    del run["summary"], run["comparison"]
    (parts / "run.json").write_text(json.dumps(run))
    for path in (parts / "checkpoints").glob("step-00000004"):
        path.rename(tmp_path / "gone")
    found = bertsmith(*of_corpus(corpus_dir, reader, parts, "--steps", 4, "--resume", "--json"))
    assert json.loads(found)["steps"] == 4
    first, second = (load_model(path).state_dict() for path in (whole, parts))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    "change, words",
    [
        ("bare", "has no masked-LM head"),
        ("vocabulary", "its vocabulary is not that of the teacher"),
        ("layers", "Give 1 to 4"),
        ("pairs", "a student learns hidden words alone"),
        ("objective", "found 'replaced_token'; a student learns hidden words alone"),
    ],
)
def test_what_cannot_be_learnt(bertsmith, corpus_dir, reader, tmp_path, capsys, change, words):
    teacher, more = reader, ()
    if change == "bare":
        teacher = save_tiny(tmp_path / "bare")
    elif change == "vocabulary":
        teacher = save_tiny(tmp_path / "other", "masked_lm")
    elif change == "layers":
        more = ("--num-layers", 5)
    else:
        more = {
            "pairs": ("--pairs", "next_sentence"),
            "objective": ("--objective", "replaced_token"),
        }[change]
    with pytest.raises(SystemExit):
        bertsmith(*of_corpus(corpus_dir, teacher, tmp_path / "out", "--steps", 2, *more))
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_error_is_told_with_its_place(corpus_dir, tmp_path):
    folder = save_tiny(tmp_path / "bare")
    with pytest.raises(CheckpointError, match=r"bare: has no masked-LM head"):
        main([str(word) for word in of_corpus(corpus_dir, folder, tmp_path / "o", "--steps", 1,
                                              "--debug")])  # fmt: skip
