"""The contract of a task, for classification: batches, losses, and what becomes of labels."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import loss_of, reviews, save_tiny, tiny_model, tiny_tokenizer

from bertsmith.data.batches import pack
from bertsmith.data.examples import Columns, Example
from bertsmith.data.windows import Windowing
from bertsmith.errors import CheckpointError, InputError
from bertsmith.model.saving import save_model
from bertsmith.tasks.auto import load, load_predictor
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, TrainingExamples, collate
from bertsmith.tasks.inference import compute_in_order
from bertsmith.tasks.logits import softmax
from bertsmith.tasks.multi_label_classification import MultiLabel
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.text_classification import Classify

NAMES = ("neg", "pos")
TEXTS = ["a good film", "the story was very dull and the film awful .", "lovely", "bad films"]


CLASSIFY = Classify(NAMES)


def labelled(examples):
    return CLASSIFY.encode(tiny_tokenizer(), examples, 37, labelled=True)


def test_in_training_the_last_layer_reads_first_tokens_alone_and_drops_some_of_them():
    model = tiny_model("classify", num_labels=2).train()
    model.set_dropout(0.5)
    rows = []
    model.layers[-1].register_forward_hook(lambda layer, given, found: rows.append(len(found)))
    batch = pack([np.full(30, 7)] * 3)
    first, second = (CLASSIFY.outputs(model, batch) for _ in range(2))
    assert max(rows) < batch.num_tokens == 90
    assert not torch.equal(first, second)


@pytest.mark.parametrize("kind", [Classify, MultiLabel])
def test_a_model_of_single_texts_refuses_pairs_that_nobody_named(tmp_path, kind):
    path = tmp_path / "a.csv"
    path.write_text("sentence1,sentence2\na,b\n")
    task = kind(NAMES, pairs=False)
    with pytest.raises(InputError, match="two texts in each row, 'sentence1' and 'sentence2'"):
        list(task.reader(path, None, labelled=False))
    columns = Columns(pair_column="sentence2")
    assert next(iter(task.reader(path, columns, labelled=False))).content == ("a", "b")
    unknown = kind(NAMES)  # a folder from elsewhere does not say
    assert next(iter(unknown.reader(path, None, labelled=False))).content == ("a", "b")


def objective(count=23, **settings):
    examples, held_out = reviews(count), reviews(11, seed=1)
    return FineTuning(
        CLASSIFY,
        TrainingExamples(labelled(examples), Path("a.csv"), [e.row for e in examples]),
        HeldOutExamples(labelled(held_out), Path("b.csv"), held_out),
        **settings,
    )


def test_packed_equals_padded():
    model = tiny_model("classify", num_labels=2)
    texts = labelled(reviews(13)).rows
    input_ids = torch.zeros(13, max(texts.lengths) + 2, dtype=torch.int64)
    mask = torch.zeros_like(input_ids)
    for row, ids in enumerate(texts.ids):
        input_ids[row, : len(ids)] = torch.from_numpy(ids)
        mask[row, : len(ids)] = 1
    with torch.inference_mode():
        padded = model(input_ids, mask).logits
    packed = compute_in_order(model, texts, CLASSIFY.outputs)
    np.testing.assert_allclose(packed, padded.numpy(), atol=1e-6)


def test_evaluation_tells_loss_and_scores_and_leaves_the_mode():
    model = tiny_model("classify", num_labels=2).train()
    task = objective()
    figures = task.evaluate(model)
    assert model.training
    rows = task.held_out.encoded.rows
    logits = torch.from_numpy(compute_in_order(model, rows, CLASSIFY.outputs))
    labels = torch.from_numpy(task.held_out.encoded.example_targets["labels"])
    expected = torch.nn.functional.cross_entropy(logits, labels)
    assert figures["held_out_loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert figures["held_out_classify_accuracy"] == (logits.argmax(-1) == labels).float().mean()
    assert 0 <= figures["held_out_classify_macro_f1"] <= 1


def test_softmax_of_large_logits():
    rows = softmax(np.array([[1000.0, 0.0], [0.0, 0.0]], dtype=np.float32))
    assert rows.tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_predictions_name_the_labels(tmp_path):
    folder = save_tiny(tmp_path / "m", "classify", labels=("one", "two", "three"))
    classifier = load(folder, device="cpu", precision="fp32")
    assert classifier.definition.labels == ("one", "two", "three")
    predictions = classifier(TEXTS)
    for text, prediction in zip(TEXTS, predictions, strict=True):
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
        assert prediction.probability == max(prediction.probabilities.values())
        alone = classifier(text)
        assert alone.label == prediction.label
        assert alone.probability == pytest.approx(prediction.probability, abs=1e-6)
    pair = classifier([("a good film", "bad")])[0]
    assert pair.probability != predictions[0].probability
    assert not predictions[0].is_truncated
    assert classifier("good " * 99).num_windows == 4
    assert not classifier("good " * 99).is_truncated
    with pytest.raises(InputError, match=r"examples\[0\]: 'text': found NoneType"):
        classifier([None])


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-5), ("bf16", 0.05)])
def test_transformers_opens_the_folder_with_equal_logits(tmp_path, precision, tolerance):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = save_tiny(tmp_path / "m", "classify", labels=NAMES)
    theirs = AutoModelForSequenceClassification.from_pretrained(folder)
    assert theirs.config.id2label == dict(enumerate(NAMES))
    assert theirs.config.label2id == {"neg": 0, "pos": 1}
    inputs = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = theirs(**inputs).logits.softmax(-1).numpy()
    classifier = load(folder, device="cpu", precision=precision)
    ours = [list(each.probabilities.values()) for each in classifier(TEXTS)]
    np.testing.assert_allclose(ours, expected, atol=tolerance)


def test_a_folder_of_transformers_predicts_here(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=36,
        max_position_embeddings=41,
        initializer_range=0.3,
        id2label={0: "z", 1: "a", 2: "m"},
        label2id={"z": 0, "a": 1, "m": 2},
    )
    theirs = BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    classifier = load(tmp_path, device="cpu", precision="fp32")
    assert classifier.definition.labels == ("z", "a", "m")
    for text in TEXTS:
        ids = torch.tensor([tiny_tokenizer().encode(text).ids])
        with torch.inference_mode():
            expected = theirs(ids).logits.softmax(-1)[0]
        prediction = classifier(text)
        assert prediction.label == theirs.config.id2label[int(expected.argmax())]
        assert list(prediction.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)


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
    expected = softmax(logits.mean(0, keepdims=True))[0]
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
    changed = load_predictor(tmp_path, long_texts="window", stride=0)
    assert changed("good " * 99).num_windows == 3


def test_a_classifier_of_another_kind_is_refused_by_its_name(tmp_path):
    folder = save_tiny(tmp_path, "classify", labels=NAMES)
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "problem_type": "regression"}))
    with pytest.raises(CheckpointError, match="problem_type is 'regression'"):
        Predictor.load(folder, Classify)


def test_a_folder_without_the_head_or_with_a_strange_vocabulary(tmp_path):
    bare = save_tiny(tmp_path / "bare")
    with pytest.raises(CheckpointError, match=r"no classification head.*finetune classify"):
        load_predictor(bare)
    odd = save_tiny(tmp_path / "odd", "classify", labels=NAMES)
    tokenizer = tiny_tokenizer()
    type(tokenizer)([*tokenizer.vocab, *(f"more{i}" for i in range(500))]).save(odd)
    with pytest.raises(CheckpointError, match=r"520 tokens, the embedding 20"):
        load(odd)


def test_a_step_can_be_divided_into_parts_of_equal_work():
    whole, divided = objective(batch_size=12), objective(batch_size=12, num_parts=3)
    parts = divided.micro_batches(1)
    assert [part.num_sequences for part in parts] == [4, 4, 4]
    sizes = [part.num_tokens for part in parts]
    assert max(sizes) - min(sizes) <= max(length for part in parts for length in part.lengths)

    def texts(batches):
        return sorted(
            tuple(ids.tolist()) for batch in batches for ids in batch.input_ids.split(batch.lengths)
        )

    assert texts(parts) == texts(whole.micro_batches(1))
    few = objective(count=13, batch_size=12, num_parts=3).micro_batches(2)
    assert [part.num_sequences for part in few] == [1]
