"""Calls equal those of transformers' fast tokenizer of the same folder; collators take them."""

import random

import pytest
import torch
from library_tokenizers import texts_to_try
from refusals import refuses
from tiny_tokenizers import TINY, tiny_wordpiece
from transformers import (
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
)

from bertsmith.errors import ConfigError, InputError

MORE = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
LENGTH = 23


@pytest.fixture(scope="module", params=TINY)
def both(request, tmp_path_factory):
    """A tokenizer of ours, and transformers' own of its folder."""
    ours = TINY[request.param](model_max_length=31)
    folder = tmp_path_factory.mktemp(request.param)
    ours.save(folder)
    return ours, AutoTokenizer.from_pretrained(folder)


def plain(encoding):
    return {k: v.tolist() if hasattr(v, "tolist") else v for k, v in encoding.items()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": True, "truncation": True, **MORE},
        {"padding": "max_length", "truncation": True, "max_length": LENGTH, **MORE},
        {"padding": "longest", "truncation": "longest_first", "max_length": 24,
         "pad_to_multiple_of": 8},
        {"padding": True, "truncation": True, "return_tensors": "pt", **MORE},
        {"padding": True, "truncation": True, "return_tensors": "np",
         "return_attention_mask": False},
    ],
)  # fmt: skip
def test_odd_texts_and_pairs_are_encoded_as_by_transformers(both, options):
    ours, theirs = both
    if ours.pair_type_id:  # transformers 5 leaves type ids out for ALBERT, which has them
        options = {**options, "return_token_type_ids": True}
    texts = [text for text in texts_to_try(40) if len(text) < 200]
    pairs = random.Random(3).sample(texts, len(texts))
    for given in ((texts,), (texts, pairs), (list(zip(texts, pairs, strict=True)),)):
        found, expected = ours(*given, **options), theirs(*given, **options)
        assert list(found) == list(expected)
        kinds = {k: (type(v), getattr(v, "dtype", None)) for k, v in found.items()}
        assert kinds == {k: (type(v), getattr(v, "dtype", None)) for k, v in expected.items()}
        assert plain(found) == plain(expected)
    for given in ((texts[40],), (texts[40], pairs[40])):
        assert plain(ours(*given, **options)) == plain(theirs(*given, **options))


def test_collators_of_transformers_make_the_same_batches(both):
    ours, theirs = both
    texts = ["the river runs", "the sea is wide and the river", "who"]
    rows = [{**ours(text), "label": number} for number, text in enumerate(texts)]
    batches = [plain(DataCollatorWithPadding(each, pad_to_multiple_of=8)(rows)) for each in both]
    assert batches[0] == batches[1]
    words = [{**ours(text), "labels": [1] * len(ours(text).input_ids)} for text in texts]
    batches = [plain(DataCollatorForTokenClassification(each)(words)) for each in both]
    assert batches[0] == batches[1]
    masked = [
        plain(DataCollatorForLanguageModeling(each, seed=5)([ours(text) for text in texts * 20]))
        for each in both
    ]
    assert masked[0] == masked[1]
    assert ours.convert_tokens_to_ids([ours.mask_token, "?!no"]) == [ours.mask_id, None]
    assert len(ours) == len(theirs) and ours.pad_token_id == theirs.pad_token_id


@pytest.mark.parametrize("labels", [(0.5, 2), ([0.0, 1.0], [1.0, 1.0]), (True, False)])
def test_labels_of_any_kind_are_tensors_of_the_same_type(both, labels):
    batches = []
    for each in both:
        rows = [{**each("the sea"), "labels": label} for label in labels]
        batches.append(DataCollatorWithPadding(each)(rows)["labels"])
    assert batches[0].dtype == batches[1].dtype
    assert batches[0].tolist() == batches[1].tolist()


def test_no_text_gives_ids_of_the_usual_type():
    for name, values in tiny_wordpiece()([], return_tensors="pt").items():
        assert values.dtype == torch.int64, name


def test_no_text_gives_no_row_of_padding():
    encoding = tiny_wordpiece()([], padding="max_length", max_length=4)
    assert encoding == {"input_ids": [], "token_type_ids": [], "attention_mask": []}


def set_side(tokenizer, name, side):
    setattr(tokenizer, name, side)
    assert getattr(tokenizer, name) == side


def test_sides_may_be_set_to_what_they_are():
    for name in ("padding_side", "truncation_side"):
        set_side(tiny_wordpiece(), name, "right")


def test_tokens_are_those_of_transformers(both):
    ours, theirs = both
    for text in texts_to_try(40):
        expected = theirs.tokenize(text)
        assert ours.tokenize(text) == expected


def test_a_tokenizer_says_its_kind_size_and_case():
    assert (
        repr(tiny_wordpiece()) == f"<WordPieceTokenizer: {len(tiny_wordpiece())} tokens, uncased>"
    )
    assert repr(tiny_wordpiece(lowercase=False)).endswith(" cased>")
    assert repr(TINY["byte-bpe"]()) == "<ByteBpeTokenizer: 330 tokens, cased>"
    assert repr(TINY["unigram"]()).endswith(" uncased>")
    assert repr(TINY["unigram"](steps=["quotes"])).endswith(" cased>")


def endless(tokenizer):
    tokenizer.model_max_length = 10**30
    return tokenizer


@pytest.mark.parametrize("call, error, parts", [
    (lambda t: t(5), InputError, ["text: found int"]),
    (lambda t: t(["a", "b"], ["c"]), InputError, ["text_pair: found 1", "2 texts"]),
    (lambda t: t(["a", "the sea"], return_tensors="np"), InputError, ["padding=True"]),
    (lambda t: t("a", return_tensors="tf"), ConfigError, ["return_tensors", "'tf'", "pt, np"]),
    (lambda t: endless(t)("a", padding="max_length"), ConfigError, ["padding: found 'max_length'"]),
    (lambda t: t("a", max_length=1), ConfigError, ["max_length", "1", "3 or more"]),
    (lambda t: t("a", max_length=0), ConfigError, ["max_length", "0", "1 or more"]),
    (lambda t: t("a", stride=3), ConfigError, ["'stride'", "return_offsets_mapping"]),
    (lambda t: t("a", paddding=True), ConfigError, ["'paddding'", "'padding'"]),
    (lambda t: t(["a"], is_split_into_words=True), ConfigError, ["encode_word_ids(words)"]),
    (lambda t: t("a", add_special_tokens=False), ConfigError, ["encode_ids(text)"]),
    (lambda t: t(["a"], padding=True, pad_to_multiple_of=0), ConfigError,
     ["pad_to_multiple_of", "0", "1 or more"]),
    (lambda t: t.pad([{"labels": 1}]), InputError, ["pad: found labels", "input_ids"]),
    (lambda t: t.pad([{**t("a"), "label": 1}, t("a")]), InputError, ["pad, row 1", "label"]),
    (lambda t: t.pad([{**t("a"), "text": "a"}], return_tensors="pt"), InputError, ["'text'"]),
    (lambda t: t.pad([{**t("a"), "label": None}], return_tensors="pt"), InputError, ["'label'"]),
    (lambda t: set_side(t, "padding_side", "left"), ConfigError, ["padding_side", "'left'"]),
    (lambda t: set_side(t, "truncation_side", "left"), ConfigError, ["truncation_side", "'left'"]),
])  # fmt: skip
def test_what_cannot_be_encoded_is_refused_by_name(call, error, parts):
    with refuses(error, *parts):
        call(tiny_wordpiece())
