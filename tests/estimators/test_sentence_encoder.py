"""A sentence encoder is a step of scikit-learn's pipelines."""

import pickle

import numpy as np
import pandas
import polars
import pytest
from refusals import refuses
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.errors import BertsmithWarning, CheckpointError, ConfigError, InputError
from bertsmith.errors.notices import issued_warnings

QUICK = {"steps": 2, "threads": 1, "device": "cpu", "precision": "fp32", "batch_size": 4}
EXAMPLES = reviews(16)
TEXTS = [example.text for example in EXAMPLES]
LABELS = [example.label for example in EXAMPLES]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")


@pytest.fixture
def encoder(model):
    return bertsmith.SentenceEncoder(model, verbose=0, threads=1, device="cpu", precision="fp32")


def test_a_published_encoder_needs_no_fit(encoder, model):
    expected = bertsmith.load(model, task="vectors", device="cpu", precision="fp32").encode(TEXTS)
    np.testing.assert_array_equal(encoder.transform(TEXTS), expected)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
    check_is_fitted(encoder)
    assert not hasattr(encoder, "predictor_")
    with refuses(CheckpointError, "none: ", worded=False):
        encoder.set_params(model="none").transform(TEXTS)


def test_a_published_encoder_is_scored_without_fit(encoder):
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    cosines = encoder.predict(pairs)
    vectors = encoder.encode(TEXTS).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(cosines, (vectors * vectors[::-1]).sum(1), atol=1e-6)
    report = encoder.evaluate(pairs)
    assert report.num_queries == len(set(TEXTS))
    assert encoder.score(pairs) == report.mrr
    scores = np.linspace(0, 1, len(pairs))
    assert encoder.evaluate(pairs, scores).num_pairs == len(pairs)
    for metric, labels, allowed in (("mrr", scores, "pearson"), ("spearman", None, "recall_at_1")):
        with refuses(ConfigError, f"metric: found '{metric}'", allowed, "set_params"):
            encoder.set_params(metric=metric).score(pairs, labels)
    encoder.set_params(metric="score")
    first = encoder.set_params(pooling="first_token")
    vectors = first.encode(TEXTS).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(first.predict(pairs), (vectors * vectors[::-1]).sum(1), atol=1e-6)
    assert np.abs(first.predict(pairs) - cosines).max() > 1e-3


