"""Scores of a model on a file, as figures, as text and as JSON."""

import pytest
import sklearn.metrics
from tiny_models import reviews, save_tiny, write_reviews

from bertsmith.data.examples import Columns
from bertsmith.errors import ConfigError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.tasks.auto import load, load_predictor


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = save_tiny(tmp_path_factory.mktemp("model"), "classify", labels=("neg", "pos"))
    return load(folder, device="cpu", precision="fp32")


def test_figures_are_those_of_the_predictions(classifier, tmp_path):
    result = evaluate(classifier, write_reviews(tmp_path / "a.csv", 41))
    true = [example.label for example in reviews(41)]
    predicted = [row.label for row in classifier([example.text for example in reviews(41)])]
    assert result.accuracy == sklearn.metrics.accuracy_score(true, predicted)
    assert result.macro_f1 == sklearn.metrics.f1_score(true, predicted, average="macro")
    assert result.matthews_correlation == sklearn.metrics.matthews_corrcoef(true, predicted)
    confusion = sklearn.metrics.confusion_matrix(true, predicted)
    assert [list(row) for row in result.confusion] == confusion.tolist()
    assert [row.label for row in result.classes] == ["neg", "pos"]
    assert result.num_texts == sum(row.support for row in result.classes) == 41


def test_a_limit(classifier, tmp_path):
    path = write_reviews(tmp_path / "a.csv", 11)
    assert evaluate(classifier, path, limit=7).num_texts == 7
    for limit in (0, -1):
        with pytest.raises(ConfigError, match=f"--limit: found {limit}; allowed is a number above"):
            evaluate(classifier, path, limit=limit)


def test_what_was_cut_or_skipped_is_counted(classifier, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "good " * 50 + ",pos\nbad,neg\n,neg\n")
    result = evaluate(classifier, path, Columns(skip_incomplete=True))
    assert (result.num_texts, result.num_truncated, result.num_skipped) == (2, 0, 1)
    assert result.num_windowed == 1
    assert "1 texts were longer than the model reads and were read in windows" in str(result)
    classifier = load_predictor(classifier.loaded.folder.path, long_texts="cut")
    result = evaluate(classifier, path, Columns(skip_incomplete=True))
    assert (result.num_windowed, result.num_truncated) == (0, 1)
    assert "their ends had no part" in str(result)
    assert "1 rows without text or label" in str(result)


def test_an_unknown_label(classifier, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\ngood,pos\nbad,negative\n")
    with pytest.raises(InputError, match=r"a\.csv:3: .*'negative'.*Known labels: 'neg', 'pos'"):
        evaluate(classifier, path)
