"""Labels keep their type and their white space, in memory and in the saved folder."""

import json
from decimal import Decimal

import numpy as np
import pandas
import pytest
from refusals import check_message, refuses
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.errors import BertsmithWarning, InputError

pytestmark = pytest.mark.same_on_all_computers
QUICK = {"steps": 2, "threads": 1, "device": "cpu", "precision": "fp32", "batch_size": 4}
HOW = {"device": "cpu", "precision": "fp32"}
EXAMPLES = reviews(24)
TEXTS = [example.text for example in EXAMPLES]
IS_GOOD = [example.label == "pos" for example in EXAMPLES]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")


def fit(model, y, **settings):
    return bertsmith.TextClassifier(model, verbose=0, **QUICK, **settings).fit(TEXTS, y)


PAIRS = {
    "int": (0, 1),
    "bool": (False, True),
    "float": (1.0, 2.0),
    "str": ("0", "1"),
    "numpy": (np.int8(-3), np.int8(7)),
    "numpy str": (np.str_("no"), np.str_("yes")),
    "spaces": (" <=50K", " >50K"),
    "one space": ("a", "a "),
    "NUL": ("a", "a\0"),
    "beyond int64": (5, 2**63 + 1),
    "beyond float": (2**63 + 1, 2**63 + 2),
    "uint64": (np.uint64(5), np.uint64(2**63 + 1)),
    "beyond uint64": (5, 10**20),
    "decimal": (Decimal("1.50"), Decimal("2.25")),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_the_saved_model_answers_with_the_labels_that_were_given(model, tmp_path, kind):
    bad, good = PAIRS[kind]
    y = [good if each else bad for each in IS_GOOD]
    classifier = fit(model, y)
    predictor = bertsmith.load(classifier.save(tmp_path / "d"), **HOW)
    twin = bertsmith.TextClassifier.load(tmp_path / "d", **HOW)
    expected = classifier.predict(TEXTS).tolist()
    assert set(expected) <= {bad, good}
    assert [prediction.label for prediction in predictor(TEXTS)] == expected
    assert twin.predict(TEXTS).tolist() == expected
    one = predictor(TEXTS[0])
    assert type(one.label) is (float if kind == "decimal" else type(np.array([bad]).tolist()[0]))
    assert one.probability == max(one.probabilities.values())
    assert list(predictor.labels) == predictor.classes_.tolist() == [bad, good]
    assert twin.classes_.tolist() == classifier.classes_.tolist() == [bad, good]
    accuracy = np.mean([a == b for a, b in zip(y, expected, strict=True)])  # of any labels
    assert classifier.score(TEXTS, y) == accuracy
    assert predictor.evaluate({"text": TEXTS, "label": y}).accuracy == accuracy


def test_names_in_the_config_are_those_of_transformers(model, tmp_path):
    folder = fit(model, [int(each) for each in IS_GOOD]).save(tmp_path / "d")
    config = json.loads((folder / "config.json").read_text())
    assert config["id2label"] == {"0": "0", "1": "1"}
    config["id2label"] = {"0": "negative", "1": "positive"}
    config["label2id"] = {"negative": 0, "positive": 1}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.warns(BertsmithWarning):  # changed by hand
        predictor = bertsmith.load(folder, **HOW)
    assert predictor.labels == ("negative", "positive")


@pytest.mark.parametrize("labels", [(7, 9), (True, False), ("a ", " b")])
def test_several_labels_keep_their_type(model, tmp_path, labels):
    first, second = labels
    y = [[first] * each + [second] * (len(t) > 30) for each, t in zip(IS_GOOD, TEXTS, strict=True)]
    classifier = fit(model, y, multi_label=True, threshold=0.3)
    predictor = bertsmith.load(classifier.save(tmp_path / "d"), **HOW)
    expected = classifier.predict(TEXTS)
    assert set().union(*expected) <= set(labels)
    assert [prediction.labels for prediction in predictor(TEXTS)] == expected
    twin = bertsmith.TextClassifier.load(tmp_path / "d", **HOW)
    assert twin.predict(TEXTS) == expected
    assert twin.multi_label and twin.threshold == 0.3
    assert twin.evaluate(TEXTS, y).accuracy == np.mean(
        [set(one) == set(other) for one, other in zip(y, expected, strict=True)]
    )


@pytest.mark.parametrize("labels", [(0, 1), (0.5, 2.0), ("0", "1"), (np.int64(-3), np.int64(7))])
def test_labels_of_words_keep_their_type(model, tmp_path, labels):
    short, long = labels
    words = [text.split() for text in TEXTS]
    y = [[long if len(word) > 4 else short for word in each] for each in words]
    tagger = bertsmith.TokenClassifier(model, verbose=0, **QUICK).fit(words, y)
    predictor = bertsmith.load(tagger.save(tmp_path / "d"), **HOW)
    twin = bertsmith.TokenClassifier.load(tmp_path / "d", **HOW)
    expected = tagger.predict(words)
    kind = type(np.array([short]).tolist()[0])
    assert {type(label) for each in expected for label in each} == {kind}
    assert twin.predict(words) == expected
    predictions = predictor.predict([{"words": each} for each in words])
    assert [list(each.labels) for each in predictions] == expected
    assert list(predictor.labels) == predictor.classes_.tolist() == [short, long]
    assert json.loads(json.dumps(predictions[0].to_json()))["labels"] == expected[0]
    pairs = [
        (a, b)
        for one, other in zip(y, expected, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    assert twin.evaluate(words, y).accuracy == np.mean([a == b for a, b in pairs])
    config = json.loads((tmp_path / "d" / "config.json").read_text())
    assert config["id2label"] == {"0": str(short), "1": str(long)}


def test_a_matrix_of_labels_comes_back_as_a_matrix(model, tmp_path):
    matrix = np.array([[each, 0, len(t) > 30] for each, t in zip(IS_GOOD, TEXTS, strict=True)])
    frame = pandas.DataFrame(matrix.astype(int), columns=["good", "never ", "long"])
    classifier = fit(model, frame, multi_label=True)
    twin = bertsmith.TextClassifier.load(classifier.save(tmp_path / "d"), **HOW)
    assert twin.classes_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(twin.predict(TEXTS), classifier.predict(TEXTS))
    np.testing.assert_array_equal(twin.predict_proba(TEXTS), classifier.predict_proba(TEXTS))


def test_labels_of_files_are_strings_without_white_space_at_their_ends(model, tmp_path):
    labels = [" >50K" if each else " <=50K" for each in IS_GOOD]
    frame = pandas.DataFrame({"text": TEXTS, "label": labels})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for file in ("a.csv", "a.jsonl"):
        classifier = bertsmith.TextClassifier(model, verbose=0, **QUICK)
        with pytest.warns(BertsmithWarning) as told:
            classifier.fit(tmp_path / file)
        check_message(str(told[0].message), file, " >50K' is read as '>50K'")
        assert classifier.classes_.tolist() == ["<=50K", ">50K"]
        assert classifier.score(tmp_path / file) == classifier.score(
            TEXTS, [label.strip() for label in labels]
        )
        with refuses(InputError, "row 1 ", "' "):
            classifier.score(TEXTS, labels)


def test_a_file_scores_a_model_whose_labels_have_white_space(model, tmp_path):
    labels = [" >50K" if each else " <=50K" for each in IS_GOOD]
    classifier = fit(model, labels)
    pandas.DataFrame({"text": TEXTS, "label": labels}).to_csv(tmp_path / "a.csv", index=False)
    assert classifier.score(tmp_path / "a.csv") == classifier.score(TEXTS, labels)


def test_a_label_that_no_file_can_hold_is_refused(model):
    """Two of them would become one."""
    with refuses(InputError, "y[12]", "'a\\ud800'", "another name"):
        fit(model, ["a"] * 12 + ["a\ud800"] * 12)
    with refuses(InputError, "y[0]", "'a\\udfff'", "another name"):
        fit(model, np.array(["a\ud800", "a\udfff"] * 12)[::-1])


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        (["b\ud800"], ("'b\\ud800'", "another name")),
        ([["a"]], ("list of str",)),
        (["a", None], ("NoneType",)),
    ],
)
def test_a_list_of_labels_that_cannot_be_labels_is_refused(model, label, parts):
    with refuses(InputError, "y[12]", *parts):
        fit(model, [["a"]] * 12 + [label] * 12, multi_label=True)
