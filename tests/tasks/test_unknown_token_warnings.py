"""In Python, too, texts of unknown tokens are told of: once for a predictor, and as a warning."""

import warnings

import pytest
from tiny_models import save_tiny

import bertsmith
from bertsmith.errors import BertsmithWarning, issued_warnings

STRANGE, FAMILIAR = "zzz yyy xxx", "the film was very good"


@pytest.fixture
def folder(tmp_path):
    issued_warnings.clear()
    return save_tiny(tmp_path / "m", "classify", labels=("neg", "pos"))


def messages(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if each.category is BertsmithWarning]


@pytest.mark.parametrize(
    "call",
    [
        lambda predictor: predictor(STRANGE),
        lambda predictor: predictor.predict([STRANGE] * 3),
        lambda predictor: predictor.probabilities([STRANGE]),
        lambda predictor: predictor.encode(STRANGE),
        lambda predictor: predictor.similarity([STRANGE], [STRANGE]),
    ],
)
def test_unknown_tokens_are_told_of_once(folder, call):
    predictor = bertsmith.load(folder, device="cpu", precision="fp32")
    assert messages(lambda: call(predictor))[0].startswith(f"{folder}: 100.0 % of the tokens")
    assert messages(lambda: call(predictor)) == []


def test_a_few_unknown_tokens_are_no_reason_to_warn(folder):
    predictor = bertsmith.load(folder, device="cpu", precision="fp32")
    assert messages(lambda: predictor(f"{FAMILIAR} zzz yyy")) == []
    given = [f"{FAMILIAR} zzz yyy"] * 20  # 140 tokens are many
    assert "28.6 % of the tokens" in messages(lambda: predictor.predict(given))[0]


def test_fill_and_compress_tell_it_on_standard_error(typed, tmp_path):
    folder = save_tiny(tmp_path / "m", "masked_lm")
    _, err = typed("fill", folder, f"{STRANGE} [MASK]", "--precision", "fp32")
    assert err.count("WARNING: the text: 75.0 % of the tokens are unknown") == 1
    assert "BertsmithWarning" not in err
    _, err = typed("fill", folder, f"{FAMILIAR} [MASK]", "--precision", "fp32")
    assert "unknown" not in err
    (tmp_path / "a.txt").write_text(f"{STRANGE}\n" * 9)
    words = ("compress", folder, "--vocabulary", tmp_path / "a.txt", "--out", tmp_path / "out")
    _, err = typed(*words)
    assert err.count(f"WARNING: {tmp_path / 'a.txt'}: 100.0 % of the tokens are unknown") == 1
