"""Clients that these tests' Python cannot have beside the rest: npm's, Triton's and KServe's.

They are looked for in the folder that BERTSMITH_CLIENTS names. These commands make one, in it:

    npm install @huggingface/inference openai
    python -m venv venv && venv/bin/pip install 'tritonclient[http]' kserve
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from model_server import close

SCRIPTS = Path(__file__).parent / "foreign"
CLIENTS = Path(os.environ.get("BERTSMITH_CLIENTS", SCRIPTS / "absent"))
TEXT = "a good film"
TEXTS = [TEXT, "the story was very dull"]
CONTEXT = "the story was good and the film was very dull and awful ."


def output_of(*words):
    """Run a client's script; gives the JSON that it printed."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def found_by_node(server):
    node = shutil.which("node")
    if node is None or not (CLIENTS / "node_modules" / "@huggingface" / "inference").is_dir():
        pytest.skip("no clients of npm; this file says how to get them")
    return output_of(node, SCRIPTS / "clients.cjs", CLIENTS, server.address)


@pytest.fixture(scope="module")
def found_by_triton(server):
    python = CLIENTS / "venv" / "bin" / "python"
    if not python.exists():
        pytest.skip("no client of Triton; this file says how to get it")
    return output_of(python, SCRIPTS / "triton.py", server.address)


@pytest.fixture(scope="module")
def found_by_kserve(server):
    python = CLIENTS / "venv" / "bin" / "python"
    if not list(CLIENTS.glob("venv/lib/*/site-packages/kserve")):
        pytest.skip("no client of KServe; this file says how to get it")
    return output_of(python, SCRIPTS / "kserve_client.py", server.address)


def test_the_inference_client_of_npm_reads_every_head(found_by_node, server, local):
    found = found_by_node

    def sent(name, content):
        return server.post(f"/models/{name}", content).json

    assert found["fillMask"] == sent("masked_lm", {"inputs": "the [MASK] was dull"})
    assert found["textClassification"] == sent("classify", {"inputs": TEXT})[0]
    assert found["textClassification"][0]["label"] == local("classify")(TEXT).label
    assert found["tokenClassification"] == sent("tag", {"inputs": CONTEXT}) != []
    best = local("answer")("the film ?", CONTEXT).best
    answer = found["questionAnswering"]
    assert (answer["answer"], answer["start"], answer["end"]) == best
    np.testing.assert_allclose(
        found["featureExtraction"], unit(local("vectors").encode([TEXT])), atol=1e-5
    )
    vectors = unit(local("embed").encode([TEXT, "a bad film", "lovely"]))
    assert found["sentenceSimilarity"] == close((vectors[1:] @ vectors[0]).tolist())
    parameters = {"candidate_labels": ["good", "bad"], "multi_label": True}
    assert found["zeroShotClassification"] == sent(
        "nli", {"inputs": CONTEXT, "parameters": parameters}
    )
    assert "found no [MASK] in it" in found["refusal"]


def test_the_openai_client_of_npm_reads_vectors(found_by_node, local):
    expected = local("vectors").encode([TEXT, CONTEXT])
    np.testing.assert_allclose(found_by_node["embeddings"], unit(expected), atol=1e-5)
    np.testing.assert_allclose([found_by_node["dimensions"]], unit(expected[:1, :5]), atol=1e-5)
    assert found_by_node["tokens"] == 5 + 15
    assert found_by_node["openaiRefusal"].startswith("404 there is no model 'none'")


def test_the_client_of_triton_sends_and_reads_both_forms_of_tensors(found_by_triton, local):
    found = found_by_triton
    assert [found[name] for name in ("live", "ready", "model_ready", "other_ready", "id")] == [
        True, True, True, False, "7",
    ]  # fmt: skip
    assert found["server"]["extensions"] == ["binary_tensor_data"]
    assert [one["name"] for one in found["model"]["outputs"]] == ["label", "probabilities"]
    vectors = unit(local("vectors").encode(TEXTS))
    predictions = local("classify")(TEXTS)
    for form in (True, False):
        np.testing.assert_allclose(found[f"vectors_{form}"], vectors, atol=1e-5)
        labels, probabilities = found[f"classes_{form}"]
        assert labels == [one.label for one in predictions]
        assert probabilities == [close(list(one.probabilities.values())) for one in predictions]
    pairs = local("classify")([(TEXTS[0], "lovely"), (TEXTS[1], "a film")])
    assert found["pairs"][0] == [one.label for one in pairs]
    assert len(found["masks"]) == 5
    status, message = found["refusal"]
    assert (status, "found no tensor 'text'" in message) == ("422", True)


def test_the_client_of_kserve_reads_vectors_and_classes(found_by_kserve, local):
    found = found_by_kserve
    assert [found[name] for name in ("live", "ready", "model_ready", "id")] == [True] * 3 + ["7"]
    vectors = unit(local("vectors").encode(TEXTS))
    np.testing.assert_allclose(found["vectors"]["vectors"], vectors, atol=1e-5)
    predictions = local("classify")(TEXTS)
    assert found["classify"]["label"] == [one.label for one in predictions]
    assert found["classify"]["probabilities"] == [
        close(list(one.probabilities.values())) for one in predictions
    ]
    assert "found no tensor 'text'" in found["refusal"]
