"""A route over any predictor, and a new kind of predictor, from outside the package."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from refusals import refuses
from samples import RECORDS
from tiny_models import save_tiny

import bertsmith
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.data.examples import Example
from bertsmith.errors import InputError
from bertsmith.tasks.inference import compute_in_order
from bertsmith.tasks.prediction import InferenceTask, text_example
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.text_vectors import first_token_vectors


def route(predictor: Predictor[Any], body: str) -> Any:
    """Records in, JSON out: the first and the rest, whatever the model predicts."""
    records = json.loads(body)
    examples = [predictor.example(record) for record in records]
    assert all(predictor.num_tokens(example) > 2 for example in examples)
    found = [*predictor.predict(examples[:1]), *predictor.predict(examples[1:])]
    rows = [{**record, **each.to_json()} for record, each in zip(records, found, strict=True)]
    return json.loads(json.dumps({"task": predictor.task, "predictions": rows}))


@pytest.mark.parametrize("head", ["answer", "choose", "classify", "masked_lm", "tag"])
def test_one_route_serves_every_head(tmp_path: Path, head: str) -> None:
    labels, task, record = RECORDS[head]
    folder = save_tiny(tmp_path / "m", head, labels=labels)
    predictor = bertsmith.load(folder, device="cpu", precision="fp32")
    answered = route(predictor, json.dumps([record] * 3))
    assert (answered["task"], len(answered["predictions"])) == (task, 3)
    assert answered["predictions"][0].items() > record.items()
    with refuses(InputError, "'question'" if head == "answer" else "'text'", "'number'"):
        route(predictor, json.dumps([{"number": 5}]))


@dataclass(frozen=True)
class Larger:
    answer: str
    is_truncated: bool = False
    num_windows: ClassVar[int] = 1

    def to_json(self) -> dict[str, str]:
        return {"larger": self.answer}

    def line(self, example: Example) -> str:
        return self.answer


@dataclass(frozen=True)
class FindLarger(InferenceTask):
    """Of two texts, the one whose vector begins with the larger number."""

    pipeline: ClassVar[str] = "text-comparison"
    heads: ClassVar[tuple[str, ...]] = ()
    example_type: ClassVar = Example
    fields: ClassVar[tuple[str, ...]] = ("text", "pair")

    @classmethod
    def restore(cls, loaded):
        return cls()

    def example(self, record):
        return text_example(record)

    def encode(self, tokenizer, examples, max_length, *, labelled):
        texts = [(text, None) for example in examples for text in (example.text, example.pair)]
        rows = encode_texts(tokenizer, texts, max_length)
        return EncodedExamples(rows, np.arange(0, len(texts) + 1, 2, dtype=np.int64))

    def compute_outputs(self, model, encoded):
        return compute_in_order(model, encoded.rows, first_token_vectors)

    def decode(self, outputs, encoded, examples):
        return [
            Larger((example.text, example.pair)[int(row.argmax())])
            for example, row in zip(examples, outputs[:, 0].reshape(-1, 2), strict=True)
        ]


def test_a_predictor_of_a_new_kind(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "m")
    predictor = Predictor.load(folder, FindLarger, device="cpu", precision="fp32")
    assert predictor("good", "a bad film") == predictor("a bad film", "good")
    (row,) = route(predictor, json.dumps([{"text": "good", "pair": "a bad film"}]))["predictions"]
    assert row["larger"] == predictor([("good", "a bad film")])[0].answer
