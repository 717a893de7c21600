"""Zero-shot classification: pairs of texts and labels are counted before they are built."""

import asyncio

import msgspec
import pytest
from memory_peak import peak
from refusals import check_message
from starlette.requests import Request

from bertsmith.serving.call import Call
from bertsmith.serving.characters import count_characters
from bertsmith.serving.contracts.hugging_face.zero_shot import (
    ZeroShotBody,
    classify_zero_shot,
    count_pair_characters,
)
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import Problem
from bertsmith.serving.service import Service

pytestmark = pytest.mark.same_on_all_computers
NLI = ModelInfo(
    name="nli",
    path="nli",
    folder="nli",
    task="text-classification",
    kinds=("predict",),
    is_multi_label=False,
    is_regression=False,
    reads_pairs=True,
    labels=("entailment", "contradiction"),
    max_length=37,
    hidden_size=24,
    model_type="bert",
    precision="fp32",
    device_name="cpu",
    num_threads=1,
)


@pytest.mark.parametrize("inputs, parameters, size", [
    (["a"] * 401, {"candidate_labels": ["b"] * 401}, "160,801 texts"),
    ("a", {"candidate_labels": ["b" * 3001], "hypothesis_template": "{}" * 3001}, "9,006,002 char"),
])  # fmt: skip
def test_too_many_pairs_are_refused_before_they_are_built(inputs, parameters, size):
    call = Call(Service(EngineSettings(models={})), Request({"type": "http"}))
    body = msgspec.convert({"inputs": inputs, "parameters": parameters}, ZeroShotBody)

    def classify():
        with pytest.raises(Problem) as caught:
            asyncio.run(classify_zero_shot(call, NLI, body))
        assert caught.value.status == 413
        check_message(caught.value.message, size)

    assert peak(classify) < 4_000_000


@pytest.mark.parametrize("template", ["This example is {}.", "{}", "{}, so {}{}", "{{}} {"])
def test_counted_are_the_characters_of_the_pairs(template):
    texts, labels = ["abc", "d"], ["good", "bad", "{}"]
    pairs = [
        {"text": text, "pair": template.replace("{}", label)} for text in texts for label in labels
    ]
    assert count_pair_characters(texts, labels, template) == count_characters(pairs)
