"""Texts become a BERT in one call, by the command's own steps and checks."""

import json
import os
import shutil
from pathlib import Path

import datasets
import numpy as np
import pandas
import polars
import pyarrow
import pytest
import tiny_runs
from memory_peak import peak
from refusals import refuses
from tiny_tokenizers import tiny_wordpiece

import bertsmith
from bertsmith.data.corpus import Corpus
from bertsmith.data.corpus_build import build_corpus
from bertsmith.data.documents import TextsInMemory, iter_documents
from bertsmith.data.settings import CorpusSettings
from bertsmith.errors import BertsmithError, CheckpointError, ConfigError, CorpusError, InputError
from bertsmith.estimators.pretrain import as_texts
from bertsmith.estimators.pretrain_inputs import describe_inputs
from bertsmith.system.processes import LocalProcesses
from bertsmith.training.run_folder import RunFolder

SMALL = {"preset": "tiny", "max_length": 16, "batch_size": 4, "eval_rows": 4, "threads": 1,
         "precision": "fp32", "max_position_embeddings": 32,
         "show_progress": False, "start_steps": 0}  # fmt: skip
WITH_VOCABULARY = SMALL | {"vocab_size": 150}


@pytest.fixture(scope="module")
def text(corpus_dir):
    return corpus_dir.parent / "text.txt"


