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
from tiny_models import save_tiny

from bertsmith.data.columns import Columns
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.tasks import catalog
from bertsmith.tasks.auto import load
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.scoring import Outcome
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.texts import TextTask
from bertsmith.training.objective import LossTerm


@dataclass(frozen=True)
class CountSettings(FinetuneSettings):
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

    def to_json(self):
        return self.compute_metrics()


@dataclass(frozen=True)
class CountWords(TextTask):
    name: ClassVar[str] = "count"
    settings: ClassVar = CountSettings
    heads: ClassVar[tuple] = ()

    @classmethod
    def of_examples(cls, train, settings):
        return cls(pairs=False)

    @classmethod
    def restore(cls, loaded):
        return cls(pairs=False)

    def targets(self, examples):
        return np.array([float(example.label) for example in examples], np.float32)

    def outputs(self, model, batch):
        return model.encode(batch, queries="first")[:, :1].float()

    def compute_loss(self, outputs, batch):
        return LossTerm(*self.compare(outputs, batch.targets["labels"]), len(outputs))

    def compare(self, logits, targets):
        right = ((logits[:, 0] - targets).abs() < 0.5).sum()
        return F.mse_loss(logits[:, 0], targets, reduction="sum"), right

    def compare_with_teacher(self, logits, teacher_logits, temperature):
        return self.compare(logits, teacher_logits[:, 0])

    def prediction(self, outputs, is_truncated, num_windows):
        return Count(float(outputs[0]), is_truncated, num_windows)

    def accumulator(self, path):
        return Distance()

    def outcome(self, example, prediction):
        return Outcome(example.text, example.label, str(prediction.answer), 0.0, is_numeric=True)


TASK = CountWords


def write_counts(path: Path, count: int) -> Path:
    texts = [" ".join(["film"] * (1 + row % 3)) for row in range(count)]
    lines = [f"{text},{len(text.split())}\n" for text in texts]
    path.write_text("".join(["text,label\n", *lines]))
    return path


def test_a_task_outside_the_package_is_one_file_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bertsmith: Callable[..., str]
) -> None:
    monkeypatch.setitem(catalog.TASKS, "count", __name__)
    task = catalog.task_named("count")
    assert task is CountWords
    settings = task.settings(
        model=save_tiny(tmp_path / "start"), out=tmp_path / "out", steps=40, learning_rate=5e-3,
        train=write_counts(tmp_path / "a.csv", 30), eval=write_counts(tmp_path / "b.csv", 9),
        dropout=0.0, device="cpu", precision="fp32",
    )  # fmt: skip
    result = finetune(task, settings)
    assert result.evaluation.compute_metrics()["loss"] < 0.4
    predictor = load_predictor(settings.out, device="cpu", precision="fp32")
    assert type(predictor.definition) is task
    # The same weights give the same scores but for rounding: for predictions they may be packed.
    again = evaluate(predictor, settings.eval).to_json()
    assert again == pytest.approx(result.evaluation.to_json(), abs=1e-5)
    assert load(settings.out, device="cpu")("film film").answer == pytest.approx(2, abs=0.9)
    assert bertsmith("predict", settings.out, "film", "--device", "cpu").endswith("\tfilm\n")
