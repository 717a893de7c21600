"""Predictors refuse what holds no texts, take texts where they take examples, and can be copied."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from tiny_models import save_tiny

import bertsmith
from bertsmith.errors import InputError
from bertsmith.system.int8 import can_quantize
from bertsmith.tasks.sentence_embedding import SentenceEncoder

CALLS: dict[str, tuple[tuple[str, ...], Any]] = {
    "classify": (("neg", "pos"), "a good film"),
    "multi_label": (("neg", "pos"), "a good film"),
    "regress": ((), "a good film"),
    "tag": (("O", "B-X"), "a good film"),
    "answer": ((), ("the film ?", "a good film")),
    "choose": ((), ("the film was", ["good", "bad"])),
    "masked_lm": ((), "a [MASK] film"),
    "": ((), "a good film"),
}
"""For each head the labels of a model, and one thing that its predictor reads."""


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    folders: dict[str, Path] = {}

    def load(head: str, precision: str = "fp32") -> Any:
        if head not in folders:
            target = tmp_path_factory.mktemp("model") / "m"
            folders[head] = save_tiny(target, *[head] * bool(head), labels=CALLS[head][0])
        return bertsmith.load(folders[head], device="cpu", precision=precision)

    return load


@pytest.mark.parametrize("head", CALLS)
def test_what_holds_columns_or_no_texts_is_refused(load: Callable[..., Any], head: str) -> None:
    predictor, one = load(head), CALLS[head][1]
    table = {"text": [one], "label": ["neg"]}
    plain = {"text": ["a good film"], "label": ["neg"]}
    for frame in (table, pyarrow.table(plain)):
        with pytest.raises(InputError, match=r"only the names of columns.*such as list\("):
            predictor(frame)
    with pytest.raises(InputError, match=r"found NoneType\. Give a list"):
        predictor(None)
    with pytest.raises(InputError, match="found set, which has no order"):
        predictor({one if isinstance(one, str) else one[0]})
    for strange, kind in ((None, "NoneType"), (float("nan"), "float nan"), (5, "int 5"),
                          (b"a film", "bytes"), ({"text": "a film"}, "dict")):  # fmt: skip
        with pytest.raises(InputError, match=rf"\w+\[1\]: found {kind}"):
            predictor([one, strange])


@pytest.mark.parametrize("head", ["classify", "multi_label", "regress", "tag", "masked_lm", ""])
def test_columns_of_texts_are_lists_of_texts(load: Callable[..., Any], head: str) -> None:
    predictor = load(head)
    texts = ["a [MASK] film", "a dull [MASK]"]
    expected = predictor(texts)
    for column in (np.array(texts), np.array(texts, dtype=object), iter(texts),
                   pyarrow.table({"text": texts})["text"]):  # fmt: skip
        assert_equal(predictor(column), expected)
    with pytest.raises(InputError, match=r"found ndarray\. Give a list"):
        predictor(np.array(texts[0]))
    if head != "tag":  # to which rows are sentences of words
        with pytest.raises(InputError, match=r"\w+\[0\]: found ndarray"):
            predictor(np.array([texts]))


@pytest.mark.parametrize("head", [head for head in CALLS if head not in ("", "masked_lm")])
def test_predict_takes_what_a_call_takes(load: Callable[..., Any], head: str) -> None:
    predictor, one = load(head), CALLS[head][1]
    (prediction,) = predictor.predict([one])
    (called,) = predictor([one])
    assert_equal(prediction.value if head == "regress" else prediction, called)
    assert_equal(predictor.predict(predictor.to_examples([one])), [prediction])
    if isinstance(one, str):
        assert_equal(predictor.predict(one), [prediction])


def test_classifiers_take_texts_everywhere(load: Callable[..., Any]) -> None:
    classifier = load("classify")
    found = classifier(["a good film", ("a film", "bad")])
    texts = ["a good film", ("a film", "bad")]
    expected = [[each.probabilities[name] for name in classifier.names] for each in found]
    np.testing.assert_array_equal(classifier.probabilities(texts), expected)
    assert classifier.labels("a good film") == [found[0].label]
    encoder = load("")
    np.testing.assert_array_equal(encoder.vectors(["a good film"]), encoder(["a good film"]))


def test_similarity_wants_two_texts(tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(save_tiny(tmp_path / "m"), device="cpu", precision="fp32")
    (pair,) = encoder.predict([("a good film", "bad")])
    assert pair.cosine == pytest.approx(encoder.similarity("a good film", "bad"), abs=1e-6)
    with pytest.raises(InputError, match=r"texts\[0\]: found str"):
        encoder.predict(["a good film"])


def test_several_texts_bring_their_own_companions(load: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="context: found str beside several questions"):
        load("answer")(["the film ?"], "a good film")
    with pytest.raises(InputError, match=r"choices: found list of str, str beside several"):
        load("choose")(["the film was"], ["good", "bad"])
    with pytest.raises(InputError, match=r"prompts\[0\], choices: found str"):
        load("choose")("the film was", "good")
    with pytest.raises(InputError, match=r"prompts\[0\], choice 1: found NoneType"):
        load("choose")("the film was", ["good", None])


@pytest.mark.parametrize("precision", ["fp32", pytest.param("int8", marks=pytest.mark.skipif(
    not can_quantize(), reason="no int8 kernels here"))])  # fmt: skip
@pytest.mark.parametrize("head", CALLS)
def test_copies_predict_the_same(load: Callable[..., Any], head: str, precision: str) -> None:
    predictor, one = load(head, precision), CALLS[head][1]
    expected = predictor([one])
    for twin in (pickle.loads(pickle.dumps(predictor)), copy.deepcopy(predictor),
                 copy.copy(predictor)):  # fmt: skip
        assert_equal(twin([one]), expected)
    assert_equal(predictor([one]), expected)


def assert_equal(found: Any, expected: Any) -> None:
    """Compare predictions and what they hold, arrays included, which have no single truth."""
    if is_dataclass(expected):
        found, expected = (list(vars_of(each).values()) for each in (found, expected))
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    else:
        assert found == expected


def vars_of(prediction: Any) -> dict[str, Any]:
    return {field.name: getattr(prediction, field.name) for field in fields(prediction)}