@pytest.mark.same_on_all_computers
def test_a_call_makes_vocabulary_corpus_and_model(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = bertsmith.pretrain(str(text), steps=2, **WITH_VOCABULARY)
    assert (os.fspath(model), model.steps) == ("runs/text-bert", 2)
    assert "runs/text-bert" in repr(model)
    assert {path.name for path in Path("runs").iterdir()} == {
        "text-bert", "text-corpus", "text-tokenizer"
    }  # fmt: skip
    settings = RunFolder(model.out).read_run()["settings"]
    assert settings["training"]["minutes"] is None  # the recipe's gives way
    assert settings["optim"]["optimizer"] == "muon"  # and the rest of it holds
    assert bertsmith.load(model).encode(["ba ce"]).shape == (1, 128)
    with refuses(ConfigError, "runs/text-bert: ", "resume", "overwrite", " out."):
        bertsmith.pretrain(text, steps=2, **WITH_VOCABULARY)
    of_numpy = WITH_VOCABULARY | {"vocab_size": np.int64(150)}
    again = bertsmith.pretrain(text, steps=1, overwrite=True, seed=3, **of_numpy)
    assert again.steps == 1
    further = bertsmith.pretrain(
        [text], out="runs/more", from_=model, steps=1, max_length=16,
        **{name: SMALL[name] for name in ("batch_size", "eval_rows", "threads", "show_progress")},
    )  # fmt: skip
    assert not Path("runs/more-tokenizer").exists()
    config = RunFolder(further.out).read_run()["config"]
    assert config["model"] == RunFolder(model.out).read_run()["config"]["model"]  # "continue"'s
    assert config["optim"]["optimizer"] == "adamw"
    assert bertsmith.load_tokenizer(further.out).vocab == bertsmith.load_tokenizer(model.out).vocab


@pytest.mark.same_on_all_computers
def test_a_stopped_run_goes_on(corpus_dir, tmp_path):
    out = tmp_path / "m"
    call = {**SMALL, "corpus": corpus_dir, "out": out, "steps": 4, "checkpoint_every": 1}
    with pytest.raises(tiny_runs.KilledError):
        bertsmith.pretrain(callbacks=[tiny_runs.StopAtStep(3)], **call)
    assert bertsmith.pretrain(resume=True, **call).steps == 4


def test_vocabulary_and_corpus_of_the_current_folder_are_named_after_it(
    text, tmp_path, monkeypatch
):
    (tmp_path / "mine-bert").mkdir()
    monkeypatch.chdir(tmp_path / "mine-bert")
    model = bertsmith.pretrain(text, out=".", steps=1, **WITH_VOCABULARY)
    assert model.out == tmp_path / "mine-bert"
    assert {path.name for path in tmp_path.iterdir()} == {
        "mine-bert", "mine-corpus", "mine-tokenizer"
    }  # fmt: skip


@pytest.mark.parametrize("given, parts", [
    ({}, ["texts, corpus: "]), ({"texts": "none.txt"}, ["'none.txt': ", "[text, ...]"]),
    ({"texts": "@", "minuts": 3}, ["pretrain: ", "'minuts'", "'minutes'"]),
    ({"texts": "@", "steps": "3"}, ["steps: found '3'"]),
    ({"texts": "@", "recipe": "continue"}, ["recipe='continue': ", "Give from_=DIR"]),
    ({"texts": "@", "tokenizer": "none"}, ["none: "]),
    ({"texts": "@", "out": "/"}, ["out: / is the folder of the whole disk", "/my-bert"]),
    ({"texts": "@", "text_column": 3}, ["text_column: found 3"]),
    ({"texts": "A text. " * 99}, ["A text. A text. ", "[text, ...]"]),
    ({"texts": ["a.txt", "b.txt"]}, ["texts[0]: found 'a.txt'", "[pathlib.Path(name), ...]"]),
    ({"texts": ["A text.", 0]}, ["texts[1]: found int 0"]),
    ({"texts": [None, " ", np.nan]}, ["documents: 0", "3 empty documents"]),
    ({"texts": iter(["A text."])}, ["texts: found list_iterator"]),
    ({"texts": pandas.DataFrame({"a": ["A text."]})}, ["texts: ", "'text'", "'a'", "text_column"]),
    ({"texts": {}}, ["texts: no column 'text'", "none"]),
    ({"texts": pandas.DataFrame()}, ["texts: no column 'text'", "none"]),
    ({"texts": [{"a": "A text."}]}, ["texts[0]: ", "'text'", "'a'", "text_column"]),
    ({"texts": {"train": pandas.DataFrame()}}, ["('train')", "data['train']"]),
    ({"corpus": "c", "tokenizer": "t", "text_column": "a"}, ["tokenizer, text_column: ", "c is "]),
    ({"corpus": "c", "vocab_size": 9000}, ["vocab_size: found 9000", "corpus"]),
    ({"texts": "@", "tokenizer": "t", "vocab_size": 9000}, ["vocab_size: found 9000", "tokenizer"]),
    ({"texts": "@", "from_": "m", "vocab_size": 9000}, ["vocab_size: found 9000", "from_"]),
])  # fmt: skip
def test_what_is_refused_before_time_is_spent(text, tmp_path, monkeypatch, given, parts):
    monkeypatch.chdir(tmp_path)
    is_pydantics = given.keys() & {"steps", "text_column"}  # what is wrong with a value's type
    given = {name: str(text) if str(value) == "@" else value for name, value in given.items()}
    with refuses(BertsmithError, *parts, worded=not is_pydantics) as refused:
        bertsmith.pretrain(**given, show_progress=False)
    assert isinstance(refused.value, CheckpointError | ConfigError | InputError)
    assert "--" not in str(refused.value)
    assert not list(tmp_path.glob("runs/*"))


TEXTS = [f"Ba ce di. Fo ga {'hu ' * (number % 5)}je." for number in range(30)]
GIVEN = [*TEXTS[:9], "\n", None, *TEXTS[9:]]
FRAME = {"text": GIVEN, "number": list(range(len(GIVEN)))}
ARROW, DATA = pyarrow.table(FRAME), datasets.Dataset.from_dict(FRAME)
IN_MEMORY = {
    "list": GIVEN, "array": np.array(GIVEN, dtype=object),
    "missing": pandas.Series(GIVEN, dtype="string"), "pandas": pandas.DataFrame(FRAME),
    "polars": polars.DataFrame(FRAME), "pyarrow": ARROW, "pyarrow column": ARROW["text"],
    "columns": FRAME, "rows": ARROW.to_pylist(), "dataset": DATA, "dataset column": DATA["text"],
    "streamed dataset": DATA.to_iterable_dataset(),
}  # fmt: skip


def corpus_of(texts, folder):
    """Build a corpus; give its arrays, and what its manifest tells of the texts."""
    build_corpus(texts, tiny_wordpiece(), folder, executor=LocalProcesses(1))
    sources = json.loads((folder / "manifest.json").read_text())["sources"]
    arrays = {path.name: path.read_bytes() for path in folder.glob("*.npy")}
    return arrays, sources["skipped"], sources["documents"]


@pytest.fixture(scope="module")
def corpus_of_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("file")
    file = folder / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in GIVEN))
    found = corpus_of([file], folder / "corpus")
    assert found[1:] == ({"empty_documents": 2}, 30)
    return found


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_texts_in_memory_become_the_corpus_of_their_file(corpus_of_file, kind, tmp_path):
    assert corpus_of(as_texts(IN_MEMORY[kind], "text"), tmp_path / "m") == corpus_of_file