def test_a_chosen_pooling_is_that_of_all_vectors_and_copies(encoder, tmp_path):
    pair = [(TEXTS[0], TEXTS[1])]
    (by_mean,) = encoder.predict(pair)
    encoder.set_params(pooling="first_token").fit(TEXTS)
    (cosine,) = encoder.predict(pair)
    assert abs(cosine - by_mean) > 1e-3
    assert encoder.similarity(*pair[0]) == pytest.approx(cosine, abs=1e-6)
    assert encoder.predictor_.similarity(*pair[0]) == pytest.approx(cosine, abs=1e-6)
    twin = pickle.loads(pickle.dumps(encoder))
    assert twin.predict(pair) == pytest.approx(cosine, abs=1e-6)
    folder = encoder.save(tmp_path / "m")
    for copy in (
        bertsmith.SentenceEncoder(folder, device="cpu", precision="fp32"),
        bertsmith.SentenceEncoder.load(folder, device="cpu", precision="fp32"),
    ):
        assert copy.predict(pair) == pytest.approx(cosine, abs=1e-6)
        np.testing.assert_array_equal(copy.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.parametrize("form", [
    list, tuple, np.array, pandas.Series, polars.Series, iter,
    lambda texts: pandas.DataFrame({"a": texts}), lambda texts: np.array(texts)[:, None],
])  # fmt: skip
def test_single_texts_leave_it_as_it_is(encoder, form):
    before = encoder.transform(TEXTS)
    X = TEXTS if form is iter else form(TEXTS)
    np.testing.assert_array_equal(encoder.fit_transform(form(TEXTS), LABELS), before)
    np.testing.assert_array_equal(encoder.transform(X), before)
    check_is_fitted(encoder)


def test_pairs_train_it(encoder):
    before = encoder.transform(TEXTS)
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    of_pairs = encoder.set_params(**QUICK).fit(pairs, eval=None).transform(TEXTS)
    of_scores = encoder.fit(pairs, np.linspace(0, 1, len(pairs)), eval=None).transform(TEXTS)
    assert not np.array_equal(of_pairs, before)
    assert not np.array_equal(of_scores, of_pairs)
    assert encoder.result_.num_train == len(pairs)
    issued_warnings.clear()
    with pytest.warns(BertsmithWarning):
        encoder.fit(TEXTS)  # loads the model again, and trains nothing
    np.testing.assert_array_equal(encoder.transform(TEXTS), before)
    assert not hasattr(encoder, "result_")


def test_searches_and_copies(encoder):
    pipeline = make_pipeline(encoder, LogisticRegression())
    fitted = pipeline.fit(TEXTS, LABELS)
    assert set(fitted.predict(TEXTS)) <= {"pos", "neg"}
    assert len(cross_val_score(pipeline, TEXTS, LABELS, cv=2, error_score="raise")) == 2
    choices = {"sentenceencoder__pooling": ["mean", "first_token"], "logisticregression__C": [1.0]}
    search = GridSearchCV(pipeline, choices, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert set(search.predict(TEXTS)) <= {"pos", "neg"}
    twin = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(twin.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    means, firsts = (
        clone(encoder).set_params(pooling=pooling).transform(TEXTS)
        for pooling in ("mean", "first_token")
    )
    assert not np.array_equal(means, firsts)


def test_features_have_names_and_tables(encoder):
    names = encoder.get_feature_names_out()
    assert names[:2].tolist() == ["sentenceencoder0", "sentenceencoder1"]
    texts = pandas.Series(TEXTS, index=range(5, 21))
    frame = clone(encoder.set_output(transform="pandas")).transform(texts)
    assert frame.columns.tolist() == names.tolist() and frame.index.tolist() == [*range(5, 21)]
    table = encoder.set_output(transform="polars").transform(TEXTS)
    np.testing.assert_array_equal(table.to_numpy(), frame.to_numpy())
    columns = ColumnTransformer([("text", encoder, "a"), ("rest", "passthrough", ["b"])])
    columns.set_output(transform="pandas")
    both = columns.fit_transform(pandas.DataFrame({"a": TEXTS, "b": 1.0}))
    assert both.shape == (16, len(names) + 1)
    with refuses(ConfigError, "transform is 'numpy'"):
        encoder.set_output(transform="numpy")


def test_an_option_that_fit_does_not_have_is_refused(encoder):
    encoder.fit(TEXTS, eval=None, show_progress=False)
    with refuses(ConfigError, "epochs: ", "SentenceEncoder(…, epochs=…)"):
        encoder.fit(TEXTS, epochs=3)


def test_what_is_neither_texts_nor_pairs_is_refused(encoder):
    for given in ([1, 2], [["a"]], ("a", "b")):
        with refuses(InputError, "X: "):
            encoder.fit(given)


def test_parameters_that_train_nothing_are_named(encoder, tmp_path):
    issued_warnings.clear()
    before = encoder.transform(TEXTS)
    with pytest.warns(BertsmithWarning) as caught:
        encoder.set_params(**QUICK).fit(TEXTS)
    for part in ("no effect: steps=2, batch_size=4", "[(question, answer), …]"):
        assert part in str(caught[0].message)
    np.testing.assert_array_equal(encoder.transform(TEXTS), before)
    issued_warnings.clear()
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    encoder.fit(pairs, eval=None).save(tmp_path / "m")
    loaded = bertsmith.SentenceEncoder.load(tmp_path / "m", device="cpu", precision="fp32")
    assert loaded.steps == 2
    clone(loaded).fit(TEXTS)  # whose parameters say how it was trained: no warning


def test_one_text_is_no_list_of_texts(encoder, tmp_path):
    for given in ("abc", tmp_path):
        with refuses(InputError, "X: found ", "transform([text, ...])", "encode(text)"):
            encoder.transform(given)
    with refuses(InputError, "abc"):
        encoder.fit_transform("abc")
