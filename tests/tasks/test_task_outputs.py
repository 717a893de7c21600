"""The losses and outputs of single tasks by hand: labels, numbers, choices."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refuses
from samples import prepare
from tiny_models import (
    BAD,
    GOOD,
    NUM_POSITIONS,
    OTHER,
    load_for_task,
    loss_of,
    reviews,
    save_tiny,
    tiny_model,
    tiny_tokenizer,
)

from bertsmith.data.columns import Columns
from bertsmith.data.examples import Example
from bertsmith.data.multiple_choice import ChoiceExample
from bertsmith.data.windowing import Windowing
from bertsmith.errors import ConfigError, InputError, as_flags
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.tasks.auto import load
from bertsmith.tasks.choice_prediction import ChoicePrediction
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.inference import compute_in_order
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.multiple_choice import Choose, choice_logits, encode_choices
from bertsmith.tasks.probabilities import softmax64
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.text_classification import Classify

NAMES = ("neg", "pos")
CLASSIFY = Classify(NAMES)


def test_a_long_text_has_the_mean_logits_of_its_windows(tmp_path):
    folder = save_tiny(tmp_path / "m", "classify", labels=NAMES)
    words = [["good", "bad"][i % 3 % 2] for i in range(80)]
    classifier = load(folder, device="cpu", precision="fp32")
    windows = [" ".join(words[first : first + 35]) for first in (0, 26, 45)]  # 9 are shared
    rows = CLASSIFY.encode(
        tiny_tokenizer(), [Example(text) for text in windows], 37, labelled=False
    )
    logits = compute_in_order(classifier.loaded.model, rows.rows, CLASSIFY.outputs)
    prediction = classifier(" ".join(words))
    assert prediction.num_windows == 3
    expected = softmax64(logits.mean(0, keepdims=True))[0]
    assert list(prediction.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-6)
    example = Example(" ".join(words), None, "pos", 2)
    batch = collate(CLASSIFY.encode(tiny_tokenizer(), [example], 37, labelled=True), [0])
    loss = loss_of(CLASSIFY, classifier.loaded.model, batch).sum.item()
    assert loss == pytest.approx(-np.log(expected[1]), abs=1e-5)


def test_how_long_texts_are_read_is_kept_and_can_be_changed(tmp_path):
    model = tiny_model("classify", num_labels=2)
    task = Classify(NAMES, Windowing("cut", 5))
    model.task_settings = {"task": "classify", **task.task_settings}
    save_model(model, tmp_path, tiny_tokenizer(), id2label=dict(enumerate(NAMES)))
    classifier = load_predictor(tmp_path)
    assert classifier.definition == task
    assert classifier("good " * 99).is_truncated
    assert classifier("good " * 99).num_windows == 1
    with refuses(ConfigError, "--stride 3", "--long-texts cut"):
        load_predictor(tmp_path, stride=3)
    changed = load_predictor(tmp_path, long_texts="window", stride=0)
    assert changed("good " * 99).num_windows == 3


@pytest.fixture
def settings(tmp_path):
    return prepare("regress", tmp_path, 31, 17)[1]


def test_the_loss_is_the_squared_error(settings):
    dataset = Regress.read(settings)
    model, tokenizer = load_for_task(settings, dataset)
    encoded = dataset.task.encode(tokenizer, dataset.train, 37, labelled=True)
    batch = collate(encoded, range(13))
    term = loss_of(dataset.task, model.eval(), batch)
    found = dataset.task.predict(model, encoded, dataset.train)[:13]
    errors = [p.value - float(e.label) for p, e in zip(found, dataset.train[:13], strict=True)]
    deviation = np.std([float(example.label) for example in dataset.train])
    assert term.sum.item() == pytest.approx(np.square(errors / deviation).sum(), rel=1e-4)
    assert term.count == 13


def last_layer(model):
    return model.heads["regress"].dense


def test_a_head_learns_standardized_numbers_and_is_saved_in_the_labels_unit(settings):
    dataset = Regress.read(settings)
    labels = np.array([float(example.label) for example in dataset.train])
    model, tokenizer = load_for_task(settings, dataset)
    assert last_layer(model).bias.item() == 0.0
    stored = save_tiny(settings.out, "regress", seed=3)
    kept, _ = load_for_task(replace(settings, model=stored), dataset)
    raw = load_model(stored)
    # A head that is continued predicts as it did before, and gives its weights back.
    scaled = last_layer(kept).weight * labels.std()
    torch.testing.assert_close(scaled.float(), last_layer(raw).weight, atol=1e-6, rtol=1e-6)
    encoded = dataset.task.encode(tokenizer, dataset.train, 37, labelled=True)
    before = [p.value for p in Regress().predict(raw, encoded, dataset.train)]
    found = [p.value for p in dataset.task.predict(kept, encoded, dataset.train)]
    assert found == pytest.approx(before, abs=1e-5)
    trained = kept.state_dict()
    with dataset.task.as_saved(kept) as given:
        after = [p.value for p in Regress().predict(kept, encoded, dataset.train)]
    assert after == pytest.approx(before, abs=1e-5)
    assert set(given) == {"heads.regress.dense.weight", "heads.regress.dense.bias"}
    assert all(torch.equal(kept.state_dict()[name], trained[name]) for name in trained)


@pytest.mark.parametrize(("factor", "shift"), [(1e-5, 0.0), (1e6, 0.0), (1.0, -40.0)])
def test_a_teacher_teaches_numbers_of_the_labels_unit(settings, factor, shift):
    dataset = Regress.read(settings)
    _, tokenizer = load_for_task(settings, dataset)
    batch = collate(dataset.task.encode(tokenizer, dataset.train, 37, labelled=True), range(13))
    student = torch.randn(13, 1)
    taught = student * dataset.task.deviation + dataset.task.mean
    loss, agreed = dataset.task.distillation_loss(student, taught, batch, 1.0)
    assert (loss.item(), agreed.item()) == (pytest.approx(0.0, abs=1e-8), 13)
    changed = [
        replace(example, label=str(factor * float(example.label) + shift))
        for example in dataset.train
    ]
    other = dataset.task.with_train(changed, settings.train)
    assert other.targets(changed) == pytest.approx(dataset.task.targets(dataset.train), abs=1e-5)
    again = factor * taught + shift
    assert other.distillation_loss(student, again, batch, 1.0)[0].item() < 1e-6


def test_labels_that_fp32_cannot_hold_are_refused_or_told_of(settings):
    dataset = Regress.read(settings)
    for scale in (1e-33, 1e33):
        labels = [replace(e, label=str(scale * float(e.label))) for e in dataset.train]
        with refuses(InputError, str(settings.train), "another unit", worded=False):
            dataset.task.with_train(labels, settings.train)
    far = [replace(e, label=str(3e5 + float(e.label))) for e in dataset.train]
    (note,) = dataset.task.with_train(far, settings.train).notes(far, None)
    assert "fp32 rounds" in note
    assert dataset.task.notes(dataset.train, None) == []
    same = [replace(e, label="5") for e in dataset.train]
    assert dataset.task.with_train(same, settings.train).deviation == 1.0


@pytest.mark.parametrize(("mean", "scale", "shown"), [
    (1.7e9, 1.0, "1700000000"), (-1.7e9, 1.0, "-1700000000"), (1.0, 1e-12, "1"),
    (1e12, 1e3, "1000000000000"), (273.15, 1e-5, "273.15"), (1e7, 1.0, "10000000"),
])  # fmt: skip
def test_numbers_whose_spread_is_lost_in_their_mean_are_refused(settings, mean, scale, shown):
    dataset = Regress.read(settings)
    plain = np.array([float(example.label) for example in dataset.train])
    labels = (mean + scale * (plain - plain.mean()) / plain.std()).tolist()
    far = [replace(e, label=repr(label)) for e, label in zip(dataset.train, labels, strict=True)]
    with refuses(InputError, str(settings.train), f"Subtract {shown} from", worded=False):
        dataset.task.with_train(far, settings.train)


def test_a_head_keeps_its_weights_where_the_encoder_computes_in_bf16(tmp_path):
    folder = tmp_path / "regressor"
    model = tiny_model("regress", num_labels=1)
    with torch.no_grad():
        last_layer(model).bias.fill_(12345.678)
    save_model(model, folder, tiny_tokenizer(), id2label={0: "value"})
    texts = [example.text for example in reviews(9)]
    found = [
        [answer.value for answer in load(folder, precision=precision)(texts)]
        for precision in ("bf16", "fp32")
    ]
    assert found[0] == pytest.approx(found[1], abs=0.05)


def encoded(examples, max_length=NUM_POSITIONS):
    return Choose().encode(tiny_tokenizer(), examples, max_length, labelled=True)


def test_a_long_prompt_is_read_in_windows_the_same_for_all_choices():
    words = " ".join([*GOOD, *BAD, *OTHER[:7]])
    example = ChoiceExample(words, ("good", "very bad film"), 0)
    choices = encode_choices(tiny_tokenizer(), example, 17, Windowing())
    rows = [row for choice in choices for row in choice.rows]
    half = len(rows) // 2
    prompts = [row.ids[row.type_ids == 0][1:-1].tolist() for row in rows]
    assert prompts[:half] == prompts[half:]
    assert max(len(row.ids) for row in rows) == 17
    assert {id_ for window in prompts for id_ in window} == set(tiny_tokenizer().encode_ids(words))
    assert {choice.num_cut for choice in choices} == {0}


def test_a_choice_tells_in_how_many_windows_its_prompt_was_read():
    prediction = ChoicePrediction(0, "yes", (0.75, 0.25), is_truncated=False, num_windows=3)
    assert prediction.to_json()["num_windows"] == 3


def test_logits_are_means_over_windows_and_absent_choices_have_none():
    examples = [
        ChoiceExample("the film", ("good", "bad"), 0),
        ChoiceExample(" ".join(["very"] * 31), ("good", "bad", "fine"), 2),
    ]
    data = encoded(examples, 19)
    num_windows = (data.starts[2] - 2) // 3
    assert num_windows > 1
    batch = collate(data, [1, 0])
    numbers = torch.arange(len(data.rows), dtype=torch.float32)
    assert data.num_windows == [1, num_windows]
    assert data.num_windowed == 1
    # Each row's number in its example stands for its logit.
    logits = choice_logits(batch.targets["row_index"].float(), batch)
    expected = numbers[: 3 * num_windows].view(3, num_windows).mean(1)
    torch.testing.assert_close(logits[0], expected)
    assert logits[1].tolist() == [0.0, 1.0, -torch.inf]


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_model_of_single_texts_takes_no_pairs_and_one_of_pairs_no_single_texts(
    tmp_path, multi_label
):
    head = "multi_label" if multi_label else "classify"
    classifier = load(save_tiny(tmp_path / "m", head, labels=NAMES), device="cpu")
    single, pairs = (classifier.with_options(pairs=are_pairs) for are_pairs in (False, True))
    for given in ([["good", "bad"]], [("good", "bad")], [{"text": "good", "pair": "bad"}]):
        with refuses(InputError, "examples[0]", "trained on single texts"):
            single(given)
        assert len(pairs(given)) == 1
    assert len(single(["good", "bad"])) == 2
    with refuses(InputError, "examples[0]", "[(a, b)]"):
        pairs(["good", "bad"])
    assert len(classifier([("good", "bad"), "good"])) == 2  # it is not known which it reads


def test_the_second_text_of_a_record_may_be_none_but_has_one_name(tmp_path):
    model = load(save_tiny(tmp_path / "m", "classify", labels=NAMES), device="cpu")
    nothing = {"text": "good", "pair": None}
    assert model.example(nothing).pair is None
    assert model.example({**nothing, "text_pair": "bad"}).pair == "bad"
    with refuses(InputError, "'pair'", "'text_pair'", "not both"):
        model.example({"text": "good", "pair": "bad", "text_pair": "worse"})


def test_words_that_are_none_do_not_hide_the_text(tmp_path):
    folder = save_tiny(tmp_path / "m", "tag", labels=("O", "B-PER", "I-PER"))
    tagger = load(folder, device="cpu", precision="fp32")
    assert tagger.example({"words": None, "text": "Ada flew"}).words == ("Ada", "flew")
    assert tagger.example({"words": ["Ada flew"], "text": None}).words == ("Ada flew",)
    with refuses(InputError, "'text'"):
        tagger.example({"words": None})


@pytest.mark.parametrize("name", ["pair", "text_pair"])
@pytest.mark.parametrize(("head", "text"), [("tag", "Ada flew"), ("masked_lm", "a [MASK]")])
def test_a_second_text_is_refused_by_tasks_of_one(tmp_path, head, text, name):
    labels = {"labels": ("O", "B-PER", "I-PER")} if head == "tag" else {}
    model = load(save_tiny(tmp_path / "m", head, **labels), device="cpu", precision="fp32")
    with refuses(InputError, "examples[0]", f"'{name}'", "second text"):
        model([{"text": text, name: "b"}])
    assert len(model([{"text": text, name: None}, {"text": text}])) == 2


def test_a_column_of_second_texts_is_refused_by_a_model_of_single_texts(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,label\ngood,bad,pos\n")
    columns = Columns(text_column="a", pair_column="b")
    with refuses(InputError, "--pair-column", "single texts"):
        Classify(NAMES, pairs=False).reader(path, columns, labelled=True)
    (example,) = Classify(NAMES, pairs=True).reader(path, columns, labelled=True)
    assert example.pair == "bad"


def test_classes_that_seem_to_be_several_labels_are_told():
    names = ("insult", "insult,threat", "toxic", "toxic,insult", "toxic,threat")
    task = Classify(names)
    examples = [Example("good " * count, None, name) for count, name in enumerate(names * 2, 1)]
    encoded = task.encode(tiny_tokenizer(), examples, 37, labelled=True)
    (note,) = task.notes(examples, encoded)
    assert "'insult,threat'" in note and "--multi-label" in as_flags(note)