def test_a_call_with_texts_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = bertsmith.pretrain(TEXTS, steps=1, **WITH_VOCABULARY)
    assert os.fspath(one) == "runs/my-bert"
    once = (text for text in TEXTS)
    other = bertsmith.pretrain(once, out="runs/b", tokenizer="runs/my-tokenizer", steps=1, **SMALL)
    assert other.figures["held_out_mlm_loss"] == one.figures["held_out_mlm_loss"]


def test_no_second_copy_of_the_texts_is_held():
    texts = [f"{number} " + "word " * 100 for number in range(4000)]
    tables = texts, pandas.DataFrame({"text": texts}), pyarrow.table({"text": texts})
    for given in tables:
        read = as_texts(given, "text")
        assert peak(lambda read=read: sum(1 for _ in iter_documents(read))) < 1_500_000  # of 2 MB


@pytest.mark.same_on_all_computers
def test_the_summary_of_the_command_ends_the_call(text, tmp_path, capsys):
    shown = {**WITH_VOCABULARY, "show_progress": True}
    model = bertsmith.pretrain(str(text), out=tmp_path / "m", steps=2, **shown)
    err = capsys.readouterr().err
    for part in ("trained    2 steps", "token frequency alone", "note       "):
        assert part in err.rpartition("step 2")[2]
    assert "token frequency alone " in repr(model)
    assert "no better than token frequencies" in repr(model)


@pytest.mark.same_on_all_computers
def test_a_call_that_ended_early_goes_on_with_what_it_built(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = {**WITH_VOCABULARY, "steps": 1}
    manifest = Path("runs/text-corpus/manifest.json")
    with refuses(ConfigError, "device: ", worded=False):  # after the corpus is built
        bertsmith.pretrain(str(text), **call, device="cuda:99")
    built_at = manifest.stat().st_mtime_ns
    assert bertsmith.pretrain(str(text), **call).steps == 1
    assert manifest.stat().st_mtime_ns == built_at
    assert not [path for path in Path("runs").iterdir() if path.name.startswith(".")]


@pytest.mark.same_on_all_computers
def test_what_another_call_built_is_not_used(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = {**WITH_VOCABULARY, "steps": 1}
    with refuses(ConfigError, "device: ", worded=False):
        bertsmith.pretrain(str(text), **call, device="cuda:99")
    with refuses(CorpusError, "text-corpus", "overwrite=True"):
        bertsmith.pretrain(str(text), **{**call, "vocab_size": 151})
    shutil.rmtree("runs/text-corpus")
    with refuses(ConfigError, "text-tokenizer", "overwrite=True"):
        bertsmith.pretrain(str(text), **{**call, "vocab_size": 151})


def test_another_corpus_is_found_before_a_vocabulary_is_learned(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build_corpus([text], tiny_wordpiece(), Path("runs/text-corpus"), executor=LocalProcesses(1))
    with refuses(CorpusError, "text-corpus", "overwrite=True"):
        bertsmith.pretrain(str(text), steps=1, **SMALL)
    assert not Path("runs/text-tokenizer").exists()


@pytest.mark.same_on_all_computers
def test_a_corpus_of_an_earlier_tokenizer_is_not_used(text, tmp_path, monkeypatch):
    """The folder of the tokenizer has changed since the first call."""
    monkeypatch.chdir(tmp_path)
    call = {**SMALL, "steps": 1, "tokenizer": "tokens", "out": "runs/text-bert"}
    tiny_wordpiece().save("tokens")
    with refuses(ConfigError, "device: ", worded=False):  # after the corpus is built
        bertsmith.pretrain(str(text), **call, device="cuda:99")
    tiny_wordpiece(lowercase=False).save("tokens")
    with refuses(CorpusError, "text-corpus", "overwrite=True"):
        bertsmith.pretrain(str(text), **call)
    tiny_wordpiece().save("tokens")
    assert bertsmith.pretrain(str(text), **call).steps == 1


def test_the_tokenizer_of_a_model_of_the_hub_is_looked_up_once(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_wordpiece().save("cached")
    names = []

    def snapshot_download(name, **_):
        names.append(name)
        return "cached"

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    model = bertsmith.pretrain(str(text), tokenizer="anna/words", steps=1, **SMALL)
    assert names == ["anna/words"]
    assert Corpus.open(model.corpus).tokenizer().vocab == tiny_wordpiece().vocab


def test_texts_that_are_divided_otherwise_are_other_inputs():
    def describe(*texts):
        return describe_inputs(TextsInMemory(lambda: iter(texts)), None, 100, CorpusSettings())

    assert describe("a", "b") == describe(*np.array(["a", "b"]))
    assert describe("a", "b") != describe("a\0b")
    assert describe("a", "b") != describe("ab")
