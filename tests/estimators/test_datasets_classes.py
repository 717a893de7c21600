"""Classes that a table of `datasets` numbers have their names, unless a task needs the numbers."""

import json

import datasets
import numpy as np
import pytest
from refusals import refuses
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.data.multiple_choice import ChoiceReader
from bertsmith.data.sentence_pairs import RelatedReader
from bertsmith.data.table_rows import TableRows
from bertsmith.errors import InputError
from bertsmith.evaluation.score import score_class_files
from bertsmith.evaluation.settings import ClassColumns

pytestmark = pytest.mark.same_on_all_computers
QUICK = {"steps": 2, "threads": 1, "device": "cpu", "precision": "fp32", "batch_size": 4}
EXAMPLES = reviews(24)
TEXTS = [example.text for example in EXAMPLES]
NUMBERS = [int(example.label == "pos") for example in EXAMPLES]
STRING = datasets.Value("string")
CLASS = datasets.ClassLabel(names=["bad", "good"])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")


def table(columns, **features):
    features = {name: features.get(name, STRING) for name in columns}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


REVIEWS = table({"text": TEXTS, "label": NUMBERS}, label=CLASS)


def fit(estimator, model, *data, label_column=None, **settings):
    columns = {} if label_column is None else {"label_column": label_column}
    return getattr(bertsmith, estimator)(model, verbose=0, **QUICK, **settings).fit(
        *data, **columns
    )


@pytest.mark.parametrize("kind", [None, "numpy", "torch"])
def test_classes_have_their_names(model, kind):
    classifier = fit("TextClassifier", model, REVIEWS.with_format(kind))
    assert classifier.classes_.tolist() == ["bad", "good"]
    assert set(classifier.predict(REVIEWS)) <= {"bad", "good"}
    names = np.array(CLASS.names)[NUMBERS]
    assert classifier.score(REVIEWS) == np.mean(classifier.predict(TEXTS) == names)


def test_a_model_of_numbers_is_scored_by_them(model):
    classifier = fit("TextClassifier", model, TEXTS, NUMBERS)
    expected = np.mean(classifier.predict(TEXTS) == NUMBERS)
    assert classifier.score(REVIEWS) == expected
    assert classifier.predictor_.evaluate(REVIEWS).accuracy == expected


@pytest.mark.parametrize("missing", [None, -1])
def test_a_missing_class_is_an_incomplete_row(model, missing):
    data = table({"text": TEXTS, "label": [missing, *NUMBERS[1:]]}, label=CLASS)
    with refuses(InputError, "row 1 ", "'label'", "skip_incomplete"):
        fit("TextClassifier", model, data)
    columns = {"skip_incomplete": True}
    classifier = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(data, **columns)
    assert classifier.classes_.tolist() == ["bad", "good"]


def test_several_classes_have_their_names(model):
    lists = [[number] if number else [0, 1] for number in NUMBERS]
    data = table({"text": TEXTS, "label": lists}, label=datasets.Sequence(CLASS))
    assert fit("TextClassifier", model, data, multi_label=True).classes_.tolist() == CLASS.names
    flags = table({"text": TEXTS, "x": NUMBERS, "y": NUMBERS[::-1]}, x=CLASS, y=CLASS)
    several = bertsmith.TextClassifier(model, multi_label=True, verbose=0, **QUICK)
    assert several.fit(flags, label_column="x,y").classes_.tolist() == ["x", "y"]


def test_classes_of_words_have_their_names(model):
    features = {"tokens": datasets.Sequence(STRING), "ner_tags": datasets.Sequence(CLASS)}
    rows = {"tokens": [["a", word] for word in "abcdefgh"], "ner_tags": [[0, 1]] * 8}
    tagger = fit("TokenClassifier", model, table(rows, **features))
    assert sorted(tagger.predictor_.definition.labels) == ["bad", "good"]
    rows["ner_tags"] = [[0, -1], *rows["ner_tags"][1:]]
    with refuses(InputError, "row 1 ", "'ner_tags'"):
        fit("TokenClassifier", model, table(rows, **features))


