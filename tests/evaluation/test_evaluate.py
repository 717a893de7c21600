"""Scores of a model on a file, and of two models side by side."""

import pytest
from tiny_models import save_tiny, write_reviews

from bertsmith.data.examples import Columns
from bertsmith.errors import ConfigError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.side_by_side import ComparisonInput, compare_side_by_side
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.auto import load, load_predictor

QUICK = {"device": "cpu", "precision": "fp32", "seconds": 0.0}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A classifier, and a smaller one."""
    place, labels = tmp_path_factory.mktemp("models"), ("neg", "pos")
    save_tiny(place / "large", "classify", labels=labels)
    save_tiny(place / "small", "classify", labels=labels, num_hidden_layers=1)
    return place / "large", place / "small"


@pytest.fixture(scope="module")
def classifier(folders):
    return load(folders[0], device="cpu", precision="fp32")


def test_a_limit(classifier, tmp_path):
    path = write_reviews(tmp_path / "a.csv", 11)
    assert evaluate(classifier, path, limit=7).num_texts == 7
    with pytest.raises(ConfigError, match="--limit: found 0; allowed is a number above"):
        evaluate(classifier, path, limit=0)


def test_what_was_cut_or_skipped_is_counted(classifier, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "good " * 50 + ",pos\nbad,neg\n,neg\n")
    result = evaluate(classifier, path, Columns(skip_incomplete=True))
    assert (result.num_texts, result.num_truncated, result.num_skipped) == (2, 0, 1)
    assert result.num_windowed == 1
    classifier = load_predictor(classifier.loaded.folder.path, long_texts="cut")
    result = evaluate(classifier, path, Columns(skip_incomplete=True))
    assert (result.num_windowed, result.num_truncated) == (0, 1)
    assert "their ends had no part" in str(result)
    assert "1 rows without text or label" in str(result)


def test_two_models_side_by_side(folders, tmp_path):
    data = write_reviews(tmp_path / "a.csv", 41)
    found = compare_side_by_side(
        *map(read_folder, folders), ComparisonInput(data, limit=37, **QUICK)
    )
    for folder, figures in zip(folders, (found.before, found.after), strict=True):
        total = sum(value.numel() for value in load_model(folder).parameters())
        assert figures.parameters["total"] == total
        assert figures.weight_bytes == (folder / "model.safetensors").stat().st_size
        assert figures.texts_per_second > 0
        expected = evaluate(load_predictor(folder, device="cpu", precision="fp32"), data, limit=37)
        assert figures.scores["accuracy"] == expected.accuracy
    assert found.before.parameters["encoder"] == 2 * found.after.parameters["encoder"]
    assert (found.num_timed, found.precision) == (37, "fp32")
