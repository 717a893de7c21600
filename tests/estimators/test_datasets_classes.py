"""Classes that a table of `datasets` numbers have their names, unless a task needs the numbers."""

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


def fit(estimator, model, *data, **settings):
    return getattr(bertsmith, estimator)(model, verbose=0, **QUICK, **settings).fit(*data)


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
