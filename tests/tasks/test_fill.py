"""Filled masks are the reference model's likeliest words; a text without a mask is refused."""

import pytest
import torch
from tiny_models import NUM_POSITIONS, save_tiny, tiny_tokenizer

from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.tasks.fill_mask import MaskFiller


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("pretrained"), "masked_lm", "next_sentence")


@pytest.fixture(scope="module")
def filler(folder):
    return MaskFiller.load(folder, device="cpu", precision="fp32")


def test_words_are_those_of_transformers(folder, filler):
    from transformers import BertForPreTraining

    text = "a [MASK] film and the [MASK] story"
    encoding = tiny_tokenizer().encode(text)
    theirs = BertForPreTraining.from_pretrained(folder)
    with torch.inference_mode():
        logits = theirs(torch.tensor([encoding.ids])).prediction_logits[0]
    masks = filler(text, top=7)
    places = [i for i, token in enumerate(encoding.tokens) if token == "[MASK]"]
    assert len(masks) == len(places) == 2
    for words, place in zip(masks, places, strict=True):
        expected = logits[place].softmax(-1)
        ranked = [i for i in expected.argsort(descending=True).tolist() if i >= 5][:7]
        assert [word.token for word in words] == [tiny_tokenizer().vocab[i] for i in ranked]
        assert [word.probability for word in words] == pytest.approx(
            expected[ranked].tolist(), abs=1e-5
        )


def test_several_texts_give_a_list(filler):
    texts = ["a [MASK]", "the [MASK] was [MASK]"]
    assert filler(texts, top=3) == [filler(text, top=3) for text in texts]
    assert filler([]) == []


def test_special_tokens_are_never_offered(filler):
    words = filler("the [MASK]", top=1000)[0]
    assert sorted(word.token for word in words) == sorted(tiny_tokenizer().vocab[5:])


@pytest.mark.parametrize(
    "text, message",
    [
        ("no mask at all", r"no \[MASK\] in the text\. Write \[MASK\]"),
        ("a [mask]", r"no \[MASK\]"),
        ("[MASK] " + "good " * NUM_POSITIONS + "[MASK]", r"only 1 of the 2 \[MASK\].*37 tokens"),
    ],
)
def test_texts_that_cannot_be_filled(filler, text, message):
    with pytest.raises(InputError, match=message):
        filler(text)


def test_requests_that_cannot_be_met(filler, tmp_path):
    with pytest.raises(ConfigError, match="top: found 0"):
        filler("[MASK]", top=0)
    with pytest.raises(CheckpointError, match="no masked-LM head"):
        MaskFiller.load(save_tiny(tmp_path, "classify", labels=("a", "b")))
