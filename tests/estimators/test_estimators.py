"""Estimators are the commands with scikit-learn's methods: any data in, one model out."""

import dataclasses
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import typing
from pathlib import Path

import datasets
import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse
from refusals import refuses
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.errors import BertsmithError, CheckpointError, ConfigError, InputError, TrainingError
from bertsmith.estimators import options
from bertsmith.estimators.estimator import NOT_PARAMETERS

QUICK = {"steps": 2, "threads": 1, "device": "cpu", "precision": "fp32", "batch_size": 4}
QUIET = {"show_progress": False}
EXAMPLES = reviews(24)
TEXTS = [example.text for example in EXAMPLES]
LABELS = [example.label for example in EXAMPLES]
FLAGS = [label == "pos" for label in LABELS]
STARS = [len(text) / 10 for text in TEXTS]
ESTIMATORS = {
    "TextClassifier": options.ClassifyOptions,
    "TextRegressor": options.RegressOptions,
    "TokenClassifier": options.TagOptions,
    "QuestionAnswerer": options.AnswerOptions,
    "MultipleChoice": options.ChooseOptions,
    "SentenceEncoder": options.EmbedOptions,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")


@pytest.fixture
def classifier(model):
    return bertsmith.TextClassifier(model, **QUICK)


@pytest.fixture(scope="module")
def fitted(model):
    return bertsmith.TextClassifier(model, **QUICK).fit(TEXTS, LABELS, **QUIET)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_are_the_settings_of_the_command(name):
    kind = getattr(bertsmith, name)
    fields = {f.name: f for f in dataclasses.fields(kind.task.settings)}
    wanted = {"model", "verbose", *fields.keys() - set(NOT_PARAMETERS)}
    assert set(kind("m").get_params()) == set(kind.__signature__.parameters) == wanted
    hints, known = (typing.get_type_hints(each) for each in (kind.task.settings, ESTIMATORS[name]))
    assert set(known) == wanted - {"model"}
    for option in known.keys() - {"out", "verbose", "class_weights", "corpus", "loss"}:
        assert known[option] == hints[option], option
        assert kind("m").get_params()[option] == fields[option].default
    with refuses(TypeError, name, "'epoch'", "'epochs'"):
        kind("m", epoch=3)
    with refuses(ConfigError, name, "'epoch'", "'epochs'"):
        kind("m").set_params(epoch=3)


NAMED = {"text_column": "review", "label_column": "stars"}
COLUMNS = {"review": TEXTS, "stars": LABELS, "unused": list(range(24))}
PANDAS = pandas.DataFrame(COLUMNS, index=range(5, 29))
DATASET = datasets.Dataset.from_dict(COLUMNS)
TABLES = {
    "pandas": PANDAS, "polars": polars.DataFrame(COLUMNS), "pyarrow": pyarrow.table(COLUMNS),
    "batch": pyarrow.record_batch(COLUMNS), "columns": COLUMNS,
    "rows": PANDAS.to_dict("records"), "streamed dataset": DATASET.to_iterable_dataset(),
}  # fmt: skip


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("kind", TABLES)
def test_any_table_gives_the_model_of_its_columns(classifier, fitted, kind):
    twin = classifier.fit(TABLES[kind], **NAMED, **QUIET)
    expected = fitted.predict_proba(TEXTS)
    np.testing.assert_array_equal(twin.predict_proba(TEXTS), expected)
    np.testing.assert_array_equal(twin.predict_proba(TABLES[kind]), expected)
    assert twin.score(TABLES[kind]) == fitted.score(TEXTS, LABELS)


@pytest.mark.parametrize("kind", ["frame and y", "columns", "generator", "file"])
def test_texts_and_labels_may_come_in_any_form(classifier, fitted, tmp_path, kind):
    PANDAS.to_csv(tmp_path / "a.csv", index=False)
    X, y, named = {
        "frame and y": (PANDAS[["review"]], PANDAS["stars"], {}),
        "columns": (DATASET["review"], DATASET["stars"], {}),
        "generator": (iter(TEXTS), iter(LABELS), {}),
        "file": (str(tmp_path / "a.csv"), None, NAMED),
    }[kind]
    twin = classifier.fit(X, y, **named, **QUIET)
    expected = fitted.predict_proba(TEXTS)
    np.testing.assert_array_equal(twin.predict_proba(iter(TEXTS)), expected)
    np.testing.assert_array_equal(
        twin.predict_proba(str(tmp_path / "a.csv"), text_column=NAMED["text_column"]), expected
    )


@pytest.mark.parametrize("labels, form", [
    (("neg", "pos"), list), ((-1, 1), np.array), ((False, True), pandas.Series), ((1.0, 2.0), list),
    ((-1, 1), pandas.DataFrame), ((-1, 1), lambda y: polars.DataFrame({"label": y})),
])  # fmt: skip
def test_labels_come_back_as_they_were_given(classifier, labels, form):
    y = [labels[label == "pos"] for label in LABELS]
    found = classifier.fit(TEXTS, form(y), **QUIET)
    assert found.classes_.tolist() == list(labels)
    predicted = found.predict(TEXTS)
    assert predicted.dtype == np.array(y).dtype
    likeliest = found.classes_[found.predict_proba(TEXTS).argmax(1)]
    assert (predicted == likeliest).all()
    assert found.score(TEXTS, y) == np.mean(predicted == y)


def test_several_labels(model):
    y = [
        ["long"] * (len(text) > 30) + ["good"] * (label == "pos")
        for text, label in zip(TEXTS, LABELS, strict=True)
    ]
    kind = bertsmith.TextClassifier(model, multi_label=True, **QUICK)
    lists = kind.fit(TEXTS, y, **QUIET)
    predicted = lists.predict(TEXTS)
    assert set().union(*predicted) <= {"good", "long"}
    names = ["long", "never", "good"]
    matrix = np.array([[name in row for name in names] for row in y], dtype=int)
    proba = lists.predict_proba(TEXTS)
    found = kind.fit(TEXTS, pandas.DataFrame(matrix, columns=["long", "never ", "good "]), **QUIET)
    assert found.classes_.tolist() == ["long", "never ", "good "]
    np.testing.assert_array_equal(found.predict_proba(TEXTS)[:, [2, 0]], proba)
    assert kind.fit(TEXTS, matrix, **QUIET).predict(TEXTS[:3]).shape == (3, 3)
    proba = kind.predict_proba(TEXTS)
    sparse = scipy.sparse.csr_matrix(matrix)
    np.testing.assert_array_equal(kind.fit(TEXTS, sparse, **QUIET).predict_proba(TEXTS), proba)
    assert kind.score(TEXTS, sparse) == kind.score(TEXTS, matrix)
    numbers = {"good": 9, "long": 10}
    counted = kind.fit(TEXTS, [{numbers[name] for name in row} for row in y], **QUIET)
    assert counted.classes_.tolist() == [9, 10]
    assert all(isinstance(label, int) for row in counted.predict(TEXTS) for label in row)


def test_a_set_of_labels_of_several_kinds_is_refused(model):
    classifier = bertsmith.TextClassifier(model, multi_label=True, **QUICK)
    with refuses(InputError, "y: found labels of several kinds (int, str)"):
        classifier.fit(TEXTS, [{1, "a"}] * len(TEXTS), **QUIET)


def test_labels_that_are_equal_but_of_several_kinds_are_refused(model):
    labels = [True, 1, False, 0] * (len(TEXTS) // 4 + 1)
    with refuses(InputError, "y: found labels of several kinds (bool, int)"):
        bertsmith.TextClassifier(model, **QUICK).fit(TEXTS, labels[: len(TEXTS)], **QUIET)


def test_labels_are_weighed(model):
    weighed = [
        bertsmith.TextClassifier(model, class_weights=weights, **QUICK).fit(TEXTS, FLAGS, **QUIET)
        for weights in ("balanced", {np.True_: 9.0}, ["true=9"], "true=9", None, ())
    ]
    balanced, by_label, by_name, by_word, by_none, unweighed = (
        each.predict_proba(TEXTS) for each in weighed
    )
    np.testing.assert_array_equal(by_label, by_name)
    np.testing.assert_array_equal(by_word, by_name)
    np.testing.assert_array_equal(by_none, unweighed)
    assert not np.array_equal(balanced, by_name)


def test_names_of_columns_may_be_numbers(classifier):
    frame = pandas.DataFrame({0: TEXTS, 1: [int(flag) for flag in FLAGS]})
    classifier.fit(frame, text_column="0", label_column="1", **QUIET)
    assert classifier.predict(TEXTS).dtype == np.int64


@pytest.mark.same_on_all_computers
def test_a_fitted_model_outlives_forks_and_keeps_its_options(model, tmp_path):
    y = [[label] for label in LABELS]
    found = bertsmith.TextClassifier(model, multi_label=True, **QUICK).fit(TEXTS, y, **QUIET)
    found.predictor_ = found.predictor_.with_options(threshold=0.01)
    twin = pickle.loads(pickle.dumps(found))
    assert twin.predict(TEXTS) == found.predict(TEXTS) == [("neg", "pos")] * 24
    child = multiprocessing.get_context("fork").Process(target=sys.exit)
    child.start()
    child.join()
    assert found.save(tmp_path / "saved").is_dir()
    predictor, found = found.predictor_, None
    gc.collect()
    assert predictor.save(tmp_path / "saved again").is_dir()
    folder, predictor = predictor.loaded.folder.path, None
    gc.collect()
    assert not folder.exists()


def test_an_answer_is_found_as_whole_words():
    answerer = bertsmith.QuestionAnswerer("m")
    for passage, answer, place in (("The man said he left.", "he", 13), ("1910s", "1910", 0)):
        (found,) = answerer._row(("who?", passage), answer)["answers"]
        assert found == {"text": answer, "answer_start": place}


def test_answers_beside_a_table_are_as_those_beside_tuples(model):
    first, *_, last = words = [text.split()[0] for text in TEXTS]
    placed = {"text": first, "answer_start": 0}
    lists = {"text": [last], "answer_start": [0]}
    table = pandas.DataFrame(PASSAGES, columns=["question", "context"])
    y = [placed, None, *[[word] for word in words[2:8]], *words[8:-1], lists]
    found = bertsmith.QuestionAnswerer(model, **QUICK).fit(table, y, eval=(table, y), **QUIET)
    twin = bertsmith.QuestionAnswerer(model, **QUICK)
    y[-1] = last
    twin.fit(PASSAGES, y, eval=(PASSAGES, y), **QUIET)
    assert str(found.result_.evaluation) == str(twin.result_.evaluation)
    assert found.score(table, y) == twin.score(PASSAGES, y)
    assert found.score(table[:9], [None] * 9) == twin.score(PASSAGES[:9], [None] * 9)


def test_a_run_that_fails_names_no_file_that_is_removed(model, tmp_path):
    found = bertsmith.TextClassifier(model, **QUICK | {"learning_rate": 1e38, "steps": 9})
    with refuses(TrainingError, worded=False) as failed:
        found.fit(TEXTS, LABELS, **QUIET)
    assert "failure.json" not in str(failed.value)
    with refuses(TrainingError, f"{tmp_path}/run/failure.json", worded=False):
        found.set_params(out=tmp_path / "run").fit(TEXTS, LABELS, **QUIET)
    assert (tmp_path / "run" / "failure.json").exists()


def test_every_row_is_predicted_though_some_were_skipped(classifier):
    frame = pandas.DataFrame({"text": TEXTS, "label": [None, *LABELS[1:]]})
    found = classifier.fit(frame, skip_incomplete=True, **QUIET)
    frame.loc[3, "text"] = None
    with refuses(InputError, "row 4 ", "'text'", "skip_incomplete"):
        found.predict(frame)
    assert len(found.predict(frame, skip_incomplete=True)) == 23


WORDS = [text.split() for text in TEXTS]
TAGS = [["B-X" if len(word) > 4 else "O" for word in words] for words in WORDS]
PASSAGES = [("the film ?", text) for text in TEXTS]
TASKS = {
    "TextRegressor": (TEXTS, STARS),
    "pairs": (list(zip(TEXTS, TEXTS[::-1], strict=True)), STARS),
    "TokenClassifier": (WORDS, TAGS),
    "entities": (TEXTS, [[{"start": 0, "end": 1, "label": "X"}], *[[]] * 11] * 2),
    "QuestionAnswerer": (PASSAGES, [text.split()[0] for text in TEXTS]),
    "no answers": (PASSAGES, [None, *[text.split()[:1] for text in TEXTS[1:]]]),
    "MultipleChoice": ([(text, ["good", "bad film"]) for text in TEXTS], [0, 1] * 12),
    "SentenceEncoder": (list(zip(TEXTS, TEXTS[::-1], strict=True)), STARS),
    "partners": (list(zip(TEXTS, TEXTS[::-1], TEXTS[1:] + TEXTS[:1], strict=True)), None),
}
KINDS = {"pairs": "TextRegressor", "entities": "TokenClassifier", "no answers": "QuestionAnswerer",
         "partners": "SentenceEncoder"}  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_every_task_fits_predicts_scores_and_is_saved(model, tmp_path, task, capsys):
    X, y = TASKS[task]
    found = getattr(bertsmith, KINDS.get(task, task))(model, **QUICK).fit(X, y, eval=(X, y))
    assert str(found.result_.evaluation).splitlines()[0] in capsys.readouterr().err
    items = X if task != "partners" else [pair[:2] for pair in X]
    predicted = found.predict(items, batch_size=5)
    assert len(predicted) == len(X)
    assert isinstance(found.score(X, y), float)
    assert str(found.evaluate(X, y)) == str(found.result_.evaluation)
    loaded = bertsmith.load(found.save(tmp_path / "m"), device="cpu", precision="fp32")
    twin = pickle.loads(pickle.dumps(found))
    for one, other in zip(predicted, twin.predict(items), strict=True):
        assert one == pytest.approx(other, abs=1e-5) if isinstance(one, float) else one == other
    answers = [prediction.answer for prediction in loaded(items)]
    assert answers == pytest.approx(list(predicted)) if isinstance(answers[0], float) else [
        list(a) if isinstance(a, tuple) else a for a in answers] == list(predicted)  # fmt: skip
    assert twin.save(tmp_path / "twin").is_dir()
    if task == "SentenceEncoder":
        vectors = found.transform(TEXTS)
        assert vectors.shape == (24, 24)
        cosines = [found.similarity(TEXTS[:2], each[:3]) for each in (vectors, TEXTS)]
        np.testing.assert_allclose(*cosines, atol=1e-6)
    if task == "MultipleChoice":
        frame = pandas.DataFrame(X, columns=["z", "choices"])
        named = found.predict_proba(frame, text_column="z")
        np.testing.assert_array_equal(named, found.predict_proba(X))


FRAME = pandas.DataFrame({"text": TEXTS, "label": LABELS})
REFUSED = {
    "no labels": ((TEXTS,), {}, "y: ", "X: list of str", "fit(texts, labels)"),
    "lengths": ((TEXTS, LABELS[1:]), {}, "y: found 23 ", "X has 24"),
    "kinds": ((TEXTS, [1, *LABELS[1:]]), {}, "y: ", "(int, str)"),
    "lists": ((TEXTS, [[label] for label in LABELS]), {}, "y[0]: ", "multi_label=True"),
    "None": (([None, *TEXTS[1:]], LABELS), {}, "row 1 ", "'text'", "skip_incomplete"),
    "column": ((FRAME,), {"text_column": "body"}, "'body'", "'text', 'label'", "text_column"),
    "option": ((FRAME,), {"txt_column": "text"}, "'txt_column'", "'text_column'"),
    "tuple": ((("a film", "a story"), ["pos", "neg"]), {}, "X: ", "[(a, b)]"),
    "triple": (([("a", "b", "c")] * 24, LABELS), {}, "X: ", "3 values"),
    "file": (("none.csv",), {}, "'none.csv': "),
    "text": ((TEXTS[0] * 99, "pos"), {}, "story the film", "[text, ...]"),
    "file and y": ((Path("none.csv"), LABELS), {}, "y: ", "label_column"),
    "name as y": ((FRAME, "label"), {}, "y: ", "'label'", "label_column"),
    "tables": (({"train": FRAME},), {}, "('train')", "data['train']"),
    "lazy table": ((polars.LazyFrame(FRAME),), {}, "found LazyFrame", "frame.collect()"),
    "weights": ((FRAME,), {"sample_weight": [1] * 24}, "sample_weight: ", "class_weights"),
    "few": ((TEXTS[:2] * 10, ["a", "b"] * 10), {}, "10 %", "at least 4 ", " has 2", "eval=None"),
    "share": ((TEXTS, LABELS), {"eval": np.float32(1.5)}, "eval: found 1.5", "above 0"),
    "short eval": ((TEXTS, LABELS), {"eval": (TEXTS[:5], LABELS[:4])}, "eval: y: found 4 ", "5"),
    "no eval": ((TEXTS, LABELS), {"eval": False}, "eval: found False", "0.1", "(X, y)"),
    "dicts": ((TEXTS, [{"is": label} for label in LABELS]), {}, "y[0]: found dict"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_fitted_is_refused(classifier, name):
    given, more, *parts = REFUSED[name]
    with refuses(BertsmithError, *parts) as refused:
        classifier.fit(*given, **{**QUIET, **more})
    assert isinstance(refused.value, ValueError)
    assert "--" not in str(refused.value)


@pytest.mark.parametrize(("labels", "columns", "parts"), [
    (["A", "B"] * 12, {}, ["y: found 'A'", "counted from 0"]),
    ([1, 2] * 12, {"first_label": 1}, ["first_label: found 1", "counts choices from 0"]),
])  # fmt: skip
def test_choices_are_counted_as_they_are_predicted(model, labels, columns, parts):
    """Else scikit-learn would compare them with other numbers, or with letters."""
    chooser = bertsmith.MultipleChoice(model, **QUICK)
    prompts = [(text, ["good", "bad film"]) for text in TEXTS]
    with refuses(InputError, *parts):
        chooser.fit(prompts, labels, **QUIET, **columns)


@pytest.mark.parametrize(("name", "X", "y", "parts"), [
    ("MultipleChoice", [(text, "good") for text in TEXTS], [0] * 24, ["X: found str", "choices"]),
    ("MultipleChoice", [(text, 5) for text in TEXTS], [0] * 24, ["X: found int 5", "choices"]),
    ("TokenClassifier", WORDS, [3] * 24, ["y: found int 3", "['story'", "list of labels"]),
    ("TokenClassifier", WORDS, ["OOO"] * 24, ["y: found str", "['story'", "list of labels"]),
    ("TokenClassifier", [7] * 24, [["O"]] * 24, ["X: found int 7", "list of words"]),
])  # fmt: skip
def test_items_and_labels_of_another_form_are_refused(model, name, X, y, parts):
    with refuses(InputError, *parts):
        getattr(bertsmith, name)(model, **QUICK).fit(X, y, **QUIET)


@pytest.mark.parametrize("settings, parts", [
    ({"epochs": "3", "steps": None}, ["epochs: found '3'"]), ({"metric": "f1"}, ["found 'f1'"]),
    ({"dropout": 2.0}, ["dropout: found 2.0", "below 1"]), ({"epochs": 1.0}, ["epochs and steps"]),
    ({"class_weights": {"new": 3}}, ["class_weights: found 'new'", "neg, pos"]),
    ({"class_weights": "Balanced"},
     ["class_weights: found 'Balanced'", "class_weights='balanced'", "class_weights={'neg': 3}"]),
    ({"class_weights": 3}, ["TextClassifier: class_weights: found 3", "{'spam': 3}"]),
    ({"class_weights": [3, "p=2"]}, ["class_weights: found [3, 'p=2']", "{'spam': 3}"]),
    ({"class_weights": {"neg": None}}, ["class_weights: found 'neg=None'", "a number"]),
    ({"model": None}, ["model: found NoneType", '"org/name"']),
])  # fmt: skip
def test_settings_that_cannot_be_met(model, settings, parts):
    is_pydantics = settings.keys() & {"steps", "metric"}  # what is wrong with a value's type
    with refuses(ConfigError, *parts, worded=not is_pydantics):
        bertsmith.TextClassifier(**{"model": model} | QUICK | settings).fit(TEXTS, LABELS, **QUIET)


def test_what_cannot_be_predicted_is_refused(fitted, tmp_path):
    assert fitted.predict([]).tolist() == []
    (tmp_path / "a.txt").write_text("1\ta film\n")
    with refuses(ConfigError, "text_column: ", "a.txt is read as txt"):
        fitted.predict(str(tmp_path / "a.txt"), text_column="2")
    for given, *parts in (({},), ("a film", "'a film': ", "[text, ...]"),
                          (["a", None], "examples[1]: 'text': found NoneType"),
                          (FRAME[["label"]], "'label'", "text_column"),
                          (pyarrow.table([TEXTS, TEXTS], ["text"] * 2), "'text'"),
                          (("a", "b"), "X: ", "[(a, b)]")):  # fmt: skip
        with refuses(InputError, *parts):
            fitted.predict(given)
    with refuses(InputError, "row 1 ", "'new'", "'neg', 'pos'"):
        fitted.score(["a film"], ["new"])
    with refuses(ConfigError, "batch_size: found 0", "above 0"):
        fitted.predict(["a"], batch_size=0)
    with refuses(InputError, "y: found None", "['story'"):
        bertsmith.TokenClassifier("m").fit(WORDS, [None] * 24, **QUIET)
    with refuses(CheckpointError, "runs/none: ") as refused:
        bertsmith.TextClassifier("runs/none").fit(TEXTS, LABELS, **QUIET)
    assert isinstance(refused.value, ValueError)


class Interrupt(bertsmith.Callback):
    """Presses Ctrl-C in the first step."""

    def on_step(self, entry, status):
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_stops_a_search_and_keeps_what_has_a_folder(model, tmp_path):
    found = bertsmith.TextClassifier(model, **QUICK | {"steps": 3})
    with refuses(KeyboardInterrupt, "fit: ", "out="):
        found.fit(TEXTS, LABELS, callbacks=[Interrupt()], **QUIET)
    found.set_params(out=tmp_path / "run")
    with refuses(KeyboardInterrupt, "run: ", "step 1,", "resume=True"):
        found.fit(TEXTS, LABELS, callbacks=[Interrupt()], **QUIET)
    assert found.set_params(resume=True).fit(TEXTS, LABELS, **QUIET).result_.training.steps == 3


def test_folders_of_runs_are_kept_as_those_of_the_command(model, fitted, tmp_path):
    kept = bertsmith.TextClassifier(model, out=str(tmp_path / "run"), **QUICK)
    kept.fit(TEXTS, LABELS, **QUIET)
    assert (tmp_path / "run" / "run.json").exists()
    with refuses(ConfigError, "run: ", "resume", "overwrite", " out."):
        kept.fit(TEXTS, LABELS, **QUIET)
    assert kept.set_params(overwrite=True).fit(TEXTS, LABELS, **QUIET) is kept
    with refuses(ConfigError, "run: ", "overwrite=True"):
        fitted.save(tmp_path / "run")


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("check", [
    "check_estimator_cloneable", "check_estimator_repr", "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params", "check_get_params_invariance",
    "check_set_params", "check_valid_tag_types", "check_estimator_tags_renamed",
    "check_mixin_order",
])  # fmt: skip
def test_its_own_checks_where_texts_allow_them(name, check):
    getattr(estimator_checks, check)(name, getattr(bertsmith, name)("runs/none"))


def test_copies_have_the_same_parameters_and_are_not_fitted(classifier):
    changed = classifier.set_params(epochs=None, class_weights={True: 2.0})
    assert clone(changed).get_params() == changed.get_params()
    array = bertsmith.TextClassifier("m", class_weights=np.array([1.0, 2.0]))  # refused by `fit`
    assert repr(array) == "TextClassifier('m', class_weights=array([1., 2.]))"
    assert is_classifier(changed) and is_regressor(bertsmith.TextRegressor("m"))
    with pytest.raises(NotFittedError):
        check_is_fitted(changed)
    for use in (changed.predict, changed.save):
        with refuses(NotFittedError, "TextClassifier", "TextClassifier.load"):
            use(TEXTS)
    check_is_fitted(changed.fit(TEXTS, FLAGS, **QUIET))
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(changed))


def test_cross_validation(classifier):
    how = {"params": QUIET, "scoring": "roc_auc"}
    scores = cross_val_score(classifier, TEXTS, FLAGS, cv=StratifiedKFold(2), **how)
    assert len(scores) == 2
    assert (scores >= 0).all()


def test_pipelines_and_searches(classifier):
    folds = [np.arange(24).reshape(2, 12)]
    steps = [("clean", FunctionTransformer(np.char.lower)), ("bert", classifier)]
    search = GridSearchCV(Pipeline(steps), {"bert__steps": np.array([1, 2])}, cv=folds)
    search.fit(np.array(TEXTS), FLAGS, bert__show_progress=False)
    weights = GridSearchCV(classifier, {"class_weights": [None, "balanced"]}, cv=folds)
    weights.fit(TEXTS, FLAGS, show_progress=False)
    assert np.isfinite(weights.cv_results_["mean_test_score"]).all()
    assert search.best_params_["bert__steps"] in (1, 2)
    assert set(search.predict(np.array(TEXTS))) <= {0, 1}
    assert search.predict_proba(np.array(TEXTS)).shape == (24, 2)
