"""A label for each word: exact words and places, windows, schemes, and transformers' folders."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refuses
from samples import prepare
from tiny_models import BAD, GOOD, OTHER, save_tiny, tiny_tokenizer

from bertsmith.commands.predict import examples_of_texts
from bertsmith.data.columns import TagColumns
from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.data.label_schemes import convert_labels, count_illegal
from bertsmith.data.tagged import TaggedSentence
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.errors import InputError, as_flags
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.tasks.auto import load
from bertsmith.tasks.token_classification import Tag

NAMES = ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
WORDS = [*GOOD, *BAD, *OTHER[:7], "films", "unheard-of"]
FP32 = {"device": "cpu", "precision": "fp32"}


@pytest.fixture
def folder(tmp_path):
    return save_tiny(tmp_path / "tagger", "tag", labels=NAMES)


@pytest.fixture
def tagger(folder):
    return load(folder, **FP32)


def settings(tmp_path, **changes):
    return prepare("tag", tmp_path, 31, 17, **changes)[1]


def random_words(count, seed=0):
    return np.random.default_rng(seed).choice(WORDS, count).tolist()


def sentence(words, labels=()):
    return TaggedSentence(tuple(words), tuple(labels), 1, scheme="IOB2")


def test_every_word_is_learnt_once_at_its_first_piece():
    task = Tag(NAMES, "IOB2")
    sizes = (0, 1, 17, 41, 83, 199)
    examples = [
        sentence(random_words(size, size), np.random.default_rng(size).choice(NAMES, size).tolist())
        for size in sizes
    ]
    encoded = task.encode(tiny_tokenizer(), examples, 23, labelled=True)
    assert max(encoded.rows.lengths) == 23
    assert encoded.num_windows[:2] == [1, 1]
    assert min(encoded.num_windows[3:]) > 1
    for number, example in enumerate(examples):
        learnt = {}
        for row in encoded.rows_of(number):
            labels = encoded.token_targets["labels"][row]
            words, tokens = encoded.alignment[row]
            assert np.flatnonzero(labels != IGNORE_INDEX).tolist() == tokens.tolist()
            for word, token in zip(words.tolist(), tokens.tolist(), strict=True):
                assert word not in learnt
                learnt[word] = NAMES[labels[token]]
                first = (tiny_tokenizer().encode_ids(example.words[word]) or [1])[0]
                assert encoded.rows.ids[row][token] == first
        assert [learnt[word] for word in range(len(example.words))] == list(example.labels)


def test_labels_may_be_weighed(tmp_path):
    task = Tag.read(settings(tmp_path, class_weights=("O=0.25",), focal_gamma=2.0)).task
    assert (task.loss.weights[task.labels.index("O")], task.loss.focal_gamma) == (0.25, 2.0)


def test_long_sentences_take_each_word_from_the_window_with_most_context(tagger):
    words = random_words(101)
    (found,) = tagger([words])
    assert len(found.labels) == 101
    encoded = tagger.encode_examples([sentence(words)])
    assert found.num_windows == len(encoded.rows) > 3
    for row, (mine, tokens) in enumerate(encoded.alignment):
        ids = torch.tensor(encoded.rows.ids[row].astype(np.int64))[None]
        with torch.inference_mode():
            logits = tagger.loaded.model(ids).logits[0]
        expected = logits[torch.from_numpy(tokens)].softmax(-1).numpy()
        np.testing.assert_allclose(found.probabilities[mine], expected, atol=1e-5)


TEXT = "a 😀 good\u200bfilm,\u3000שלום the \u200b  story.\n中文 e\u0301t the end"


def test_predictions_can_be_read_again(tagger, tmp_path):
    examples = examples_of_texts(tagger.definition, [TEXT, "a film"])
    predictions = tagger.predict(examples)
    path = tmp_path / "a.jsonl"
    pairs = list(zip(examples, predictions, strict=True))
    path.write_text("".join(tagger.definition.formats[".jsonl"](pairs)))
    again = list(TaggedReader(path))
    assert [s.words for s in again] == [e.words for e in examples]
    assert [s.labels for s in again] == [p.labels for p in predictions]
    assert [(s.text, s.offsets) for s in again] == [(e.text, e.offsets) for e in examples]
    path = tmp_path / "a.conll"
    path.write_text("".join(tagger.definition.formats[".conll"](pairs)))
    assert [s.labels for s in list(TaggedReader(path))] == [p.labels for p in predictions]
    for entity in predictions[0].to_json()["entities"]:
        assert TEXT[entity["start"] : entity["end"]] == entity["text"]


def test_illegal_labels_are_counted_and_repaired_on_request(tagger):
    examples = [sentence(random_words(n, n)) for n in range(2, 19)]
    found = tagger.predict(examples)
    illegal = [p for p in found if count_illegal(p.labels, "IOB2")]
    assert illegal
    repaired = tagger.with_options(repair=True).predict(examples)
    for one, other in zip(found, repaired, strict=True):
        assert count_illegal(other.labels, "IOB2") == 0
        assert other.is_repaired == (count_illegal(one.labels, "IOB2") > 0)
        assert list(other.labels) == convert_labels(one.labels, "IOB2", "IOB2")
        assert [e[:4] for e in one.entities] == [e[:4] for e in other.entities]
    accumulator = tagger.definition.accumulator("x.conll")
    accumulator.add([replace(e, labels=("O",) * len(e.words)) for e in examples], repaired)
    assert accumulator.result().remarks["repaired_predictions"] == len(illegal)
    assert accumulator.result().num_illegal == 0


def test_an_evaluation_keeps_the_options_of_the_predictor(tagger):
    """Random labels break IOB2, so that scores differ with repair and with strict counting."""
    words = [random_words(n, n) for n in range(2, 19)]
    labels = [np.random.default_rng(len(each)).choice(NAMES, len(each)).tolist() for each in words]
    data = {"words": words, "labels": labels}
    for options in ({"repair": True}, {"strict": True}, {"repair": True, "strict": True}):
        choice = tagger.with_options(**options)
        assert choice.evaluate(data) == tagger.evaluate(data, **options) != tagger.evaluate(data)
        usual = choice.evaluate(data, repair=False, strict=False)
        assert usual == tagger.evaluate(data)


def test_a_folder_remembers_how_text_was_cut(tmp_path):
    asked = settings(tmp_path, steps=1, columns=TagColumns(split="characters"))
    tagger = load(finetune(Tag, asked).out, **FP32)
    assert tagger("a film").words == ("a", "f", "i", "l", "m")
    assert examples_of_texts(tagger.definition, ["a b"])[0].words == ("a", "b")
    assert tagger.with_options(split="words")("a film").words == ("a", "film")


@pytest.mark.parametrize("labels, scheme", [
    (("NOUN", "VERB"), "plain"), (("B-X", "E-X", "O", "S-X"), "BIOES"),
    (("B-X", "I-X", "O", "[PAD]"), "plain"),
])  # fmt: skip
def test_the_scheme_of_a_foreign_folder_is_that_of_its_labels(tmp_path, labels, scheme):
    tagger = load(save_tiny(tmp_path, "tag", labels=labels), **FP32)
    assert tagger.definition.scheme == scheme
    assert "entities" in tagger("a film").to_json() or scheme == "plain"


@pytest.mark.parametrize("content, parts", [
    ("good NOUN\nfilm NOUN\n", [":1:", " plain ", "--label-column", "--scheme"]),
    ("good B-Q\nfilm I-Q\n", ["'B-LOC', 'B-PER', 'I-LOC', 'I-PER', 'O'", "--label-column"]),
])  # fmt: skip
def test_labels_that_the_model_has_not(tagger, tmp_path, content, parts):
    path = tmp_path / "a.conll"
    path.write_text("good B-NEW\nfilm O\n")
    assert evaluate(tagger, path).num_unknown == 1
    path.write_text(content)
    with refuses(InputError, "a.conll:", *parts):
        evaluate(tagger, path)


def notes_on(sentences):
    names = sorted({label for one in sentences for label in one.labels})
    task = Tag(tuple(names), sentences[0].scheme)
    encoded = task.encode(tiny_tokenizer(), sentences, 37, labelled=True)
    return "\n".join(task.notes(sentences, encoded))


def test_unusual_training_sentences_are_told():
    numbers = [TaggedSentence(("good", "film"), ("1", "0"))] * 2
    assert "numbers" in notes_on(numbers)
    long = TaggedSentence(("good", "film") * 150, ("A", "B") * 150)
    assert "all 300 words are one sentence" in notes_on([long])
    rows = [{"text": "goodfilm", "entities": [[0, 4, "X"]]}] * 2
    assert "2 entities end within a word" in (found := notes_on(list(TaggedReader(rows))))
    assert "--split characters" in as_flags(found)
    assert notes_on([TaggedSentence(("good", "film"), ("A", "B"))]) == ""


@pytest.mark.parametrize(("words", "is_reported"), [
    ([*"中国1998年"], True),
    ([*"abc"], True),
    ([*"中国9年,B"], False),
    (["1998", *"年中国人"], False),
    ([*"ab", "cd"], False),
    ([*"中国ab" * 50, "cd"], True),
    ([*"中国" * 50, "1998"], False),
])  # fmt: skip
def test_characters_that_new_text_would_join_to_words_are_told(words, is_reported):
    labels = ("A", *"B" * (len(words) - 1))
    notes = as_flags(
        notes_on([TaggedSentence(("国",), ("A",)), TaggedSentence(tuple(words), labels)])
    )
    assert ("single characters" in notes and "--split characters" in notes) == is_reported
    assert bool(notes) == is_reported


def test_characters_that_are_split_alike_need_no_remark():
    task = Tag(("A", "B"), split="characters")
    sentences = [TaggedSentence(("a", "b"), ("A", "B"))]
    encoded = task.encode(tiny_tokenizer(), sentences, 37, labelled=True)
    assert task.notes(sentences, encoded) == []
