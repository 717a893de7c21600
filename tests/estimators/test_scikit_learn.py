"""scikit-learn's tools take our estimators for its own."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted
from tiny_models import reviews, save_tiny

import bertsmith

QUICK = {"steps": 2, "threads": 1, "device": "cpu", "precision": "fp32", "batch_size": 4}
QUIET = {"show_progress": False}
TEXTS = [example.text for example in reviews(18)]
LABELS = [int(example.label == "pos") for example in reviews(18)]
NAMES = ["TextClassifier", "TextRegressor", "TokenClassifier", "QuestionAnswerer",
         "MultipleChoice", "SentenceEncoder"]  # fmt: skip


@pytest.fixture(scope="module")
def estimator(tmp_path_factory):
    model = save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")
    return bertsmith.TextClassifier(model, **QUICK)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("check", [
    "check_estimator_cloneable", "check_estimator_repr", "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params", "check_get_params_invariance",
    "check_set_params", "check_valid_tag_types", "check_estimator_tags_renamed",
    "check_mixin_order",
])  # fmt: skip
def test_its_own_checks_where_texts_allow_them(name, check):
    getattr(estimator_checks, check)(name, getattr(bertsmith, name)("runs/none"))


def test_copies_have_the_same_parameters_and_are_not_fitted(estimator):
    changed = clone(estimator).set_params(epochs=None, class_weights={"1": 2.0})
    assert clone(changed).get_params() == changed.get_params()
    assert is_classifier(changed) and is_regressor(bertsmith.TextRegressor("m"))
    with pytest.raises(NotFittedError):
        check_is_fitted(changed)
    for use in (changed.predict, changed.save):
        with pytest.raises(NotFittedError, match="TextClassifier is not fitted yet"):
            use(TEXTS)
    check_is_fitted(changed.fit(TEXTS, LABELS, **QUIET))
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(changed))


def test_cross_validation(estimator):
    scores = cross_val_score(
        estimator, TEXTS, LABELS, cv=StratifiedKFold(2), params=QUIET, scoring="roc_auc"
    )
    assert len(scores) == 2
    assert (scores >= 0).all()


def test_pipelines_and_searches(estimator):
    folds = [np.arange(18).reshape(2, 9)]
    steps = [("clean", FunctionTransformer(np.char.lower)), ("bert", clone(estimator))]
    search = GridSearchCV(Pipeline(steps), {"bert__steps": np.array([1, 2])}, cv=folds)
    search.fit(np.array(TEXTS), LABELS, bert__show_progress=False)
    assert search.best_params_["bert__steps"] in (1, 2)
    assert set(search.predict(np.array(TEXTS))) <= {0, 1}
    assert search.predict_proba(np.array(TEXTS)).shape == (18, 2)
