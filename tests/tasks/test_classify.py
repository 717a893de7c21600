"""The contract of a task, for classification: batches, losses, and what becomes of labels."""

import numpy as np
import pytest
from tiny_models import loss_of, save_tiny, tiny_model, tiny_tokenizer

from bertsmith.data.examples import Example
from bertsmith.data.windows import Windowing
from bertsmith.model.saving import save_model
from bertsmith.tasks.auto import load, load_predictor
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.inference import compute_in_order
from bertsmith.tasks.logits import softmax64
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
    changed = load_predictor(tmp_path, long_texts="window", stride=0)
    assert changed("good " * 99).num_windows == 3
