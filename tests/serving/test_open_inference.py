"""Open Inference (v2) and KServe's first protocol, in JSON and in binary form."""

import json

import numpy as np
import pytest
from model_server import assert_close, near

TEXTS = ["a good film", "the story was very dull"]


def tensor(name, values, shape=None):
    return {"name": name, "shape": shape or [len(values)], "datatype": "BYTES", "data": values}


def infer(server, model, *inputs, **more):
    answer = server.post(f"/v2/models/{model}/infer", {"inputs": list(inputs), **more})
    assert answer.status == 200, answer.body
    return answer.json


def outputs(answer):
    """Outputs by their names, as arrays of their shapes."""
    return {one["name"]: np.array(one["data"]).reshape(one["shape"]) for one in answer["outputs"]}


def test_vectors_are_those_of_encode(server, local):
    answer = infer(
        server, "vectors", tensor("text", TEXTS), id="7", parameters={"normalize": False}
    )
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("vectors", "1", "7")
    (vectors,) = answer["outputs"]
    assert (vectors["datatype"], vectors["shape"]) == ("FP32", [2, 24])
    found = np.array(vectors["data"], dtype=np.float32).reshape(2, 24)
    assert_close(found, local("vectors").encode(TEXTS))
    column = infer(
        server, "vectors", tensor("text", TEXTS, [2, 1]), parameters={"normalize": False}
    )
    assert column["outputs"] == answer["outputs"] and "id" not in column
    unit = outputs(infer(server, "vectors", tensor("text", TEXTS), parameters={"dimensions": 5}))
    assert np.linalg.norm(unit["vectors"], axis=1) == pytest.approx([1, 1])


def test_classes_have_a_label_and_probabilities(server, local):
    pairs = [tensor("text", TEXTS), tensor("pair", ["a bad one", "lovely"])]
    expected = local("classify")([(TEXTS[0], "a bad one"), (TEXTS[1], "lovely")])
    found = outputs(infer(server, "classify", *pairs))
    assert found["label"].tolist() == [one.label for one in expected]
    for row, one in zip(found["probabilities"], expected, strict=True):
        assert row == pytest.approx(list(one.probabilities.values()), abs=1e-5)
    answer = infer(server, "classify", tensor("text", TEXTS), outputs=[{"name": "label"}])
    assert list(outputs(answer)) == ["label"]


def test_several_labels_are_json_and_a_number_is_a_score(server, local):
    found = outputs(infer(server, "multi_label", tensor("text", TEXTS)))
    assert [tuple(json.loads(row)) for row in found["labels"]] == [
        one.labels for one in local("multi_label")(TEXTS)
    ]
    assert outputs(infer(server, "regress", tensor("text", TEXTS)))["score"] == pytest.approx(
        [one.value for one in local("regress")(TEXTS)], abs=1e-5
    )


@pytest.mark.parametrize("model, inputs, content", [
    ("tag", [tensor("text", TEXTS)], TEXTS),
    ("masked_lm", [tensor("text", ["a [MASK] film"])], ["a [MASK] film"]),
    ("answer", [tensor("question", ["the film ?"] * 2), tensor("context", TEXTS)],
     [{"question": "the film ?", "context": text} for text in TEXTS]),
    ("choose", [tensor("text", TEXTS), tensor("choices", [["good", "bad"], ["a", "the"]], [2, 2])],
     [{"text": TEXTS[0], "choices": ["good", "bad"]}, {"text": TEXTS[1], "choices": ["a", "the"]}]),
])  # fmt: skip
def test_other_heads_give_the_json_of_the_route_of_their_task(server, model, inputs, content):
    expected = server.post(f"/models/{model}", {"inputs": content}).json
    found = outputs(infer(server, model, *inputs))["result"]
    assert [json.loads(row) for row in found] == near(expected)
    predictions = server.post(f"/v1/models/{model}:predict", {"instances": content}).json
    assert predictions == {"predictions": near(expected)}
    by_version = server.post(f"/v2/models/{model}/versions/1/infer", {"inputs": inputs})
    assert [json.loads(row) for row in outputs(by_version.json)["result"]] == near(expected)


def test_parameters_reach_the_task(server):
    answer = infer(
        server, "masked_lm", tensor("text", ["a [MASK] film"]),
        parameters={"top_k": 2, "priority": 1},
    )  # fmt: skip
    assert len(json.loads(outputs(answer)["result"][0])) == 2
    predictions = server.post(
        "/v1/models/masked_lm:predict",
        {"instances": ["a [MASK] film"], "parameters": {"top_k": 2}},
    )
    assert len(predictions.json["predictions"][0]) == 2
    vectors = server.post(
        "/v1/models/vectors:predict", {"instances": TEXTS, "parameters": {"dimensions": 3}}
    )
    assert np.shape(vectors.json["predictions"]) == (2, 3)


