"""One kind of predictor for every head: what it takes, refuses and gives, and how it is loaded."""

import pickle
from dataclasses import asdict, is_dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
import transformers
from refusals import refuses
from samples import RECORDS
from tiny_models import (
    NUM_POSITIONS,
    make_sentence_encoder,
    save_tiny,
    save_tiny_of,
    tiny_tokenizer,
)
from tiny_tokenizers import TINY

import bertsmith
from bertsmith.commands.predict import examples_of_texts
from bertsmith.errors import (
    BertsmithWarning,
    CheckpointError,
    ConfigError,
    InputError,
    issued_warnings,
)
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.predictor import Predictor


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    folders = {}

    def load(head, precision="fp32"):
        if head not in folders:
            target = tmp_path_factory.mktemp("model") / "m"
            heads = [head] * (head not in ("", "embed"))
            folders[head] = save_tiny(target, *heads, labels=RECORDS[head][0])
            if head == "embed":
                make_sentence_encoder(target)
        return bertsmith.load(folders[head], device="cpu", precision=precision)

    return load


@pytest.mark.parametrize("head", RECORDS)
def test_records_texts_and_examples_give_the_same(load, head):
    predictor, (_, task, record) = load(head), RECORDS[head]
    assert type(predictor) is Predictor
    assert predictor.task == task
    example = predictor.example(record)
    (expected,) = predictor.predict([example])
    assert_equal(predictor(record), expected)
    assert_equal(predictor(*record.values()), expected)
    values = tuple(record.values())
    several = [record, example, values, values[0] if len(values) == 1 else values]
    for found in predictor(several):
        assert_equal(rounded(found.answer), rounded(expected.answer))
    assert predictor.predict([]) == predictor([]) == []
    assert predictor.encode(["a film", ("a", "film")]).shape == (2, 24)


@pytest.mark.parametrize("head", RECORDS)
def test_a_prediction_is_found_in_a_list(load, head):
    first, second = load(head).predict([RECORDS[head][2]] * 2)
    assert second in [first, second] and second in [first, None, second]


def test_a_text_that_is_the_name_of_a_file_brings_a_warning(load, tmp_path):
    predictor = load("classify")
    file, word = tmp_path / "texts.csv", Path("film")
    for path in (file, word):
        path.write_text("text\na film\n", encoding="utf-8")
    for call in (predictor, predictor.encode):
        issued_warnings.clear()
        with pytest.warns(BertsmithWarning) as caught:
            answer = call(str(file))
        assert sum(str(file) in str(each.message) for each in caught) == 1
        assert_equal(answer, call([str(file)])[0])
    assert_equal(predictor(str(word)), predictor([str(word)])[0])  # warns of nothing


def rounded(answer):
    return np.round(answer, 5) if isinstance(answer, float | np.ndarray) else answer


@pytest.mark.parametrize("head", RECORDS)
def test_what_is_no_record_or_text_is_refused(load, head):
    predictor, record = load(head), RECORDS[head][2]
    values = tuple(record.values())
    for given, *parts in (
        (pyarrow.table({"text": ["a good film"]}), "examples is a whole Table", "list("),
        (None, "examples: found NoneType"),
        ({"a film"}, "examples: found set"),
        ([(*values, "more", 7)], "examples[0]: ", "int 7" if head == "tag" else "found tuple"),
    ):
        with refuses(InputError, *parts):
            predictor(given)
    for strange in (None, float("nan"), 5, b"a film", {"label": "pos"}, {**record, "text": 5}):
        if head != "answer" or "text" not in (strange if isinstance(strange, dict) else ()):
            with refuses(InputError, "examples[1]: "):
                predictor([values, strange])


@pytest.mark.parametrize("head", ["classify", "tag", "masked_lm", ""])
def test_columns_of_texts_are_lists_of_texts(load, head):
    predictor = load(head)
    texts = ["a [MASK] film", "a dull [MASK]"]
    expected = predictor(texts)
    for column in (np.array(texts), np.array(texts, dtype=object), iter(texts),
                   pyarrow.table({"text": texts})["text"]):  # fmt: skip
        assert_equal(predictor(column), expected)
    with refuses(InputError, "examples: found ndarray"):
        predictor(np.array(texts[0]))


def test_several_texts_bring_their_own_companions(load):
    with refuses(InputError, "context: found str"):
        load("answer")(["the [MASK] ?"], "a good film")
    for choices, found in (("good", "'choices': found str"), (["good"], "'choices': found 1"),
                           (["good", None], "choice 1: found NoneType")):  # fmt: skip
        with refuses(InputError, found):
            load("choose")("the film was", choices)


