"""`fit` shows what `verbose` says, and scikit-learn's copies show nothing by themselves."""

import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from test_estimators import LABELS, QUICK, TEXTS
from tiny_models import save_tiny

import bertsmith
from bertsmith.errors import ConfigError, InputError

pytestmark = pytest.mark.same_on_all_computers


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("BERTSMITH_VERBOSE", raising=False)


def shown(capsys, fit):
    capsys.readouterr()
    fit()
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_verbose_is_an_ordinary_parameter(model, capsys):
    fit = lambda **how: shown(  # noqa: E731
        capsys, lambda: bertsmith.TextClassifier(model, **QUICK, **how).fit(TEXTS, LABELS)
    )
    default, brief, detailed = fit(), fit(verbose=1), fit(verbose=2)
    assert "trained on " in default and "accuracy" in default
    assert len(brief.splitlines()) == len(default.splitlines()) < len(detailed.splitlines())
    assert fit(verbose=0) == fit(verbose=False) == ""
    with refuses(ConfigError, "verbose: found str"):
        fit(verbose="no")


def test_scikit_learns_copies_show_nothing_unless_asked(model, capsys):
    classifier = bertsmith.TextClassifier(model, **QUICK)
    how = {"cv": 2, "error_score": "raise"}
    for run in (
        lambda: cross_val_score(classifier, TEXTS, LABELS, **how),
        lambda: VotingClassifier([("a", classifier)], voting="soft").fit(TEXTS, LABELS),
        lambda: GridSearchCV(classifier, {"steps": [1]}, **how).fit(np.array(TEXTS), LABELS),
        lambda: clone(clone(classifier)).fit(TEXTS, LABELS),
    ):
        assert shown(capsys, run) == ""
    asked = clone(classifier.set_params(verbose=1))
    assert asked.get_params() == classifier.get_params()
    assert "trained on " in shown(capsys, lambda: asked.fit(TEXTS, LABELS))


def test_a_variable_silences_all_calls_that_do_not_say(model, capsys, monkeypatch):
    monkeypatch.setenv("BERTSMITH_VERBOSE", "0")
    classifier = bertsmith.TextClassifier(model, **QUICK)
    assert shown(capsys, lambda: classifier.fit(TEXTS, LABELS)) == ""
    assert shown(capsys, lambda: classifier.fit(TEXTS, LABELS, show_progress=True))
    assert shown(capsys, lambda: classifier.set_params(verbose=1).fit(TEXTS, LABELS))


@pytest.mark.parametrize("value", ["abc", "-1", "3", "1.5", "true"])
def test_another_value_of_the_variable_is_refused(model, monkeypatch, value):
    monkeypatch.setenv("BERTSMITH_VERBOSE", value)
    with refuses(ConfigError, "BERTSMITH_VERBOSE", repr(value), "0 to show nothing"):
        bertsmith.TextClassifier(model, **QUICK).fit(TEXTS, LABELS)
    with refuses(ConfigError, "BERTSMITH_VERBOSE", repr(value), "0 to show nothing"):
        bertsmith.pretrain(["a"])


