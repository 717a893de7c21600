"""A label for each word: exact words and places, windows, schemes, and transformers' folders."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from samples import write_names
from tiny_models import (
    BAD,
    GOOD,
    NUM_POSITIONS,
    OTHER,
    load_for_task,
    loss_of,
    save_tiny,
    tiny_tokenizer,
)

from bertsmith.commands.predict import typed_examples
from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.data.label_schemes import convert_labels, count_illegal
from bertsmith.data.tagged import TagColumns, TaggedSentence
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.data.windows import Windowing
from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import split
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.tagged_text import conll_block, marked_text, span_types
from bertsmith.tasks.token_classification import Tag, TagSettings

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
    return TagSettings(
        model=save_tiny(tmp_path / "model"),
        train=write_names(tmp_path / "a.conll", 31),
        eval=write_names(tmp_path / "b.conll", 17, 1),
        out=tmp_path / "out",
        **{**FP32, **changes},
    )


def random_words(count, seed=0):
    return np.random.default_rng(seed).choice(WORDS, count).tolist()


def sentence(words, labels=()):
    return TaggedSentence(tuple(words), tuple(labels), 1, scheme="IOB2")


def first_pieces(word_ids):
    return [place for place, word in enumerate(word_ids) if word not in (None, *word_ids[:place])]


def test_transformers_gives_equal_probabilities_for_split_words(tagger, folder):
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    theirs = AutoModelForTokenClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert theirs.config.id2label == dict(enumerate(NAMES))
    for size in (1, 5, 11):
        words = random_words(size, size)
        inputs = tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            rows = theirs(**inputs).logits.softmax(-1)[0, first_pieces(inputs.word_ids())]
        (found,) = tagger([words])
        np.testing.assert_allclose(found.probabilities, rows.numpy(), atol=1e-5)
        assert found.labels == tuple(NAMES[number] for number in rows.argmax(-1))


def test_a_folder_of_transformers_predicts_here(tmp_path):
    from transformers import BertConfig, BertForTokenClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=36,
        max_position_embeddings=NUM_POSITIONS,
        initializer_range=0.3,
        id2label=dict(enumerate(NAMES)),
        label2id={name: number for number, name in enumerate(NAMES)},
    )
    theirs = BertForTokenClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    tagger = load(tmp_path, **FP32)
    assert (tagger.definition.labels, tagger.definition.scheme) == (NAMES, "IOB2")
    ids = torch.tensor([tiny_tokenizer().encode("a lovely story").ids])
    with torch.inference_mode():
        expected = theirs(ids).logits.softmax(-1)[0, 1:-1].numpy()
    np.testing.assert_allclose(tagger("a lovely story").probabilities, expected, atol=1e-5)


def test_the_scheme_of_a_foreign_folder_is_that_of_its_labels(tmp_path):
    for labels, scheme in ((("NOUN", "VERB"), "plain"), (("B-X", "E-X", "O", "S-X"), "BIOES")):
        found = load(save_tiny(tmp_path / scheme, "tag", labels=labels))
        assert found.definition.scheme == scheme
    odd = load(save_tiny(tmp_path / "odd", "tag", labels=("B-X", "I-X", "O", "[PAD]")))
    assert odd.definition.scheme == "plain"


def test_every_word_is_learnt_once_at_its_first_piece():
    task = Tag(NAMES, "IOB2")
    sizes = (0, 1, 17, 41, 83, 199)
    examples = [
        sentence(random_words(size, size), np.random.default_rng(size).choice(NAMES, size).tolist())
        for size in sizes
    ]
    encoded = task.encode(tiny_tokenizer(), examples, 23, labelled=True)
    assert max(encoded.rows.lengths) == 23
    assert encoded.num_rows[:2] == [1, 1]
    assert min(encoded.num_rows[3:]) > 1
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


def test_labels_of_another_scheme_are_learnt_as_those_of_the_model():
    task = Tag(NAMES, "IOB2")
    example = TaggedSentence(("good", "film", "bad"), ("I-PER", "B-PER", "O"), 1, scheme="IOB1")
    encoded = task.encode(tiny_tokenizer(), [example], 23, labelled=True)
    learnt = encoded.token_targets["labels"][0]
    assert [NAMES[label] for label in learnt[learnt != IGNORE_INDEX]] == ["B-PER", "B-PER", "O"]


def test_the_loss_is_the_cross_entropy_of_first_pieces(tagger):
    task = tagger.definition
    examples = [sentence(random_words(n, n), ["O"] * (n - 1) + ["I-LOC"]) for n in (3, 7, 29)]
    encoded = task.encode(tiny_tokenizer(), examples, NUM_POSITIONS, labelled=True)
    batch = collate(encoded.by_row(), range(len(encoded.rows)))
    term = loss_of(task, tagger.loaded.model, batch)
    predictions = tagger.predict(examples)
    accumulator = task.accumulator("b.conll")
    accumulator.add(examples, predictions)
    num_right = sum(
        label == wanted
        for example, prediction in zip(examples, predictions, strict=True)
        for label, wanted in zip(prediction.labels, example.labels, strict=True)
    )
    assert term.count == 39
    assert term.correct == num_right
    assert term.sum.item() / 39 == pytest.approx(accumulator.figures()["loss"], rel=1e-5)
    assert accumulator.figures()["accuracy"] == num_right / 39


@pytest.mark.parametrize(
    "changes", [{"class_weights": ("O=0.25",)}, {"label_smoothing": 0.1}, {"focal_gamma": 2.0}]
)
def test_other_losses_leave_out_all_but_first_pieces(tmp_path, changes):
    asked = settings(tmp_path, **changes)
    dataset = Tag.read(asked)
    model, tokenizer = load_for_task(asked, dataset)
    encoded = dataset.task.encode(tokenizer, dataset.train, NUM_POSITIONS, labelled=True)
    batch = collate(encoded.by_row(), range(7))
    logits, labels = dataset.task.outputs(model.eval(), batch), batch.targets["labels"]
    known = labels != IGNORE_INDEX
    expected = dataset.task.loss.sum(logits[known], labels[known])
    found = loss_of(dataset.task, model, batch).sum
    torch.testing.assert_close(found, expected)
    plain = torch.nn.functional.cross_entropy(logits[known], labels[known], reduction="sum")
    assert abs(found - plain) > 0.1


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


def test_windows_are_as_in_training_and_cutting_is_refused(tmp_path):
    result = finetune(Tag, settings(tmp_path, steps=1, max_length=17, stride=5))
    task = load(result.out).definition
    assert task.windowing == Windowing("window", 5)
    with pytest.raises(ConfigError, match="tag allows window alone, as every word gets a label"):
        finetune(Tag, settings(tmp_path / "b", steps=1, long_texts="cut"))


def test_words_that_vanish_have_a_prediction_too(tagger):
    for words in (["\u200b"], ["good", "\u200b", "film"], ["\x07", "\u00ad", " ", "\ud800"]):
        (found,) = tagger([words])
        assert found.words == tuple(words)
        assert len(found.labels) == len(words)
    (vanished, unknown) = tagger([["good", "\u200b", "film"], ["good", "qq", "film"]])
    np.testing.assert_array_equal(vanished.probabilities, unknown.probabilities)
    assert tagger([[]])[0].labels == ()
    assert tagger([]) == []


TEXT = "a 😀 good\u200bfilm,\u3000שלום the \u200b  story.\n中文 e\u0301t the end"


def test_words_and_entities_slice_the_text_as_it_was_given(tagger):
    found = tagger(TEXT)
    assert found.words[:4] == ("a", "😀", "good\u200bfilm", ",")
    for word, (start, end) in zip(found.words, found.sentence.places, strict=True):
        assert TEXT[start:end] == word
    assert found.entities
    for entity in found.entities:
        assert TEXT[entity.start : entity.end] == entity.text
        assert 0 < entity.probability < 1
    assert len(found.labels) == len(found.words) == len(found.label_probabilities)


def test_predictions_can_be_read_again(tagger, tmp_path):
    examples = typed_examples(tagger.definition, [TEXT, "a film"])
    predictions = tagger.predict(examples)
    path = tmp_path / "a.jsonl"
    pairs = list(zip(examples, predictions, strict=True))
    path.write_text("".join(tagger.definition.formats[".jsonl"](pairs)))
    again = list(TaggedReader(path))
    assert [s.words for s in again] == [e.words for e in examples]
    assert [s.labels for s in again] == [p.labels for p in predictions]
    assert [(s.text, s.places) for s in again] == [(e.text, e.places) for e in examples]
    path = tmp_path / "a.conll"
    path.write_text("".join(tagger.definition.formats[".conll"](pairs)))
    assert [s.labels for s in list(TaggedReader(path))] == [p.labels for p in predictions]
    row = predictions[0].to_json()
    assert [TEXT[e["start"] : e["end"]] for e in row["entities"]] == [
        e["text"] for e in row["entities"]
    ]


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
    gold = [
        replace(e, labels=p.labels, scheme="IOB2") for e, p in zip(examples, repaired, strict=True)
    ]
    accumulator.add(gold, repaired)
    assert accumulator.result().remarks["repaired_predictions"] == len(illegal)
    assert accumulator.result().num_illegal == 0


def test_repaired_labels_that_the_model_has_not_have_no_probability(tmp_path):
    tagger = load(save_tiny(tmp_path, "tag", labels=("B-Y", "I-X")), **FP32)
    (found,) = tagger.with_options(repair=True)([random_words(19)])
    assert "B-X" in found.labels
    for label, probability in zip(found.labels, found.label_probabilities, strict=True):
        assert (probability == 0.0) == (label == "B-X")


def test_iob1_is_learnt_as_iob2_unless_another_is_asked_for(tmp_path):
    asked = settings(tmp_path)
    dataset = Tag.read(asked)
    assert (dataset.task.scheme, dataset.task.labels[0]) == ("IOB2", "B-LOC")
    assert dataset.task.describe_target() == "5 labels (IOB2 for IOB1)"
    assert Tag.read(replace(asked, learn="BIOES")).task.labels[-1] == "S-PER"
    kept = Tag.read(replace(asked, learn="IOB1"))
    assert kept.task.describe_target().endswith("labels (IOB1)")
    assert {example.scheme for example in dataset.train} == {"IOB2"}


def test_a_file_has_the_same_scores_in_any_scheme(tagger, tmp_path):
    sentences = list(TaggedReader(write_names(tmp_path / "a.conll", 37)))
    reports = []
    for scheme in ("IOB1", "IOB2", "BIOES", "BILOU"):
        path = tmp_path / f"{scheme}.conll"
        path.write_text(
            "".join(
                conll_block(s.words, convert_labels(s.labels, "IOB1", scheme)) for s in sentences
            )
        )
        reports.append(evaluate(tagger, path))
    assert all(report == reports[0] for report in reports)
    strict = evaluate(tagger, tmp_path / "IOB2.conll", TagColumns(strict=True))
    assert strict.strict
    assert strict.total.num_predicted < reports[0].total.num_predicted


def test_illegal_sentences_of_training_are_told(tmp_path):
    asked = settings(tmp_path)
    asked.train.write_text("a B-X\nb I-X\n\na I-X\nb O\n\na B-X\nb O\n")
    assert Tag.read(asked).task.describe_target() == (
        "3 labels (IOB2; 1 sentences break IOB2, learnt as they are)"
    )
    dataset = Tag.read(replace(asked, columns=TagColumns(repair=True)))
    assert dataset.task.describe_target().endswith("break IOB2, repaired)")
    assert dataset.train[1].labels == ("B-X", "O")


def test_comments_of_training_are_told(tmp_path):
    asked = settings(tmp_path)
    asked.train.write_text("# of it\na B-X\nb O\n")
    assert Tag.read(asked).task.describe_target() == (
        "2 labels (IOB2; 1 lines that begin with # were taken for comments)"
    )


def test_labels_that_the_model_has_not_count_as_wrong_and_are_told(tagger, tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("good B-NEW\nfilm O\n")
    report = evaluate(tagger, path)
    assert report.num_unknown == 1
    assert "1 words have a label that the model never learnt" in str(report)
    path.write_text("good NOUN\nfilm NOUN\n")
    with pytest.raises(InputError, match=r"a.conll:1: labels of the scheme plain cannot"):
        evaluate(tagger, path)
    path.write_text("good B-Q\nfilm I-Q\n")
    with pytest.raises(InputError, match=r"a.conll: the model knows none of the labels in it"):
        evaluate(tagger, path)


def test_a_strange_label_far_down_is_found_with_its_place(tagger, tmp_path):
    path = tmp_path / "long.conll"
    path.write_text("good B-PER\nfilm O\n\n" * 5001 + "a PERSON\n")
    with pytest.raises(
        InputError, match=r"long.conll:15004: the label 'PERSON' does not tell where"
    ):
        Tag.read(replace(settings(tmp_path), train=path))
    with pytest.raises(InputError, match=r"short.conll:4: the label 'PERSON' does not tell"):
        short = tmp_path / "short.conll"
        short.write_text("good B-PER\nfilm O\n\na PERSON\n")
        evaluate(tagger, short, TagColumns(scheme="IOB2"))


def test_plain_labels_have_no_entities(tmp_path):
    tagger = load(save_tiny(tmp_path, "tag", labels=("ADJ", "DET", "NOUN")), **FP32)
    found = tagger("the good film")
    assert found.entities == []
    example = found.sentence
    assert "entities" not in found.to_json()
    line = str(found.line(example))
    assert re.sub("/[A-Z]+", "", line) == "the good film"


def test_a_file_without_two_labels_teaches_nothing(tmp_path):
    asked = settings(tmp_path)
    asked.train.write_text("a O\nb O\n")
    with pytest.raises(InputError, match=r"a.conll: the only label is 'O'"):
        Tag.read(asked)


def test_empty_sentences_are_no_examples_to_learn_from(tmp_path):
    asked = settings(tmp_path)
    train = asked.train.with_suffix(".jsonl")
    rows = [
        {"words": words, "labels": ["A", "B"][: len(words)]} for words in (["a", "b"], [], ["a"])
    ]
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [e.row for e in Tag.read(replace(asked, train=train, eval=train)).train] == [1, 3]
    train.write_text(json.dumps({"words": [], "labels": []}))
    with pytest.raises(InputError, match=r"a\.jsonl: no sentence with words in it"):
        Tag.read(replace(asked, train=train))


def test_a_folder_remembers_how_text_was_cut(tmp_path):
    asked = settings(tmp_path, steps=1, columns=TagColumns(split="characters"))
    tagger = load(finetune(Tag, asked).out, **FP32)
    assert tagger("a film").words == ("a", "f", "i", "l", "m")
    assert typed_examples(tagger.definition, ["a b"])[0].words == ("a", "b")
    assert tagger.with_options(split="words")("a film").words == ("a", "film")


def test_folds_have_their_share_of_each_type(tmp_path):
    dataset = Tag.read(settings(tmp_path))
    strata = [dataset.task.fold_stratum(example) for example in dataset.train]
    assert set(strata) == {(), ("LOC",), ("PER",), ("LOC", "PER")}
    for part in split(dataset, 3, seed=0):
        for stratify_key in set(strata):
            share = sum(
                part.task.fold_stratum(example) == stratify_key for example in part.held_out
            )
            assert abs(share - strata.count(stratify_key) / 3) < 1


def test_a_guessed_format_is_told(tagger, tmp_path, capsys):
    path = tmp_path / "words.txt"
    path.write_text("good\nfilm\n\nbad\n")
    assert [s.words for s in tagger.definition.reader(path, None, labelled=False)] == [
        ("good", "film"),
        ("bad",),
    ]
    assert "words.txt: read as columns, a word a line, as its" in capsys.readouterr().err
    tagger.definition.reader(path, TagColumns(format="text"), labelled=False)
    assert capsys.readouterr().err == ""


def test_a_misplaced_list_is_refused(tagger):
    for strange, kind in ((3, "int"), (0, "int"), (None, "NoneType"), (b"", "bytes")):
        with pytest.raises(InputError, match=rf"examples\[0\]: word 1: found {kind}"):
            tagger([["good", strange]])
    with pytest.raises(InputError, match="text 2 is empty"):
        typed_examples(tagger.definition, ["good", " "])


def test_a_folder_without_the_head_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no token classification head"):
        Predictor.load(save_tiny(tmp_path), Tag)


def shown(text, **settings):
    console = Console(soft_wrap=True, highlight=False, width=200, **settings)
    with console.capture() as capture:
        console.print(text)
    return capture.get().rstrip("\n")


def test_entities_are_marked_in_the_text_and_coloured_on_terminals():
    example = TaggedSentence(
        ("Li", "Wei", "saw", "EU"), (), 1, ("Li Wei\nsaw EU.", ((0, 2), (3, 6), (7, 10), (11, 13)))
    )
    labels = ["B-PER", "I-PER", "O", "B-ORG"]
    text = marked_text(example, labels, "IOB2", ["ORG", "PER"])
    assert shown(text) == "[Li Wei PER] saw [EU ORG]."
    coloured = shown(text, force_terminal=True, color_system="standard", no_color=False)
    assert coloured == "\x1b[1;32m[Li Wei PER]\x1b[0m saw \x1b[1;36m[EU ORG]\x1b[0m."
    assert "\x1b[3" not in shown(text, force_terminal=True, no_color=True)


def test_plain_labels_are_apart_from_the_words_behind_them():
    places = ((0, 2), (2, 5), (6, 10), (10, 11), (12, 14), (12, 14), (14, 15))
    example = TaggedSentence(
        ("Do", "n't", "stop", ",", "de", "le", "!"), (), 1, ("Don't stop, du!", places)
    )
    labels = ["VERB", "PRON", "VERB", "O", "ADP", "DET", "O"]
    text = marked_text(example, labels, "plain", [])
    assert str(text) == "Do/VERB n't/PRON stop/VERB , du/ADP/DET !"


def test_words_of_a_segmentation_stand_apart():
    example = TaggedSentence(tuple("中国人来"))
    assert str(marked_text(example, list("BESS"), "BMES", [""])) == "中国 人 来"
    assert span_types(["B", "E", "S"], "BMES") == [""]
    assert span_types(["O", "I-X", "B-Y"], "IOB2") == ["X", "Y"]
    assert span_types(["NOUN", "DET"], "plain") == ["DET", "NOUN"]


def test_columns_hold_a_word_a_line():
    assert conll_block(["New\tYork", "\n"], ["B-LOC", "O"]) == "New York\tB-LOC\n\ufffd\tO\n\n"


def test_strange_words_stay_one_sentence_in_columns(tmp_path):
    words = ["a", "-DOCSTART-", "\t", " ", "\u3000", "\u2028"]
    path = tmp_path / "a.conll"
    path.write_text(conll_block(words, ["O"] * 6) * 2)
    sentences = list(TaggedReader(path))
    assert [s.words for s in sentences] == [
        ("a", "-DOCSTART-", "\ufffd", "\ufffd", "\u3000", "\ufffd")
    ] * 2


def test_the_outcome_shows_what_is_wrong(tagger):
    example = sentence(["good", "film"], ["O", "O"])
    (found,) = tagger.predict([example])
    outcome = tagger.definition.outcome(example, replace(found, labels=("O", "B-PER")))
    assert (outcome.gold, outcome.predicted, outcome.score) == ("film/O", "film/B-PER", 0.5)
    right = tagger.definition.outcome(example, replace(found, labels=("O", "O")))
    assert (right.gold, right.score) == ("good/O film/O", 1.0)