def test_numbers_stay_where_a_task_needs_them(model):
    assert fit("TextRegressor", model, REVIEWS).predict(TEXTS[:2]).shape == (2,)
    choices = {"prompt": TEXTS, "choice1": TEXTS, "choice2": TEXTS[::-1], "label": NUMBERS}
    labels = [each.label for each in ChoiceReader(TableRows(table(choices, label=CLASS)))]
    assert labels == NUMBERS
    pairs = {"sentence1": TEXTS, "sentence2": TEXTS[::-1], "label": NUMBERS}
    scores = [each.score for each in RelatedReader(TableRows(table(pairs, label=CLASS)))]
    assert scores == NUMBERS


def test_a_parquet_file_is_read_as_its_table(model, tmp_path):
    path = tmp_path / "reviews.parquet"
    REVIEWS.to_parquet(path)
    classifier = fit("TextClassifier", model, path)
    assert classifier.classes_.tolist() == ["bad", "good"]
    assert classifier.score(path) == classifier.score(REVIEWS)
    in_memory = fit("TextClassifier", model, REVIEWS)
    np.testing.assert_array_equal(classifier.predict(TEXTS), in_memory.predict(TEXTS))
    of_numbers = fit("TextClassifier", model, TEXTS, NUMBERS)
    assert of_numbers.score(path) == of_numbers.score(REVIEWS)
    for column in ("label", "LABEL", "2"):
        assert (
            fit("TextClassifier", model, path, label_column=column).classes_.tolist() == CLASS.names
        )
    assert fit("TextRegressor", model, path).predict(TEXTS[:2]).shape == (2,)


@pytest.mark.parametrize("missing", [None, -1])
def test_a_missing_class_of_a_parquet_file_is_an_incomplete_row(model, tmp_path, missing):
    path = tmp_path / "reviews.parquet"
    table({"text": TEXTS, "label": [missing, *NUMBERS[1:]]}, label=CLASS).to_parquet(path)
    with refuses(InputError, "row 1 of", "'label'", "--skip-incomplete"):
        fit("TextClassifier", model, path)
    columns = {"skip_incomplete": True}
    classifier = bertsmith.TextClassifier(model, verbose=0, **QUICK).fit(path, **columns)
    assert classifier.classes_.tolist() == ["bad", "good"]


def test_several_classes_of_a_parquet_file_have_their_names(model, tmp_path):
    lists = [[number] if number else [0, 1] for number in NUMBERS]
    path = tmp_path / "several.parquet"
    table({"text": TEXTS, "label": lists}, label=datasets.Sequence(CLASS)).to_parquet(path)
    assert fit("TextClassifier", model, path, multi_label=True).classes_.tolist() == CLASS.names
    table({"text": TEXTS, "x": NUMBERS, "y": NUMBERS[::-1]}, x=CLASS, y=CLASS).to_parquet(path)
    several = bertsmith.TextClassifier(model, multi_label=True, verbose=0, **QUICK)
    assert several.fit(path, label_column="x,y").classes_.tolist() == ["x", "y"]


def test_words_of_a_parquet_file_without_a_class_are_refused(model, tmp_path):
    features = {"tokens": datasets.Sequence(STRING), "ner_tags": datasets.Sequence(CLASS)}
    rows = {"tokens": [["a", word] for word in "abcdefgh"], "ner_tags": [[0, -1]] * 8}
    path = tmp_path / "words.parquet"
    table(rows, **features).to_parquet(path)
    with refuses(InputError, "row 1 of", "'ner_tags'"):
        fit("TokenClassifier", model, path)


@pytest.mark.parametrize(("names", "several"), [
    (["good", "bad", "good"], False), ([1, 0, 1], False), (["good", "bad", "good"], True),
])  # fmt: skip
def test_a_parquet_file_is_scored_by_names_or_numbers(tmp_path, names, several):
    gold, path = tmp_path / "gold.parquet", tmp_path / "p.jsonl"
    table({"text": TEXTS[:3], "label": [1, 0, 0]}, label=CLASS).to_parquet(gold)
    path.write_text("".join(json.dumps({"prediction": name}) + "\n" for name in names))
    report = score_class_files(gold, path, ClassColumns(multi_label=several)).to_json()
    assert report["subset_accuracy" if several else "accuracy"] == pytest.approx(2 / 3)
