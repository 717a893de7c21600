"""Similarities are those of `similarity` in Python, whatever the model's folder says of both."""

import json

import pytest
from model_server import close, serving
from tiny_models import make_sentence_encoder, save_tiny

import bertsmith

SOURCE, OTHERS = "a good film", ["a good film", "the story was very dull", "lovely"]
KINDS = [(similarity, is_scaled) for similarity in ("dot", "euclidean", "manhattan", "cosine")
         for is_scaled in (True, False)]  # fmt: skip


def name_of(similarity, is_scaled):
    return f"{similarity}-{'scaled' if is_scaled else 'plain'}"


def save_encoder(directory, similarity, is_scaled):
    folder = save_tiny(directory)
    make_sentence_encoder(folder)
    settings = {"similarity_fn_name": similarity}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    if is_scaled:
        modules = json.loads((folder / "modules.json").read_text())
        modules.append({"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"})
        (folder / "modules.json").write_text(json.dumps(modules))
    return folder


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """A server with an encoder for each way to compare, with and without a scaling module."""
    directory = tmp_path_factory.mktemp("encoders")
    folders = {name_of(*kind): save_encoder(directory / name_of(*kind), *kind) for kind in KINDS}
    with serving(folders) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: name_of(*kind))
def test_similarities_are_those_of_python(encoders, kind):
    name = name_of(*kind)
    predictor = bertsmith.load(encoders.folders[name], device="cpu", precision="fp32")
    (expected,) = predictor.similarity([SOURCE], OTHERS).tolist()
    content = {"inputs": {"source_sentence": SOURCE, "sentences": OTHERS}}
    for path in (f"/models/{name}/similarity", f"/models/{name}"):
        assert encoders.post(path, content).json == close(expected)
