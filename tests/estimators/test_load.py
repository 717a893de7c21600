"""An estimator can be loaded from a folder, and goes on as the one that was fitted."""

import gc
import pickle
import shutil

import numpy as np
import pytest
from refusals import refuses
from test_estimators import PASSAGES, QUICK, TAGS, TASKS, TEXTS, WORDS
from tiny_models import save_tiny

import bertsmith
from bertsmith.data.label_schemes import convert_labels, count_illegal
from bertsmith.errors import CheckpointError, ConfigError, InputError

HOW = {"device": "cpu", "precision": "fp32"}
ESTIMATORS = {
    "TextClassifier": (TEXTS, [len(text) > 30 for text in TEXTS]),
    "TextRegressor": TASKS["TextRegressor"],
    "TokenClassifier": (WORDS, TAGS),
    "QuestionAnswerer": (PASSAGES, [text.split()[0] for text in TEXTS]),
    "MultipleChoice": TASKS["MultipleChoice"],
    "SentenceEncoder": TASKS["SentenceEncoder"],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_loaded_estimator_is_the_fitted_one(model, tmp_path, name):
    kind, (X, y) = getattr(bertsmith, name), ESTIMATORS[name]
    fitted = kind(model, dropout=0.3, seed=5, verbose=0, **QUICK).fit(X, y)
    twin = kind.load(fitted.save(tmp_path / "d"), **HOW)
    assert list(twin.predict(X)) == list(fitted.predict(X))
    assert twin.score(X, y) == fitted.score(X, y)
    assert str(twin.evaluate(X, y)) == str(fitted.evaluate(X, y))
    assert (twin.model, twin.dropout, twin.seed) == (str(model), 0.3, 5)
    assert twin.tokenizer.vocab_size == twin.predictor_.model.config.vocab_size
    if name in ("TextClassifier", "MultipleChoice"):
        np.testing.assert_array_equal(twin.predict_proba(X), fitted.predict_proba(X))
    again = twin.set_params(verbose=0, threads=QUICK["threads"]).fit(X, y)
    assert list(again.predict(X)) == list(fitted.predict(X))


def test_a_loaded_estimator_trains_on_from_its_folder_without_the_model_it_began_with(
    model, tmp_path
):
    base = shutil.copytree(model, tmp_path / "base")
    X, y = ESTIMATORS["TextClassifier"]
    bertsmith.TextClassifier(base, out=tmp_path / "d", verbose=0, **QUICK).fit(X, y)
    shutil.rmtree(base)
    twin = bertsmith.TextClassifier.load(tmp_path / "d", **HOW)
    assert twin.get_params()["out"] is None
    assert twin.set_params(verbose=0).fit(X, y).predict(X).dtype == bool


def test_folders_of_the_command_keep_the_names_of_columns(model, tmp_path):
    file = tmp_path / "a.csv"
    rows = [f"{text},{len(text) > 30},{number}" for number, text in enumerate(TEXTS)]
    file.write_text("\n".join(["words,is_long,label", *rows]))
    named = {"text_column": "words", "label_column": "is_long"}
    fitted = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(file, **named)
    twin = bertsmith.TextClassifier.load(fitted.save(tmp_path / "d"), **HOW)
    assert twin.score(file) == fitted.score(file)
    assert twin.predictor_.evaluate(file, **named).to_json() == fitted.evaluate(file).to_json()


@pytest.mark.parametrize("changes", [{"max_length": 8}, {"precision": "int8"}])
def test_a_pickle_predicts_as_the_loaded_estimator(model, tmp_path, changes):
    X, y = ESTIMATORS["TextClassifier"]
    fitted = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(X, y)
    loaded = bertsmith.TextClassifier.load(fitted.save(tmp_path / "d"), **{**HOW, **changes})
    texts = [f"{text} {text} {text}" for text in X]
    assert not np.array_equal(loaded.predict_proba(texts), fitted.predict_proba(texts))
    loaded.set_params(max_length=None, precision="auto")  # for the next fit, not for this model
    twin = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(twin.predict_proba(texts), loaded.predict_proba(texts))


def test_an_option_that_prediction_does_not_have_is_refused(model):
    X, y = ESTIMATORS["TextClassifier"]
    classifier = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(X, y)
    with refuses(ConfigError, "threshold: ", "TextClassifier(…, threshold=…)"):
        classifier.predict(X, threshold=0.9)
    with refuses(ConfigError, "threshold: ", "TextClassifier(…, threshold=…)"):
        classifier.predict_proba(X, threshold=0.9)


def test_a_model_without_a_folder_of_its_own_outlives_a_move_to_a_device(model, tmp_path):
    X, y = ESTIMATORS["TextClassifier"]
    classifier = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(X, y)
    expected = classifier.predict_proba(X)
    classifier.predictor_.to("cpu").to("cpu")
    gc.collect()
    twin = bertsmith.TextClassifier.load(classifier.save(tmp_path / "d"), **HOW)
    np.testing.assert_array_equal(twin.predict_proba(X), expected)


def test_repair_and_split_apply_to_predictions(tmp_path):
    folder = save_tiny(tmp_path / "m", "tag", labels=("B-X", "I-X", "O"))
    X = [*WORDS, *[text.split()[::-1] for text in TEXTS]]
    tagger = bertsmith.TokenClassifier.load(folder, **HOW)
    given, repaired = tagger.predict(X), tagger.predict(X, repair=True)
    assert any(count_illegal(labels, "IOB2") for labels in given)
    assert repaired == [convert_labels(labels, "IOB2", "IOB2") for labels in given]
    table = {"words": X}
    assert tagger.predict(table, repair=True) == repaired
    assert len(tagger.predict(["good film"], split="characters")[0]) == len("goodfilm")


def test_another_task_is_refused(model, tmp_path):
    X, y = ESTIMATORS["TextRegressor"]
    folder = bertsmith.TextRegressor(model, verbose=0, **QUICK).fit(X, y).save(tmp_path / "d")
    with refuses(CheckpointError, "d: ", "'regress'", "TextClassifier"):
        bertsmith.TextClassifier.load(folder)
    with refuses(CheckpointError, "m: "):
        bertsmith.TextClassifier.load(model)


def test_a_predictor_says_what_it_can_score(model, tmp_path):
    X, y = ESTIMATORS["TextClassifier"]
    predictor = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(X, y).predictor_
    with refuses(InputError, "data: ", '{"text": texts, "label": labels}'):
        predictor.evaluate(X)
    with refuses(InputError, "nothing.csv"):
        predictor.evaluate("nothing.csv")
    with refuses(ConfigError, "txt_column"):
        predictor.evaluate({"text": X, "label": y}, txt_column="a")
    with refuses(ConfigError, "evaluate: ", "fit"):
        bertsmith.load(model, task="vectors", **HOW).evaluate({"text": X, "label": y})
