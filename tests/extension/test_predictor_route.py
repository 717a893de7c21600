"""A route over any predictor, and a new kind of predictor, each in one file of its own."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from samples import RECORDS
from tiny_models import save_tiny

import bertsmith
from bertsmith.errors import InputError
from bertsmith.tasks.predictor import Predictor

ROUTE = '''
"""Records in, JSON out: in batches of at most 64 tokens, whatever the model predicts."""
import json


def answer(predictor, body):
    records = json.loads(body)
    examples = [predictor.example(record) for record in records]
    batches, room = [[]], 64
    for example in examples:
        room -= predictor.num_tokens(example)
        if room < 0 and batches[-1]:
            batches.append([])
            room = 64 - predictor.num_tokens(example)
        batches[-1].append(example)
    found = [prediction for batch in batches for prediction in predictor.predict(batch)]
    rows = [{**record, **each.to_json()} for record, each in zip(records, found, strict=True)]
    return json.dumps({"task": predictor.task, "predictions": rows})
'''

PREDICTOR = '''
"""Of two texts, the one whose vector begins with the larger number."""
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.data.examples import Example
from bertsmith.tasks.inference import compute_in_order
from bertsmith.tasks.prediction import InferenceTask, text_example
from bertsmith.tasks.text_vectors import first_token_vectors


@dataclass(frozen=True)
class Larger:
    answer: str
    is_truncated: bool = False
    num_windows: ClassVar[int] = 1

    def to_json(self):
        return {"larger": self.answer}

    def line(self, example):
        return self.answer


@dataclass(frozen=True)
class FindLarger(InferenceTask):
    pipeline: ClassVar[str] = "text-comparison"
    heads: ClassVar[tuple] = ()
    example_type: ClassVar = Example
    fields: ClassVar[tuple] = ("text", "pair")

    @classmethod
    def restore(cls, loaded):
        return cls()

    def example(self, record):
        return text_example(record)

    def encode(self, tokenizer, examples, max_length, *, labelled):
        texts = [(text, None) for example in examples for text in (example.text, example.pair)]
        rows = encode_texts(tokenizer, texts, max_length)
        return EncodedExamples(rows, np.arange(0, len(texts) + 1, 2, dtype=np.int64))

    def predict(self, model, encoded, examples):
        vectors = compute_in_order(model, encoded.rows, first_token_vectors)
        return [
            Larger((example.text, example.pair)[int(row.argmax())])
            for example, row in zip(examples, vectors[:, 0].reshape(-1, 2), strict=True)
        ]
'''


def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> Any:
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(name)


@pytest.mark.parametrize("head", sorted(RECORDS.keys() - {"embed"}))
def test_one_route_serves_every_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    route = write_module(tmp_path, monkeypatch, "toy_route", ROUTE)
    labels, _, record = RECORDS[head]
    folder = save_tiny(tmp_path / "m", *[head] * bool(head), labels=labels)
    predictor = bertsmith.load(folder, device="cpu", precision="fp32")
    answered = json.loads(route.answer(predictor, json.dumps([record] * 9)))
    assert answered["task"] == predictor.task
    assert len(answered["predictions"]) == 9
    assert answered["predictions"][0].items() > record.items()
    with pytest.raises(InputError, match="'"):
        route.answer(predictor, json.dumps([{"number": 5}]))


def test_a_predictor_of_a_new_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = write_module(tmp_path, monkeypatch, "toy_predictor", PREDICTOR)
    route = write_module(tmp_path, monkeypatch, "toy_route", ROUTE)
    folder = save_tiny(tmp_path / "m")
    predictor = Predictor.load(folder, toy.FindLarger, device="cpu", precision="fp32")
    assert predictor("good", "a bad film") == predictor("a bad film", "good")
    body = json.dumps([{"text": "good", "pair": "a bad film"}])
    (row,) = json.loads(route.answer(predictor, body))["predictions"]
    assert row["larger"] == predictor([("good", "a bad film")])[0].answer