def test_the_body_may_repeat_the_name_of_the_model(server):
    inputs = [tensor("text", TEXTS)]
    assert infer(server, "vectors", *inputs, model_name="vectors") == infer(
        server, "vectors", *inputs
    )
    answer = server.post("/v2/models/vectors/infer", {"inputs": inputs, "model_name": "tag"})
    assert answer.status == 422
    assert "model_name: found 'tag'" in answer.json["error"]
    assert "'vectors'" in answer.json["error"]


def test_labels_without_training_are_scored(server):
    parameters = {"candidate_labels": ["good", "bad"]}
    expected = server.post("/models/nli", {"inputs": TEXTS, "parameters": parameters}).json
    content = {"instances": TEXTS, "parameters": parameters}
    found = server.post("/v1/models/nli:predict", content).json
    assert found == {"predictions": near(expected)}


def binary(*texts):
    encoded = [text.encode() for text in texts]
    return b"".join(len(text).to_bytes(4, "little") + text for text in encoded)


def send_binary(server, content, data, length=None):
    head = json.dumps(content).encode()
    return server.send(
        "POST", "/v2/models/classify/infer", head + data,
        {"Inference-Header-Content-Length": str(len(head)) if length is None else length},
    )  # fmt: skip


def test_tensors_may_be_binary(server):
    texts = ["a good film", "übel 😀"]
    data = binary(*texts)
    described = {
        "name": "text", "shape": [2], "datatype": "BYTES",
        "parameters": {"binary_data_size": len(data)},
    }  # fmt: skip
    expected = infer(server, "classify", tensor("text", texts))["outputs"]
    answer = send_binary(server, {"inputs": [described]}, data)
    assert answer.json["outputs"] == expected  # JSON unless binary tensors are asked for
    answer = send_binary(
        server, {"inputs": [described], "parameters": {"binary_data_output": True}}, data
    )
    length = int(answer.headers["inference-header-content-length"])
    label, probabilities = json.loads(answer.body[:length])["outputs"]
    size = label["parameters"]["binary_data_size"]
    tensors = answer.body[length:]
    assert tensors[:size] == binary(*expected[0]["data"])
    found = np.frombuffer(tensors[size:], "<f8").tolist()
    assert found == expected[1]["data"]
    assert probabilities["parameters"]["binary_data_size"] == 2 * 2 * 8
    answer = send_binary(
        server,
        {"inputs": [described],
         "outputs": [{"name": "label", "parameters": {"binary_data": True}},
                     {"name": "probabilities"}]},
        data,
    )  # fmt: skip
    head = json.loads(answer.body[: int(answer.headers["inference-header-content-length"])])
    assert ["data" in one for one in head["outputs"]] == [False, True]


def test_damaged_binary_tensors_are_refused(server):
    data = binary("a good film", "lovely")
    full = len(data)

    def error(size=full, shape=(2,), sent=data, length=None):
        described = {
            "name": "text", "shape": list(shape), "datatype": "BYTES",
            "parameters": {"binary_data_size": size},
        }  # fmt: skip
        answer = send_binary(server, {"inputs": [described]}, sent, length)
        assert answer.status == 422
        return answer.error

    assert "are left behind the JSON" in error(size=1000)
    assert "are left behind the JSON" in error(size=-1)
    assert "end within a string" in error(size=len(data) - 1)
    assert "found 2 strings, and the shape is [3]" in error(shape=(3,))
    assert "is not UTF-8" in error(sent=data[:-1] + b"\xff")
    assert "4 bytes are left behind those of the tensors" in error(sent=data + b"rest")
    assert "is the number of bytes of the JSON" in error(length="100000")
    assert "is the number of bytes of the JSON" in error(length="-1")
    assert "is the number of bytes of the JSON" in error(length="9" * 5000)


def test_the_server_describes_itself_and_its_models(server):
    assert server.get("/v2").json["extensions"] == ["binary_tensor_data"]
    assert server.get("/v2/health/live").json == {"live": True}
    assert server.get("/v2/health/ready").json == {"live": True, "ready": True}
    for path in ("/v2/models/tag/ready", "/v2/models/tag/versions/1/ready"):
        assert server.get(path).json == {"name": "tag", "ready": True}
    described = server.get("/v2/models/classify").json
    assert described["versions"] == ["1"]
    assert [one["name"] for one in described["inputs"]] == ["text", "pair"]
    assert json.loads(described["outputs"][1]["parameters"]["labels"]) == ["neg", "pos"]
    assert server.get("/v1/models/tag").json["ready"] is True


def test_the_description_says_what_is_answered(server):
    for name in server.folders:
        described = server.get(f"/v2/models/{name}").json
        inputs = [
            tensor(one["name"], ["a [MASK] film"] * 2 ** len(one["shape"]), [2] * len(one["shape"]))
            for one in described["inputs"]
        ]
        found = infer(server, name, *inputs)["outputs"]
        assert [one["name"] for one in found] == [one["name"] for one in described["outputs"]]
        for tensor_, one in zip(found, described["outputs"], strict=True):
            assert tensor_["datatype"] == one["datatype"]
            pairs = zip(tensor_["shape"], one["shape"], strict=True)
            assert all(size == expected or expected == -1 for size, expected in pairs)