@pytest.mark.parametrize("head", RECORDS)
def test_predictors_are_copied_moved_and_shown(load, tmp_path, head, capsys, monkeypatch):
    monkeypatch.setattr("bertsmith.system.progress.PLAIN_SECONDS", 0)  # each line, at once
    predictor, record = load(head), RECORDS[head][2]
    records = [record] * 5
    expected = predictor(records)
    shown = predictor.predict(records, batch_size=2, show_progress=True)
    assert_equal(*([rounded(p.answer) for p in each] for each in (shown, expected)))
    assert "predicting · 100 %" in capsys.readouterr().err
    assert predictor.task in repr(predictor) and predictor.device in repr(predictor)
    assert_equal(predictor.to("cpu")(records), expected)
    assert_equal(pickle.loads(pickle.dumps(predictor))(records), expected)
    folder = predictor.save(tmp_path / "copy")
    for task in (None, head.replace("masked_lm", "fill") or "vectors"):
        twin = bertsmith.load(str(folder), task=task, device="cpu", precision="fp32")
        assert_equal(twin(records), expected)
    others = {"classify": "multi_label", "multi_label": "classify"}
    for task in [
        others.get(head, "classify"),
        *["embed"] * (head not in ("masked_lm", "embed", "")),
    ]:
        with refuses(CheckpointError, str(folder)):
            bertsmith.load(folder, task=task)


def test_a_predictor_is_saved_over_nothing_but_a_model(load, tmp_path):
    predictor = load("classify")
    folder = predictor.save(tmp_path / "copy")
    with refuses(ConfigError, f"{folder}:", "overwrite=True"):
        predictor.save(folder)
    (tmp_path / "file").write_text("mine")
    with refuses(ConfigError, f"{tmp_path}:"):
        predictor.save(tmp_path, overwrite=True)
    predictor.save(folder, overwrite=True)
    (folder / "README.md").write_text("mine")
    with refuses(ConfigError, f"{folder}:", "README.md"):
        predictor.save(folder, overwrite=True)


def test_probabilities(load):
    texts = ["a good film", "the dull story"]
    for head in ("classify", "multi_label"):
        predictor = load(head)
        found = predictor.probabilities(texts)
        assert (found.shape, found.dtype) == ((2, 2), np.float64)
        assert found[1].tolist() == list(predictor(texts)[1].probabilities.values())
        assert predictor.probabilities([]).shape == (0, 2)
    assert [each.shape for each in load("tag").probabilities(texts)] == [(3, 2), (3, 2)]
    assert [len(each) for each in load("choose").probabilities([("a", ["b", "c", "d"])])] == [3]
    for head in ("regress", "answer", "masked_lm", "embed", ""):
        with refuses(ConfigError, f"probabilities: {load(head)!r}"):
            load(head).probabilities(texts)


def test_vectors_in_portions_and_their_similarity(load):
    encoder, texts = load(""), ["a good film", "the dull story", ("a", "film")]
    vectors = encoder.encode(texts)
    portions = encoder.encode(iter(texts), batch_size=np.int64(2))
    np.testing.assert_allclose(portions, vectors, atol=1e-6)
    assert encoder.encode([]).shape == (0, 24)
    cosines = encoder.similarity(vectors, texts[:2])
    assert cosines.shape == (3, 2)
    assert cosines[0, 0] == pytest.approx(1)
    assert cosines[0, 1] == pytest.approx(encoder.similarity(*texts[:2]), abs=1e-6)
    assert encoder.similarity(vectors.astype(np.float64), vectors).dtype == np.float32
    for strange, found in ((vectors[:, None], "3 dimensions"), (np.array(1.0), "0 dimensions"),
                           (vectors[:, 1:], "vectors of 23 and of 24 numbers")):  # fmt: skip
        with refuses(InputError, "similarity: ", found):
            encoder.similarity(strange, vectors)
    for use in (encoder, encoder.encode, encoder.predict):
        with refuses(InputError, "[(a, b)]", "[a, b]"):
            use(("a good film", "the dull story"))
        with refuses(ConfigError, "batch_size: found 0"):
            use(texts, batch_size=0)


def assert_equal(found, expected):
    """Compare predictions and what they hold, arrays included, which have no single truth."""
    np.testing.assert_equal(*map(plain, (found, expected)))


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    return asdict(value) if is_dataclass(value) else value


def test_filled_masks_are_the_likeliest_tokens_of_transformers(tmp_path, monkeypatch):
    folder = save_tiny(tmp_path, "masked_lm", "next_sentence")
    filler = Predictor.load(folder, FillMask, device="cpu", precision="fp32")
    text = "a [MASK] film and the [MASK] story"
    encoding = tiny_tokenizer().encode(text)
    theirs = transformers.BertForPreTraining.from_pretrained(folder)
    with torch.inference_mode():
        logits = theirs(torch.tensor([encoding.ids])).prediction_logits[0]
    masks = filler.with_options(top=7)(text).masks
    places = [i for i, token in enumerate(encoding.tokens) if token == "[MASK]"]
    assert len(masks) == len(places) == 2
    for words, place in zip(masks, places, strict=True):
        expected = logits[place].softmax(-1)
        ranked = [i for i in expected.argsort(descending=True).tolist() if i >= 5][:7]
        assert [word.token for word in words] == [tiny_tokenizer().vocab[i] for i in ranked]
        assert [word.probability for word in words] == pytest.approx(
            expected[ranked].tolist(), abs=1e-5
        )
    assert filler(text.replace("[MASK]", "[mask]")) == filler(text)
    texts = ["the [MASK]", text, "[MASK] " * 5]
    alone = [[each.probability for each in filler(one).masks[-1]] for one in texts]
    monkeypatch.setattr("bertsmith.tasks.fill_mask.MAX_LOGITS", 3 * tiny_tokenizer().vocab_size)
    for one, found in zip(alone, filler(texts), strict=True):
        assert [each.probability for each in found.masks[-1]] == pytest.approx(one)
    every = filler.with_options(top=1000)(text).masks[0]  # special tokens are never offered
    assert sorted(word.token for word in every) == sorted(tiny_tokenizer().vocab[5:])


