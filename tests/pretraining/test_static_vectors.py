"""`bertsmith vectors`: counted vectors as a folder that commands and other libraries open."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from folders import contents
from refusals import refuses
from tiny_models import write_csv, write_reviews

from bertsmith import TextClassifier
from bertsmith.compression.compress import compress
from bertsmith.compression.settings import CompressSettings, LayerSettings
from bertsmith.data.corpus import Corpus
from bertsmith.errors import CheckpointError, ConfigError, SettingError
from bertsmith.finetuning.heads import training_function_for
from bertsmith.finetuning.run import finetune
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.pretraining import counted_start
from bertsmith.pretraining.counted_start import count_vectors
from bertsmith.pretraining.from_model import source_facts
from bertsmith.pretraining.static_vectors import count_static_vectors
from bertsmith.pretraining.vector_settings import VectorSettings
from bertsmith.serving.served_model import ServedModel
from bertsmith.system.checksums import SUMS_FILE
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tasks.auto import load
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.settings.embed import EmbedSettings
from bertsmith.tasks.text_classification import Classify

TEXTS = ["baba ceba diba.", "baba", "guba haba baba ceba diba foba", "ceba " * 37]


@pytest.fixture(scope="module")
def settings(tmp_path_factory, corpus_dir):
    return VectorSettings(corpus_dir, tmp_path_factory.mktemp("vectors") / "out", size=11)


@pytest.fixture(scope="module")
def counted(settings):
    return count_static_vectors(settings)


def cosines(left, right):
    return (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)


def test_the_vectors_are_those_of_the_counts_and_special_tokens_have_none(settings, counted):
    corpus = Corpus.open(settings.corpus)
    with drawing_from(0):
        expected, counts = count_vectors(corpus, 11)
    special = sorted(corpus.tokenizer().special_ids)
    expected[special], counts[special] = 0, 0
    words = load_model(settings.out).embeddings.word.weight
    assert torch.equal(words, expected) and words.shape == (corpus.vocab_size, 11)
    assert counted.num_vectors == (counts > 0).sum() and counted.num_tokens == corpus.num_tokens
    assert f"for {counted.num_vectors} of {corpus.vocab_size} tokens" in str(counted)


def test_a_text_has_the_mean_of_its_tokens(settings, counted):
    encoder = load(settings.out, device="cpu", precision="fp32")
    words = load_model(settings.out).embeddings.word.weight.detach().numpy()
    for text, vector in zip(TEXTS, encoder.encode(TEXTS), strict=True):
        ids = encoder.tokenizer.encode_ids(text)
        np.testing.assert_allclose(vector, words[ids].sum(0) / (len(ids) + 2), atol=1e-6)
        np.testing.assert_allclose(encoder.encode([text])[0], vector, atol=1e-6)


def test_sentence_transformers_gives_the_same_directions(settings, counted):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    theirs = sentence_transformers.SentenceTransformer(str(settings.out), device="cpu")
    ours = load(settings.out, device="cpu", precision="fp32").encode(TEXTS)
    np.testing.assert_allclose(cosines(ours, theirs.encode(TEXTS)), 1, atol=1e-5)


def test_model2vec_gives_the_same_directions(settings, counted):
    model2vec = pytest.importorskip("model2vec")
    theirs = model2vec.StaticModel.from_pretrained(settings.out)
    ours = load(settings.out, device="cpu", precision="fp32").encode(TEXTS)
    np.testing.assert_allclose(cosines(ours, theirs.encode(TEXTS)), 1, atol=1e-5)


def test_the_files_are_those_that_model2vec_reads(settings, counted):
    """The names in model2vec 0.10, persistence.py and datamodels.py."""
    safetensors = pytest.importorskip("safetensors.numpy")
    tokenizers = pytest.importorskip("tokenizers")
    tensors = safetensors.load_file(settings.out / "model.safetensors")
    assert list(tensors) == ["embeddings"] and tensors["embeddings"].dtype == np.float32
    tokenizer = tokenizers.Tokenizer.from_file(str(settings.out / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == len(tensors["embeddings"])
    config = json.loads((settings.out / "config.json").read_text())
    assert config["normalize"] is False and config["max_length"] == 512


@pytest.mark.parametrize("head", ["fine-tuned", "linear", "counts", "contrastive"])
def test_every_head_learns_from_the_vectors(settings, counted, tmp_path, head):
    rows = [("baba ceba", "a"), ("ceba baba baba", "a"), ("guba haba", "b"), ("haba guba", "b")]
    train = write_csv(tmp_path / "train.csv", ("text", "label"), *rows * 5)
    out = tmp_path / "out"
    task = ClassifySettings(
        model=settings.out, train=train, eval=train, out=out, head=head, precision="fp32", threads=1
    )
    result = training_function_for(task)(Classify, task)
    assert result.evaluation.accuracy == 1.0
    predictor = load(out, device="cpu", precision="fp32")
    assert predictor.evaluate(str(train)).accuracy == 1.0
    served = ServedModel.load("m", out, device="cpu", precision="fp32", max_length=None)
    assert "predict" in served.definitions


def test_commands_take_the_folder(settings, counted, tmp_path, bertsmith, monkeypatch):
    out, vectors = tmp_path / "again", tmp_path / "vectors.npy"
    line = ["vectors", "--corpus", settings.corpus, "--out", out, "--size", 11]
    printed = json.loads(bertsmith(*line, "--json"))
    assert printed["num_vectors"] == counted.num_vectors
    assert contents(out) == contents(settings.out)
    texts = write_csv(tmp_path / "texts.csv", ("text",), *([text] for text in TEXTS))
    bertsmith("embed", out, texts, "--out", vectors, "--precision", "fp32")
    encoder = load(out, device="cpu", precision="fp32")
    np.testing.assert_allclose(np.load(vectors), encoder.encode(TEXTS), atol=1e-6)
    with refuses(ConfigError, "holds a model", "--overwrite"):
        count_static_vectors(VectorSettings(settings.corpus, out))
    for inside in (settings.corpus, settings.corpus / "vectors"):
        with refuses(ConfigError, "this command reads"):
            count_static_vectors(VectorSettings(settings.corpus, inside, overwrite=True))
    (tmp_path / "again-classifier").mkdir()
    printed = bertsmith(*line, "--overwrite", "--size", 7)
    assert f"finetune classify --head linear --model {out}" in printed
    assert printed.rstrip().endswith(f"--out {tmp_path / 'again-classifier-2'}")
    assert load_model(out).config.hidden_size == 7
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # a folder that the line names by a dot
    printed = bertsmith("vectors", "--corpus", settings.corpus, "--out", ".")
    assert printed.rstrip().endswith(f"--out {tmp_path / 'here-classifier'}")


def test_the_estimator_takes_the_folder(settings, counted, tmp_path):
    train = write_reviews(tmp_path / "train.csv", 20)
    classifier = TextClassifier(settings.out, head="linear", precision="fp32", verbose=0)
    classifier.fit(str(train), eval=None)
    assert classifier.predict(["good film"]).shape == (1,)


def test_vectors_that_learned_from_pairs_are_static_vectors_still(settings, counted, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    rows = [("baba ceba", "ceba baba", 5), ("guba haba", "diba foba", 0), ("baba", "haba guba", 1)]
    train = write_csv(tmp_path / "pairs.csv", ("text", "pair", "score"), *rows)
    task = EmbedSettings(
        model=settings.out, train=train, eval=train, out=tmp_path / "out", steps=3,
        learning_rate=1e-2, precision="fp32", threads=1,
    )  # fmt: skip
    finetune(Embed, task)
    theirs = sentence_transformers.SentenceTransformer(str(task.out), device="cpu")
    encoder = load(task.out, device="cpu", precision="fp32")
    np.testing.assert_allclose(cosines(encoder.encode(TEXTS), theirs.encode(TEXTS)), 1, atol=1e-5)
    before = load_model(settings.out).embeddings.word.weight
    assert not torch.equal(load_model(task.out).embeddings.word.weight, before)
    first = replace(task, out=tmp_path / "first", pooling="first_token")
    with refuses(ConfigError, "--pooling first_token", "mean"):
        finetune(Embed, first)


def test_what_needs_layers_is_refused(settings, counted, tmp_path):
    fewer = CompressSettings(
        model=settings.out, out=tmp_path / "small", layers=LayerSettings(num_layers=1)
    )
    with refuses(CheckpointError, "have no layers"):
        compress(fewer)
    with refuses(CheckpointError, "have no layers", "--from"):
        source_facts("vectors", read_folder(settings.out))


def test_another_folder_of_model2vec_and_odd_settings_are_refused(
    settings, counted, tmp_path, monkeypatch
):
    file = settings.out / "config.json"
    config = json.loads(file.read_text())
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in settings.out.iterdir():
        if path.name != SUMS_FILE:
            (copy / path.name).write_bytes(path.read_bytes())
    for changes, part in (({"vocab_size": None}, "vocab_size"), ({"normalize": True}, "scaled")):
        (copy / "config.json").write_text(json.dumps(config | changes))
        with refuses(CheckpointError, part):
            load_model(copy)
    assert read_folder(settings.out).config.num_layers == 0
    for size in (0, 10**24):
        with refuses(SettingError, f"--size: found {size}", "1 to 65,536"):
            VectorSettings(settings.corpus, tmp_path, size=size)
    with refuses(SettingError, "--max-length"):
        VectorSettings(settings.corpus, tmp_path, max_length=2)
    monkeypatch.setattr(counted_start, "MAX_DENSE", 149)
    monkeypatch.setattr(counted_start, "BYTES_PER_PAIR", 2**50)
    with refuses(ConfigError, "vectors: ", " 149 ", worded=False):  # the machine's memory
        count_static_vectors(VectorSettings(settings.corpus, tmp_path / "new"))
    assert not (tmp_path / "new").exists()
