"""The engine sends ids and probabilities of the tokens for masks, as few as are asked for."""

import json
import pickle

import pytest
from test_engine import answers_of, served
from tiny_models import save_tiny

from bertsmith import load
from bertsmith.serving.messages import ComputeRequest, Refusal

TEXT = "the [MASK] was [MASK]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("masked"), "masked_lm")


def outputs_of(folder, *options):
    work = ComputeRequest(1, "m", "predict", [{"text": TEXT}], options)
    return answers_of(served(m=folder), work)[1]


def test_ids_stand_for_the_words_of_the_prediction(folder):
    answers = outputs_of(folder, ("top", 3))
    predictor = load(folder, device="cpu", precision="fp32")
    expected = predictor(TEXT)
    decode = predictor.loaded.tokenizer.decode
    (masks,) = answers.raw
    assert masks.shape == (2, 3, 2)
    for mask, words in zip(masks.tolist(), expected.masks, strict=True):
        assert [decode([int(id_)]) for id_, _ in mask] == [word.token for word in words[:3]]
        assert [share for _, share in mask] == pytest.approx(
            [word.probability for word in words[:3]], abs=1e-6
        )


def test_targets_have_the_probabilities_of_the_whole_vocabulary(folder):
    (every,) = outputs_of(folder, ("top", 15)).raw
    targets = sorted(int(id_) for id_ in every[0, ::4, 0])
    answers = outputs_of(folder, ("top", 2), ("target_ids", tuple(targets)))
    (masks,) = answers.raw
    assert masks.shape == (2, 2, 2)
    for mask, every_of_mask in zip(masks.tolist(), every.tolist(), strict=True):
        expected = [word for word in every_of_mask if int(word[0]) in targets][:2]
        assert [id_ for id_, _ in mask] == [id_ for id_, _ in expected]
        assert [share for _, share in mask] == pytest.approx([s for _, s in expected], abs=1e-6)


def test_words_are_not_sent_beside_the_ids(folder):
    answers = outputs_of(folder, ("top", 15))
    assert answers.predictions == [None]
    assert len(pickle.dumps(answers)) < 1500


def test_a_mask_beyond_the_length_of_the_folder_is_refused(tmp_path):
    folder = save_tiny(tmp_path, "masked_lm")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 11}))
    text = f"[MASK] {'film ' * 11} [MASK]"
    work = ComputeRequest(1, "m", "predict", [{"text": text}], (("top", 3),), may_cut=True)
    refusal = answers_of(served(m=folder), work)[1]
    assert isinstance(refusal, Refusal) and "found 1 of its 2 [MASK]" in refusal.message