def test_all_examples_are_trained_on_without_eval(model, capsys, tmp_path):
    classifier = bertsmith.TextClassifier(model, **QUICK)
    report = shown(capsys, lambda: classifier.fit(TEXTS, LABELS, eval=None))
    assert f"trained on {len(TEXTS)} texts" in report
    assert "no example was set aside" in report
    result = classifier.result_
    assert (result.num_train, result.best_step, result.evaluation) == (len(TEXTS), 2, None)
    last = bertsmith.TextClassifier(model, **QUICK).fit(TEXTS, LABELS, eval=(TEXTS, LABELS))
    steps = last.result_.best_step  # the same weights where the last are the best
    if steps == 2:
        np.testing.assert_array_equal(last.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    folder = classifier.save(tmp_path / "d")
    card = (folder / "README.md").read_text()
    assert "## Scores" not in card and f"{len(TEXTS)} examples" in card
    with refuses(ConfigError, "patience: ", "eval examples"):
        classifier.set_params(patience=2).fit(TEXTS, LABELS, eval=None)


def test_a_run_without_eval_goes_on(model, tmp_path):
    class Stop(bertsmith.Callback):
        def on_step(self, entry, status):
            raise KeyboardInterrupt

    classifier = bertsmith.TextClassifier(model, out=tmp_path / "run", verbose=0, **QUICK)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(TEXTS, LABELS, eval=None, callbacks=[Stop()])
    classifier.set_params(resume=True).fit(TEXTS, LABELS, eval=None)
    assert classifier.result_.training.steps == 2


@pytest.mark.parametrize(
    "name", ["MultipleChoice", "QuestionAnswerer", "SentenceEncoder", "TokenClassifier"]
)
def test_every_task_can_do_without_eval(model, name):
    X, y = {
        "MultipleChoice": ([(text, ["good", "bad"]) for text in TEXTS], [0, 1] * 12),
        "QuestionAnswerer": ([("the film ?", text) for text in TEXTS], [None, *TEXTS[1:]]),
        "SentenceEncoder": (list(zip(TEXTS, TEXTS[::-1], strict=True)), None),
        "TokenClassifier": ([t.split() for t in TEXTS], [["O", "B-X"] + ["O"] * (len(t.split()) - 2)
                                                          for t in TEXTS]),
    }[name]  # fmt: skip
    fitted = getattr(bertsmith, name)(model, verbose=0, **QUICK).fit(X, y, eval=None)
    assert len(fitted.predict(X)) == len(X)
    assert (fitted.result_.evaluation, fitted.result_.num_overlap) == (None, 0)
    assert fitted.result_.best_step == QUICK["steps"]


def test_toy_data_work_or_are_refused_in_words(model):
    texts, labels = ["a good film", "a bad film"] * 10, ["pos", "neg"] * 10
    toy = bertsmith.TextClassifier(model, verbose=0, **QUICK)
    with refuses(ConfigError, "10 %", "at least 4 different examples", "X has 2", "eval=None"):
        toy.fit(texts, labels)
    assert toy.fit(texts, labels, eval=None).classes_.tolist() == ["neg", "pos"]
    assert toy.fit(texts, labels, eval=(texts, labels)).result_.num_train == 20
    four = ["good", "fine", "bad", "dull"]
    assert toy.fit(four, ["pos", "pos", "neg", "neg"]).result_.num_train == 2
    answerer = bertsmith.QuestionAnswerer("none", verbose=0)
    with refuses(ConfigError, "4 different passages", "X has 1"):
        answerer.fit([(f"what {n} ?", "the film was good") for n in range(20)], ["film"] * 20)


def test_fit_takes_a_limit(model, tmp_path):
    file = tmp_path / "a.tsv"
    rows = [f"{text}\t{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    file.write_text("\n".join(["text\tlabel", *rows]))
    classifier = bertsmith.TextClassifier(model, verbose=0, **QUICK)
    for X, y in ((file, None), (TEXTS, LABELS)):
        assert classifier.fit(X, y, eval=file, limit=9).result_.num_train == 9
    assert classifier.set_params(limit=12).fit(file, eval=file).result_.num_train == 12
    with refuses(ConfigError, "limit: found 0"):
        classifier.fit(file, eval=file, limit=0)


def test_nothing_is_written_into_the_folder_of_the_model(model):
    inside = model / "films"
    with refuses(ConfigError, "is inside", "which this command reads"):
        bertsmith.TextClassifier(model, out=inside, verbose=0, **QUICK).fit(TEXTS, LABELS)
    with refuses(ConfigError, "films: inside", "the folder of the model"):
        bertsmith.load(model, task="vectors", device="cpu").save(inside)
    assert not inside.exists()


def test_the_card_of_a_saved_estimator_has_its_folders_name(model, tmp_path):
    classifier = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(TEXTS, LABELS)
    card = (classifier.save(tmp_path / "films") / "README.md").read_text()
    assert "# films" in card.split("\n")
    assert 'bertsmith.load("films")' in card
    assert '"model"' not in card
    (tmp_path / "films" / "README.md").write_text("mine")
    copied = bertsmith.load(tmp_path / "films", device="cpu").save(tmp_path / "copy")
    assert (copied / "README.md").read_text() == "mine"


NUMBERS = np.arange(len(TEXTS)) % 2
ONE_HOT = np.eye(2, dtype=int)[NUMBERS]


@pytest.mark.parametrize("y", [
    np.ones((len(TEXTS), 2)), ONE_HOT, pd.DataFrame(ONE_HOT, columns=["a", "b"]),
    [[1.0, 2.0]] * len(TEXTS), [(1, 2)] * len(TEXTS), [np.ones(2)] * len(TEXTS),
])  # fmt: skip
def test_several_numbers_for_a_text_are_refused(model, y):
    with refuses(InputError, "y: found ", "2 numbers", "Give one"):
        bertsmith.TextRegressor(model, **QUICK).fit(TEXTS, y)


@pytest.mark.parametrize(("y", "parts"), [
    (ONE_HOT, ["y: found 2 columns", "numpy.argmax(y, axis=1)"]),
    (pd.DataFrame(ONE_HOT, columns=["a", "b"]), ["y: found 2 columns", "numpy.argmax"]),
    (ONE_HOT.tolist(), ["y[0]: found list of int, int.", "numpy.argmax(y, axis=1)"]),
    ([tuple(map(bool, row)) for row in ONE_HOT], ["found list of bool, bool.", "numpy.argmax"]),
    ([["a"]] * len(TEXTS), ["y[0]: found list of str."]),
])  # fmt: skip
def test_rows_of_labels_are_refused_without_multi_label(model, y, parts):
    with refuses(InputError, "multi_label=True", *parts) as caught:
        bertsmith.TextClassifier(model, **QUICK).fit(TEXTS, y)
    assert ("argmax" in str(caught.value)) == ("argmax" in str(parts))


def test_a_matrix_of_one_column_is_that_column(model):
    for column in (NUMBERS[:, None], pd.DataFrame({"a": NUMBERS})):
        classifier = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(TEXTS, column)
        assert classifier.classes_.tolist() == [0, 1]
        regressor = bertsmith.TextRegressor(model, verbose=0, **QUICK).fit(TEXTS, column)
        assert regressor.predict(TEXTS[:2]).shape == (2,)


@pytest.mark.parametrize("labels", [LABELS, pd.Series(LABELS, name="y")])
def test_columns_found_are_those_of_the_table(model, labels):
    table = pd.DataFrame({"words": TEXTS, "y": LABELS})
    with refuses(InputError, "'words', 'y'", "text_column") as caught:
        bertsmith.TextClassifier(model, **QUICK).fit(table, labels)
    assert "'label'" not in str(caught.value)
    with refuses(InputError, "'words', 'label'", "text_column"):
        bertsmith.TextClassifier(model, **QUICK).fit(table.rename(columns={"y": "label"}), labels)
    fitted = bertsmith.TextClassifier(model, verbose=0, **QUICK)
    assert fitted.fit(table, labels, text_column="words").classes_.tolist() == sorted(set(LABELS))
