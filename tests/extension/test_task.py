"""A task in one file outside the package and one registration is trained, scored and loaded.

How many words a text has, read off the bare encoder: its vector's first number.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch.nn.functional as F
from refusals import refuses
from tiny_models import save_tiny, tiny_model, tiny_tokenizer

from bertsmith.data.columns import Columns
from bertsmith.data.examples import Example
from bertsmith.errors import CheckpointError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.tasks import catalog
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.row_means import mean_over_rows
from bertsmith.tasks.scoring import Outcome
from bertsmith.tasks.settings.finetune import WindowSettings
from bertsmith.tasks.texts import TextTask
from bertsmith.training.objective import LossTerm


@dataclass(frozen=True)
class CountSettings(WindowSettings):
    """Teach a BERT to count words."""

    metric: str = "closeness"
    columns: Columns = field(default_factory=Columns)


@dataclass(frozen=True)
class Count:
    answer: float
    is_truncated: bool = False
    num_windows: int = 1

    def to_json(self):
        return {"count": self.answer}

    def line(self, example):
        return f"{self.answer:.1f}\t{example.text}"


class Distance:
    def __init__(self):
        self.errors = []

    def add(self, examples, predictions):
        pairs = zip(examples, predictions, strict=True)
        self.errors += [abs(float(e.label) - p.answer) for e, p in pairs]

    def compute_metrics(self):
        distance = float(np.mean(self.errors))
        return {"loss": distance, "closeness": -distance}

    def result(self, num_skipped=0):
        return self

    def __str__(self):  # printed by `finetune` and `evaluate`
        return (
            f"distance  {self.compute_metrics()['loss']:.2f}  (mean distance to the right number)"
        )

    def to_json(self):
        return self.compute_metrics()


@dataclass(frozen=True)
class CountWords(TextTask):
    name: ClassVar[str] = "count"
    target_phrase: ClassVar[str] = "with numbers"
    are_classes_named: ClassVar[bool] = False
    settings: ClassVar = CountSettings
    heads: ClassVar[tuple] = ()

    @classmethod
    def of_examples(cls, train, settings):
        return cls(windowing=settings.windowing, pairs=False)

    def targets(self, examples):
        return np.array([float(example.label) for example in examples], np.float32)

    def outputs(self, model, batch):  # a row for each window, the longest first
        return model.encode(batch, queries="first")[:, :1].float()

    def compute_loss(self, outputs, batch):
        counts = mean_over_rows(outputs, batch)  # a row for each text, in the order of the labels
        return LossTerm(*self.compare(counts, batch.targets["labels"]), len(counts))

    def compare(self, counts, targets):
        right = ((counts[:, 0] - targets).abs() < 0.5).sum()
        return F.mse_loss(counts[:, 0], targets, reduction="sum"), right

    def compare_with_teacher(self, logits, teacher_logits, temperature):
        return self.compare(logits, teacher_logits[:, 0])

    def prediction(self, outputs, is_truncated, num_windows):
        return Count(float(outputs[0]), is_truncated, num_windows)

    def accumulator(self, path):
        return Distance()

    def outcome(self, example, prediction):
        score = 1 - abs(prediction.answer - float(example.label))
        return Outcome(example.text, example.label, str(prediction.answer), score, is_numeric=True)


TASK = CountWords


def train_counter(model: Path, train: Path, held_out: Path, out: Path, **options):
    settings = CountSettings(model=model, train=train, eval=held_out, out=out, **options)
    return finetune(CountWords, settings)


QUICK = {"device": "cpu", "precision": "fp32", "dropout": 0.0}


def write_counts(path: Path, count: int) -> Path:
    texts = [" ".join(["film"] * (1 + row % 3)) for row in range(count)]
    lines = [f"{text},{len(text.split())}\n" for text in texts]
    path.write_text("".join(["text,label\n", *lines]))
    return path


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.TASKS, "count", __name__)


@pytest.mark.usefixtures("registered")
def test_a_task_outside_the_package_is_one_file_and_one_line(
    tmp_path: Path, bertsmith: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert catalog.task_named("count") is CountWords
    held_out, out = write_counts(tmp_path / "b.csv", 9), tmp_path / "out"
    result = train_counter(
        save_tiny(tmp_path / "start"), write_counts(tmp_path / "a.csv", 30), held_out, out,
        steps=40, learning_rate=5e-3, **QUICK,
    )  # fmt: skip
    assert result.evaluation.compute_metrics()["loss"] < 0.4
    predictor = load_predictor(out, device="cpu", precision="fp32")
    assert type(predictor.definition) is CountWords
    # The same weights give the same scores but for rounding: for predictions they may be packed.
    again = evaluate(predictor, held_out).to_json()
    assert again == pytest.approx(result.evaluation.to_json(), abs=1e-5)
    assert load(out, device="cpu")("film film").answer == pytest.approx(2, abs=0.9)
    scored = bertsmith(
        "evaluate", out, "--data", held_out, "--device", "cpu", "--precision", "fp32"
    )
    assert scored.startswith("distance  0.")
    assert bertsmith("predict", out, "film", "--device", "cpu").endswith("\tfilm\n")
    monkeypatch.delitem(catalog.TASKS, "count")
    with refuses(CheckpointError, "'count'", "--import MODULE"):
        load_predictor(out, device="cpu", precision="fp32")


LONG_TEXTS = [("film " * 2, 2), ("film " * 83, 83), ("film", 1), ("film " * 5, 5), ("film " * 3, 3)]


def test_the_loss_compares_each_text_with_its_own_label() -> None:
    """A batch has its rows by length, and a text longer than the model has several rows."""
    task, model = CountWords(pairs=False), tiny_model().eval()
    examples = [Example(text, None, str(count)) for text, count in LONG_TEXTS]
    encoded = task.encode(tiny_tokenizer(), examples, 37, labelled=True)
    predictions = task.predict(model, encoded, examples)
    assert [prediction.num_windows for prediction in predictions] == [1, 3, 1, 1, 1]
    batch = collate(encoded, range(len(examples)))
    term = task.compute_loss(task.outputs(model, batch), batch)
    errors = [each.answer - count for each, (_, count) in zip(predictions, LONG_TEXTS, strict=True)]
    assert term.sum.item() == pytest.approx(sum(error**2 for error in errors), rel=1e-5)
    assert term.count == len(examples)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("long_texts", ["window", "cut"])
def test_long_texts_are_read_as_the_option_says(tmp_path: Path, long_texts: str) -> None:
    table = tmp_path / "long.csv"
    table.write_text("text,label\n" + "".join(f"{text},{count}\n" for text, count in LONG_TEXTS))
    out = tmp_path / "out"
    model = save_tiny(tmp_path / "start")
    train_counter(model, table, table, out, steps=2, long_texts=long_texts, **QUICK)
    prediction = load(out, device="cpu", precision="fp32")("film " * 83)
    is_cut = long_texts == "cut"
    assert (prediction.is_truncated, prediction.num_windows) == (is_cut, 1 if is_cut else 3)