@pytest.mark.parametrize(("family", "kind"), [("roberta", "byte-bpe"), ("albert", "unigram")])
def test_masks_are_filled_with_text(tmp_path, family, kind):
    folder = save_tiny_of(tmp_path, family, tokenizer=TINY[kind]())
    filler = Predictor.load(folder, FillMask, device="cpu", precision="fp32")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    expected = (theirs.decode([i]) for i in set(range(len(theirs))) - set(theirs.all_special_ids))
    (words,) = filler.with_options(top=1000)(f"a {theirs.mask_token} film").masks
    assert sorted(word.token for word in words) == sorted(expected)


def test_masks_that_cannot_be_filled(load):
    filler = load("masked_lm")
    long = "[MASK] " + "good " * NUM_POSITIONS + "[MASK]"
    for text, *parts in (("no mask at all",), (long, "1 of its 2", "37")):
        with refuses(InputError, "[MASK]", *parts):
            filler(text)
    with refuses(InputError, "'text'", "'txt'"):
        filler({"txt": "a [MASK]"})
    assert filler.example({"text": "a [MASK]", "row": 3}).row == 3


def test_the_mask_may_be_in_lower_case(load):
    filler = load("masked_lm")
    assert filler("a [mask] film") == filler("a [MASK] film")


@pytest.mark.parametrize("head, option, value", [
    ("masked_lm", "top", 0), ("masked_lm", "top", 2.5), ("masked_lm", "top", "5"),
    ("multi_label", "threshold", "0.5"), ("multi_label", "threshold", 1.0),
    ("multi_label", "label_separator", ""), ("multi_label", "label_separator", None),
    ("tag", "scheme", "IOB"), ("tag", "split", "letters"),
    ("answer", "threshold", 0.5), ("", "pooling", "max"), ("", "max_length", 1),
    ("", "max_length", "9"), ("answer", "max_answer_length", 0),
    ("answer", "max_answer_length", "9"), ("answer", "language", "xx"),
])  # fmt: skip
def test_options_that_cannot_be_met(load, head, option, value):
    with refuses(ConfigError, option, str(value)):
        load(head).with_options(**{option: value})


def test_a_threshold_and_a_length_are_numbers(load, tmp_path):
    for threshold in ("0.5", float("nan"), float("inf")):
        with refuses(ConfigError, "threshold", str(threshold)):
            load("answer").with_options(threshold=threshold, may_abstain=True)
    folder = load("classify").save(tmp_path / "m")
    for length in ("9", 9.5):
        with refuses(ConfigError, "max_length", repr(length)):
            bertsmith.load(folder, max_length=length)
    assert bertsmith.load(folder, max_length=np.int64(9)).loaded.max_length == 9
    answers = load("answer").with_options(max_answer_length=np.int64(5))
    assert bertsmith.load(answers.save(tmp_path / "a")).definition.max_answer_length == 5
    surer = load("multi_label").with_options(threshold=np.float32(0.75))
    assert bertsmith.load(surer.save(tmp_path / "s")).definition.threshold == 0.75
    assert len(load("masked_lm").with_options(top=np.int64(2))("a [MASK] .").masks[0]) == 2


def test_options(load, tmp_path):
    surer = load("multi_label").with_options(threshold=0.9)
    assert bertsmith.load(surer.save(tmp_path / "m")).definition.threshold == 0.9
    assert load("answer").with_options(threshold=0.5, may_abstain=True)("who ?", "a film")
    assert len(load("").with_options(max_length=1000).encode(["a " * 200])) == 1
    with refuses(ConfigError, "no option tops", "tokenizer, top"):
        load("masked_lm").with_options(tops=3)


@pytest.mark.parametrize("head, texts, size, bad", [
    ("tag", ["a b", "c"], 2, [["a", " "]]),
    ("answer", ["who ?", "a", "what ?", "b"], 2, [["who ?"], ["who ?", " "], ["a", "b", "c"]]),
    ("choose", ["a", "good", "bad"], 1, [["a", "b"], ["a", "b", " "]]),
    ("embed", ["a", "b"], 1, [["a"], ["a", "b", "c"], ["a", " "]]),
])  # fmt: skip
def test_typed_texts_make_as_many_examples(load, head, texts, size, bad):
    task = load(head).definition
    examples = examples_of_texts(task, texts)
    assert [example.row for example in examples] == list(range(1, size + 1))
    for wrong in bad:
        place = f"text {len(wrong)}" if " " in wrong else f"{len(wrong)} text"
        with refuses(InputError, place):
            examples_of_texts(task, wrong)
