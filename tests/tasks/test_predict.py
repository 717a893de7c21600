"""A folder gives the predictor that fits it, and long files are predicted in pieces."""

import pytest
from safetensors.torch import load_file, save_file
from tiny_models import reviews, save_tiny

from bertsmith.data.examples import Example
from bertsmith.errors import CheckpointError
from bertsmith.tasks import auto as predict
from bertsmith.tasks.auto import iter_predictions, load, load_predictor
from bertsmith.tasks.fill_mask import MaskFiller
from bertsmith.tasks.regression import Regressor
from bertsmith.tasks.text_classification import Classifier
from bertsmith.tasks.text_vectors import TextEncoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"), "classify", labels=("neg", "pos"))


def test_the_head_decides_the_predictor(folder, tmp_path):
    assert isinstance(load(folder), Classifier)
    assert isinstance(load(save_tiny(tmp_path / "r", "regress")), Regressor)
    assert isinstance(load(save_tiny(tmp_path / "a", "masked_lm")), MaskFiller)
    assert isinstance(load(save_tiny(tmp_path / "b")), TextEncoder)
    with pytest.raises(CheckpointError):
        load(tmp_path / "nothing here")


def test_a_regression_of_several_numbers_gives_no_vectors_unasked(tmp_path):
    folder = save_tiny(tmp_path, "classify", labels=("height", "weight"))
    config = folder / "config.json"
    config.write_text(config.read_text().replace("single_label_classification", "regression"))
    with pytest.raises(CheckpointError, match="problem_type is 'regression'"):
        load(folder)
    assert TextEncoder.load(folder)("a film").shape == (24,)


def test_predictions_come_in_order_whatever_the_piece(folder, monkeypatch):
    classifier = Classifier.load(folder, device="cpu", precision="fp32")
    examples = reviews(23)
    whole = list(iter_predictions(classifier, examples))
    monkeypatch.setattr(predict, "CHUNK_EXAMPLES", 5)
    pieces = list(iter_predictions(classifier, iter(examples)))
    assert [example for example, _ in pieces] == examples
    for (_, one), (_, other) in zip(whole, pieces, strict=True):
        assert one.label == other.label
        assert one.probability == pytest.approx(other.probability, abs=1e-6)


def test_a_pair_is_read_as_a_pair(folder):
    classifier = Classifier.load(folder, device="cpu", precision="fp32")
    example = Example("a good film", "a bad film", row=7)
    ((_, prediction),) = iter_predictions(classifier, [example])
    assert prediction == classifier([("a good film", "a bad film")])[0]
    row = classifier.task.to_json(example, prediction)
    assert (row["row"], row["pair"], row["label"]) == (7, "a bad film", prediction.label)


@pytest.mark.parametrize("lost", [("bert.pooler.dense.weight",), ("classifier.bias",),
                                  ("bert.pooler.dense.weight", "bert.pooler.dense.bias"),
                                  ("classifier.weight", "classifier.bias")])  # fmt: skip
def test_a_folder_that_lacks_what_predictions_need_is_refused(tmp_path, lost):
    folder = save_tiny(tmp_path / "m", "classify", labels=("neg", "pos"))
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: value for name, value in weights.items() if name not in lost},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    for read in (load, load_predictor):
        with pytest.raises(CheckpointError, match=r"missing|no classification head"):
            read(folder, device="cpu", precision="fp32")