def test_a_column_of_texts_is_as_good_as_a_row(server):
    row = infer(server, "tag", tensor("text", TEXTS))["outputs"]
    for shape in ([2, 1], [1, 2]):
        assert infer(server, "tag", tensor("text", TEXTS, shape))["outputs"] == row


@pytest.mark.parametrize("model, inputs, status, part", [
    ("nothing", [tensor("text", TEXTS)], 404, "there is no model 'nothing'"),
    ("tag/versions/2", [tensor("text", TEXTS)], 404, "there is no version '2'"),
    ("tag", [], 422, "found no tensor 'text'"),
    ("tag", [tensor("texts", TEXTS)], 422, "found no tensor 'text'"),
    ("tag", [tensor("text", TEXTS), tensor("pair", TEXTS)], 422, "found a tensor 'pair'"),
    ("tag", [tensor("text", TEXTS)] * 2, 422, "two of this name"),
    ("tag", [tensor("text", [])], 400, "found no text"),
    ("tag", [tensor("text", ["a", ""])], 400, "text[1]: the text is empty"),
    ("tag", [tensor("text", ["a", 7])], 422, "found a number among the data"),
    ("tag", [tensor("text", TEXTS, [3])], 422, "found 2 strings, and the shape is [3]"),
    ("tag", [tensor("text", TEXTS, [-1, -2])], 422, "the shape is [-1, -2]"),
    ("tag", [tensor("text", TEXTS, [2] + [1] * 8)], 422, "the shape is [2, 1, 1, 1, 1, 1"),
    ("tag", [tensor("text", TEXTS, [10**300] * 5_000)], 422, "the shape is [1000"),
    ("tag", [tensor("text", TEXTS, [2] * 600_000)], 422, "the shape is [2, 2"),
    ("tag", [tensor("text", ["a"] * 4, [2, 2])], 422, "found the shape [2, 2]"),
    ("choose", [tensor("text", ["a"]), tensor("choices", TEXTS, [1, 2, 1])], 422,
     "found the shape [1, 2, 1]"),
    ("tag", [tensor("text", TEXTS) | {"datatype": "INT64"}], 422, "found datatype INT64"),
    ("tag", [{"name": "text", "shape": [1], "datatype": "BYTES"}], 422, "found no data"),
    ("classify", [tensor("text", TEXTS), tensor("pair", ["a"])], 422, "2 in 'text', 1 in 'pair'"),
    ("single", [tensor("text", TEXTS), tensor("pair", TEXTS)], 422, "found a tensor 'pair'"),
])  # fmt: skip
def test_what_is_no_tensor_of_the_model_is_refused(server, model, inputs, status, part):
    answer = server.post(f"/v2/models/{model}/infer", {"inputs": inputs})
    assert (answer.status, list(answer.json)) == (status, ["error"])
    assert part in answer.error


def test_other_mistakes_are_refused(server):
    for content, part in (
        ({"outputs": [{"name": "vectors"}]}, "'classify' gives label and probabilities"),
        (
            {"outputs": [{"name": "label", "parameters": {"classification": 3}}]},
            "outputs[0].parameters.classification: there is no such field",
        ),
        (
            {"inputs": [tensor("text", TEXTS) | {"parameters": {"shared_memory_region": "a"}}]},
            "inputs[0].parameters.shared_memory_region: there is no such field",
        ),
        (
            {"inputs": [tensor("text", TEXTS) | {"parameters": {"binary_data_size": 0}}]},
            "found data beside binary_data_size",
        ),
        ({"parameters": {"top": 2}}, "parameters.top: there is no such field"),
        ({"texts": []}, "texts: there is no such field"),
    ):
        answer = server.post(
            "/v2/models/classify/infer", {"inputs": [tensor("text", TEXTS)], **content}
        )
        assert (answer.status, part in answer.error) == (422, True), answer.error
    assert server.post("/v2/models/classify/infer", b"{").status == 400
    for model, instances, parameters, part in (
        ("vectors", TEXTS, {"inputs": ["b"]}, "parameters.inputs: there is no such field"),
        ("vectors", ["a", 5], {}, "instances: found token ids"),
        ("masked_lm", ["[MASK]", "a"], {}, "instances[1]: "),
        ("tag", [{"text": "a"}], {}, "instances[0]: found an object"),
    ):
        content = {"instances": instances, "parameters": parameters}
        answer = server.post(f"/v1/models/{model}:predict", content)
        assert (answer.status, part in answer.error) == (422, True), answer.error
    answer = server.post("/v2/models/masked_lm/infer", {"inputs": [tensor("text", ["a"])]})
    assert (answer.status, "text[0]: " in answer.error) == (422, True), answer.error
    for content, status in (({"instances": []}, 400), ({"instances": [""]}, 400), ({}, 422)):
        assert server.post("/v1/models/classify:predict", content).status == status
