"""Folders of sentence-transformers before 2.0: the model in 0_Transformer, the rest beside it."""

import json
import warnings

import numpy as np
import pytest
from refusals import refuses
from sentence_transformers import SentenceTransformer
from tiny_models import save_tiny

from bertsmith import SentenceEncoder
from bertsmith.commands.compress import main as compress
from bertsmith.errors import BertsmithWarning, CheckpointError, issued_warnings
from bertsmith.model.loading import load_model
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.vocabulary.origin import model_of_tokenizer

FIRST = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
TEXTS = ["the film was good", "a dull story " * 9]


def write(folder, files):
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(json.dumps(value))


@pytest.fixture
def folder(tmp_path):
    issued_warnings.clear()
    folder = tmp_path / "s"
    save_tiny(folder / "0_Transformer", "masked_lm")
    kinds = {"0_Transformer": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    write(
        folder,
        {
            "modules.json": modules,
            "1_Pooling/config.json": FIRST,
            "config.json": {"__version__": "0.4.1"},
            "0_Transformer/sentence_bert_config.json": {"max_seq_length": 9},
        },
    )
    return folder


def read(path, **options):
    return Predictor.load(path, TextVectors, device="cpu", precision="fp32", **options)


def vectors_of(folder):
    """The first tokens' vectors of at most nine tokens, of length 1."""
    inner = read(folder / "0_Transformer", pooling="first_token", max_length=9)
    found = inner.encode(TEXTS)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_the_model_is_read_from_its_folder_and_the_pooling_from_beside_it(folder):
    np.testing.assert_allclose(read(folder).encode(TEXTS), vectors_of(folder), atol=1e-6)
    expected = load_model(folder / "0_Transformer").state_dict()
    assert load_model(folder).state_dict().keys() == expected.keys()


def test_the_tokenizer_is_read_from_the_folder_of_the_model(folder):
    inner = load_tokenizer(folder / "0_Transformer")
    assert load_tokenizer(folder).fingerprint == inner.fingerprint
    assert model_of_tokenizer(folder) == folder
    (folder / "0_Transformer" / "config.json").unlink()
    with refuses(CheckpointError, str(folder / "modules.json"), "folder 0_Transformer"):
        load_tokenizer(folder)


@pytest.mark.parametrize("has_pooling", [True, False])
def test_a_chosen_pooling_is_that_of_a_copy(folder, tmp_path, has_pooling):
    if not has_pooling:
        modules = json.loads((folder / "modules.json").read_text())
        write(folder, {"modules.json": [modules[0], modules[2]]})
        (folder / "1_Pooling" / "config.json").unlink()
    (folder / "config.json").unlink()  # of the library's version, not of the model
    settings = {"device": "cpu", "precision": "fp32"}
    encoder = SentenceEncoder(folder, pooling="mean", **settings)
    copy = encoder.save(tmp_path / "copy")
    expected = encoder.encode(TEXTS)
    np.testing.assert_array_equal(SentenceEncoder(copy, **settings).encode(TEXTS), expected)
    np.testing.assert_array_equal(SentenceEncoder.load(copy, **settings).encode(TEXTS), expected)
    assert not np.allclose(expected, vectors_of(folder), atol=1e-2)
    theirs = SentenceTransformer(str(copy), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(expected, theirs, atol=1e-5)


@pytest.mark.parametrize("prefix", ["sentence_transformers.models.", ""])
def test_a_smaller_copy_has_the_model_in_the_folder_itself(folder, tmp_path, prefix):
    modules = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(modules.replace("sentence_transformers.models.", prefix))
    words = ["--layers", "0,1", "--out", str(tmp_path / "out"), "--precision", "fp32"]
    compress([str(folder), *words], ["bertsmith", "compress"])
    modules = json.loads((tmp_path / "out" / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling", "2_Normalize"]
    np.testing.assert_allclose(read(tmp_path / "out").encode(TEXTS), vectors_of(folder), atol=1e-6)


def test_who_names_the_inner_folder_is_told(folder):
    inner = folder / "0_Transformer"
    with pytest.warns(BertsmithWarning) as given:
        read(inner)
    (message,) = [str(each.message) for each in given]
    assert "pools by first_token and scales vectors to length 1" in message
    assert f"Name {folder.resolve()}" in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(inner, pooling="mean")  # as it was asked for
        read(folder)
    issued_warnings.clear()
    write(folder, {"modules.json": json.loads((folder / "modules.json").read_text())[:2]})
    write(folder, {"1_Pooling/config.json": {"pooling_mode_mean_tokens": True}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(inner)


def test_a_folder_that_is_named_and_not_there_is_told(folder):
    (folder / "0_Transformer" / "config.json").unlink()
    with refuses(CheckpointError, str(folder / "modules.json"), "folder 0_Transformer"):
        read(folder)


def move(folder, name):
    """Name another folder for the model, and move it there."""
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = name
    modules[1]["path"] += "/"
    size = load_model(folder / "0_Transformer").config.hidden_size
    pooling = {"word_embedding_dimension": size, "pooling_mode": "cls"}
    write(folder, {"modules.json": modules, "1_Pooling/config.json": pooling})
    target = folder / name
    target.parent.mkdir(exist_ok=True, parents=True)
    (folder / "0_Transformer").rename(target)


@pytest.mark.parametrize("name", ["0_Transformer/", "./0_Transformer", "enc/bert", "a/b/c/"])
def test_the_model_may_be_some_folders_deep(folder, name):
    expected = vectors_of(folder)
    move(folder, name)
    np.testing.assert_allclose(read(folder).encode(TEXTS), expected, atol=1e-6)
    issued_warnings.clear()
    with pytest.warns(BertsmithWarning) as given:
        read(folder / name)
    assert f"Name {folder.resolve()}" in str(given[0].message)
    ours = read(folder).encode(TEXTS)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_model_outside_of_its_folder_is_refused(folder, tmp_path):
    move(folder, "../elsewhere")
    with refuses(CheckpointError, str(folder / "modules.json"), "../elsewhere", str(folder)):
        read(folder)
