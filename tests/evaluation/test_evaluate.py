"""Scores of a model on a file: how many rows are read, and what was cut or skipped."""

import pytest
from refusals import refuses
from tiny_models import save_tiny, write_reviews

from bertsmith.data.columns import Columns
from bertsmith.errors import ConfigError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.tasks.auto import load
from bertsmith.tasks.loading import load_predictor


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = save_tiny(tmp_path_factory.mktemp("model"), "classify", labels=("neg", "pos"))
    return load(folder, device="cpu", precision="fp32")


def test_a_limit(classifier, tmp_path):
    path = write_reviews(tmp_path / "a.csv", 11)
    assert evaluate(classifier, path, limit=7).num_texts == 7
    with refuses(ConfigError, "--limit", "found 0"):
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
    assert "its end was cut off" in str(result)
    assert "1 row without text or label" in str(result)
