"""Two folders side by side: what is counted and scored is right, what is timed takes turns."""

import json

import pytest
from tiny_models import save_tiny, write_reviews

from bertsmith.errors import CheckpointError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.side_by_side import Trial, compare
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.auto import load_predictor

QUICK = {"device": "cpu", "precision": "fp32", "seconds": 0.0}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A classifier, and a smaller one."""
    place = tmp_path_factory.mktemp("models")
    labels = ("neg", "pos")
    save_tiny(place / "large", "classify", labels=labels)
    save_tiny(place / "small", "classify", labels=labels, num_hidden_layers=1)
    return place / "large", place / "small"


def test_parameters_bytes_and_scores(folders, tmp_path):
    data = write_reviews(tmp_path / "a.csv", 41)
    found = compare(*map(read_folder, folders), Trial(data, limit=37, **QUICK))
    for folder, figures in zip(folders, (found.before, found.after), strict=True):
        model = load_model(folder)
        parts = dict(figures.parameters)
        assert parts["total"] == sum(value.numel() for value in model.parameters())
        assert parts["total"] == parts["embeddings"] + parts["encoder"] + parts["pooler_and_heads"]
        assert parts["embeddings"] == sum(v.numel() for v in model.embeddings.parameters())
        assert parts["encoder"] == sum(v.numel() for v in model.layers.parameters())
        assert figures.weight_bytes == (folder / "model.safetensors").stat().st_size
        assert figures.texts_per_second > 0
        predictor = load_predictor(folder, device="cpu", precision="fp32")
        expected = evaluate(predictor, data, limit=37)
        assert figures.scores["accuracy"] == expected.accuracy
        assert figures.scores["macro_f1"] == expected.macro_f1
    assert found.before.parameters["encoder"] == 2 * found.after.parameters["encoder"]
    assert (found.num_timed, found.precision) == (37, "fp32")
    assert json.loads(json.dumps(found.to_json()))["after"]["scores"] == found.after.scores


def test_folders_without_a_task_have_no_score(tmp_path, folders):
    save_tiny(tmp_path / "bare")
    data = write_reviews(tmp_path / "a.csv", 3)
    with pytest.raises(CheckpointError, match="no classification head"):
        compare(*[read_folder(tmp_path / "bare")] * 2, Trial(data, **QUICK))
    with pytest.raises(InputError, match="no such file"):
        compare(*map(read_folder, folders), Trial(tmp_path / "none.csv", **QUICK))
