"""Every route without a client's library: what it answers, and what it says to mistakes."""

import gzip
import json
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import numpy as np
import pytest
from model_server import assert_close, close, near
from refusals import check_message
from tiny_models import tiny_tokenizer

TEXT = "a good film"
TEXTS = [TEXT, "the story was very dull"]
LONG = "the film was very dull . " * 12


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture
def post(server):
    """Send JSON to a model's route; gives the JSON of the answer."""

    def post(path, content):
        answer = server.post(f"/models/{path}", content)
        assert answer.status == 200, answer.body
        return answer.json

    return post


@pytest.fixture
def refused(server):
    """Send JSON, which must be refused; gives the status and the sentence."""

    def refused(path, content):
        answer = server.post(path if path.startswith("/") else f"/models/{path}", content)
        assert answer.status >= 400
        message = answer.error
        assert message.endswith((".", "…")), message
        assert "`" not in message and "$" not in message and "msgspec" not in message
        return answer.status, message

    return refused


def test_vectors(post, local):
    expected = local("embed").encode(TEXTS)
    assert_close(post("embed/embed", {"inputs": TEXTS, "normalize": False}), expected)
    np.testing.assert_allclose(post("embed/embed", {"inputs": TEXTS}), unit(expected), atol=1e-5)
    assert np.shape(post("embed/embed", {"inputs": TEXT})) == (1, 24)
    short = post("embed/embed", {"inputs": TEXTS, "dimensions": 5, "normalize": False})
    assert_close(short, expected[:, :5])
    short = post("embed/embed", {"inputs": TEXTS, "dimensions": 5})
    np.testing.assert_allclose(short, unit(expected[:, :5]), atol=1e-5)


def test_a_long_text_keeps_its_beginning_or_its_end(post, local):
    words = LONG.split()
    for side, kept in (("right", words[:35]), ("Left", words[-35:])):
        content = {"inputs": LONG, "normalize": False, "truncation_direction": side}
        expected = local("embed").encode([" ".join(kept)])
        assert_close(post("embed/embed", content), expected)
        assert_close(post("embed/embed", {**content, "truncate": True}), expected)


def test_options_of_the_task_may_stand_in_parameters(post, local):
    content = {"inputs": TEXT, "parameters": {"normalize": False}, "options": None}
    assert_close(post("vectors", content), local("vectors").encode([TEXT]))
    assert post("tag", {"inputs": TEXT, "parameters": None}) == near(post("tag", {"inputs": TEXT}))


def test_null_is_not_given(server, post):
    plain = post("embed/embed", {"inputs": TEXT})
    options = {"truncation_direction": None, "normalize": None, "dimensions": None}
    assert_close(post("embed/embed", {"inputs": TEXT, **options}), plain)
    assert_close(post("embed", {"inputs": TEXT, "parameters": options}), plain)
    body = {"input": TEXT, "model": "embed", "encoding_format": None, "dimensions": None}
    assert server.post("/v1/embeddings", body).json["data"][0]["embedding"] == close(plain[0])
    labels = {"aggregation_strategy": None, "ignore_labels": None}
    assert post("tag", {"inputs": TEXT, "parameters": labels}) == near(
        post("tag", {"inputs": TEXT})
    )
    rows = post("classify/predict", {"inputs": TEXT, "raw_scores": None})
    assert rows == near(post("classify/predict", {"inputs": TEXT}))


def test_labels_without_training_for_several_texts(post):
    labels = {"candidate_labels": ["good", "bad"]}
    one = [post("nli", {"inputs": text, "parameters": labels}) for text in TEXTS]
    assert post("nli", {"inputs": TEXTS, "parameters": labels}) == near(one)


def test_a_prompt_stands_before_the_text(post, local):
    content = {"inputs": TEXT, "prompt_name": "query", "normalize": False}
    assert_close(post("embed/embed", content), local("embed").encode(["the film " + TEXT]))
    tokens = post("embed/tokenize", {"inputs": TEXT, "prompt_name": "query"})
    assert [token["text"] for token in tokens[0]][1:-1] == ["the", "film", "a", "good", "film"]


def test_token_vectors_average_to_the_vector(post, local):
    rows = post("vectors/embed_all", {"inputs": TEXTS})
    assert [len(row) for row in rows] == [5, 7]
    means = [np.mean(row, axis=0) for row in rows]
    np.testing.assert_allclose(means, local("vectors").encode(TEXTS), atol=1e-5)


def test_similarities(post, local):
    vectors = unit(local("embed").encode([TEXT, *TEXTS]))
    content = {"inputs": {"source_sentence": TEXT, "sentences": TEXTS}}
    expected = close((vectors[1:] @ vectors[0]).tolist())
    assert post("embed/similarity", content) == expected
    assert post("embed", content) == expected  # sentence similarity of InferenceClient
    assert expected == [1, post("embed/similarity", content)[1]]


def test_classes(post, local):
    def rows(prediction):
        pairs = sorted(prediction.probabilities.items(), key=lambda pair: -pair[1])
        return [{"label": label, "score": close(score)} for label, score in pairs]

    predict = local("classify")
    one = predict(TEXT)
    assert post("classify/predict", {"inputs": TEXT}) == rows(one)
    pair = predict([(TEXTS[0], TEXTS[1])])[0]
    assert post("classify/predict", {"inputs": TEXTS}) == rows(pair)  # two texts are a pair
    batch = [[TEXTS[0]], TEXTS, [TEXTS[1]]]
    expected = [rows(one), rows(pair), rows(predict(TEXTS[1]))]
    assert post("classify/predict", {"inputs": batch}) == expected
    (best, other) = post("classify/predict", {"inputs": TEXT, "raw_scores": True})
    assert best["label"] == one.label
    odds = np.log(one.probability / (1 - one.probability))
    assert best["score"] - other["score"] == close(odds)


def test_a_number(post, local):
    expected = [{"label": "LABEL_0", "score": close(local("regress")(TEXT).value)}]
    assert post("regress/predict", {"inputs": TEXT}) == expected


def test_texts_are_ranked_by_their_score_with_the_query(post, local):
    texts = ["dull", "lovely", "a good story", "bad", "awful"]
    scores = [one.value for one in local("regress")([(TEXT, text) for text in texts])]
    best_first = sorted(range(5), key=lambda index: -scores[index])
    found = post("regress/rerank", {"query": TEXT, "texts": texts, "return_text": True})
    assert found == [
        {"index": index, "text": texts[index], "score": close(scores[index])}
        for index in best_first
    ]
    found = post("regress/rerank", {"query": TEXT, "texts": texts, "raw_scores": True})
    assert [row["index"] for row in found] == best_first
    assert all(row.keys() == {"index", "score"} for row in found)


def test_tokens_have_the_places_of_their_characters(post):
    text = "The films, a good unknown"
    (tokens,) = post("classify/tokenize", {"inputs": text})
    assert [token["id"] for token in tokens] == tiny_tokenizer().encode(text).ids
    assert [token["special"] for token in (tokens[0], tokens[-1])] == [True, True]
    assert (tokens[0]["text"], tokens[0]["start"], tokens[0]["stop"]) == ("[CLS]", None, None)
    (inner,) = post("classify/tokenize", {"inputs": text, "add_special_tokens": False})
    assert inner == [token for token in tokens if not token["special"]]
    assert [text[token["start"] : token["stop"]] for token in inner] == [
        token["text"] for token in inner
    ]
    assert [token["text"] for token in inner][:3] == ["The", "film", "s"]


def test_ids_become_text_again(post):
    ids = tiny_tokenizer().encode("a good film").ids
    assert post("classify/decode", {"ids": ids}) == ["a good film"]
    content = {"ids": [ids, ids[1:-1]], "skip_special_tokens": False}
    assert post("classify/decode", content) == ["[CLS] a good film [SEP]", "a good film"]


def test_the_text_with_a_token_ends_where_the_model_stops_reading(post):
    (best,) = post("masked_lm", {"inputs": "a [MASK] " + LONG, "parameters": {"top_k": 1}})
    read = " ".join(LONG.split()[:33])  # beside "a", the mask and two special tokens
    assert best["sequence"].endswith(read.replace(" .", "."))
    assert len(best["sequence"]) < len(read) + 20


def test_choices_are_ranked(post, local):
    record = {"text": "the film was", "choices": ["good", "bad", "very dull"]}
    expected = local("choose")(record)
    found = post("choose", {"inputs": record})
    assert found[0]["choice"] == expected.text
    assert {row["index"]: row["score"] for row in found} == close(
        dict(enumerate(expected.probabilities))
    )
    assert post("choose", {"inputs": [record, record]}) == near([found, found])


def test_many_texts_are_answered_in_their_order(post):
    masks = post("masked_lm", {"inputs": ["a [MASK] film", "the [mask] was [mask]"]})
    assert masks[0] == near(post("masked_lm", {"inputs": "a [mask] film"}))
    assert [len(mask) for mask in masks[1]] == [5, 5]
    tags = post("tag", {"inputs": TEXTS})
    assert tags == near([post("tag", {"inputs": text}) for text in TEXTS])
    asked = {"question": "the film ?", "context": TEXTS[1]}
    one = post("answer", {"inputs": asked})
    assert post("answer", {"inputs": [asked, asked]}) == near([one, one])
    several = post("answer", {"inputs": [asked], "parameters": {"top_k": 2}})
    assert several[0][0] == near(one)
    pairs = post("classify", {"inputs": [TEXT, {"text": TEXT, "text_pair": TEXTS[1]}]})
    one = post("classify", {"inputs": {"text": TEXT, "text_pair": TEXTS[1]}})
    assert pairs[1:] == near(one)


def test_requests_at_the_same_time_get_their_own_answers(post):
    requests = [
        ("classify/predict", {"inputs": TEXT}),
        ("nli", {"inputs": TEXTS[1], "parameters": {"candidate_labels": ["good", "bad"]}}),
        ("masked_lm", {"inputs": "the [MASK] was very [MASK]"}),
        ("tag", {"inputs": [LONG, TEXT]}),
        ("choose", {"inputs": {"text": TEXT, "choices": ["good", "bad"]}}),
        ("answer", {"inputs": {"question": "the film ?", "context": TEXTS[1]}}),
    ]
    alone = [near(post(*request)) for request in requests]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda request: post(*request), requests * 10))
    assert answers == alone * 10


def test_vectors_of_a_thousand_texts_come_in_their_order(post, local):
    texts = [" ".join(TEXTS[row % 2].split()[row % 3 :] * (row % 5 + 1)) for row in range(1000)]
    found = post("vectors/embed", {"inputs": texts, "normalize": False})
    assert_close(found, local("vectors").encode(texts))


def test_the_first_model_answers_the_short_paths(server):
    for path in ("/", "/predict", "/tokenize", "/invocations", "/predictions"):
        of_name = "/models/classify" if path in ("/", "/invocations", "/predictions") else None
        expected = server.post(of_name or f"/models/classify{path}", {"inputs": TEXT}).json
        assert server.post(path, {"inputs": TEXT}).json == expected


def test_the_server_tells_about_itself(server):
    assert [model["id"] for model in server.get("/v1/models").json["data"]] == list(server.folders)
    info = server.get("/models/nli/info").json
    assert info["model_type"]["classifier"]["id2label"] == {
        "0": "contradiction", "1": "entailment", "2": "neutral",
    }  # fmt: skip
    assert (info["max_input_length"], info["max_client_batch_size"]) == (37, 1024)
    assert "reranker" in server.get("/models/regress/info").json["model_type"]
    assert "classifier" in server.get("/models/number/info").json["model_type"]
    for name, is_regression in {"regress": True, "number": True, "nli": False}.items():
        assert server.get(f"/models/{name}/info").json["is_regression"] is is_regression
    for path in ("/health", "/ping", "/models/tag/health"):
        assert (server.get(path).status, server.get(path).body) == (200, b"")


def test_headers_tell_what_a_request_took(server):
    answer = server.post("/models/vectors/embed", {"inputs": TEXTS})
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers["x-compute-type"] == "cpu"
    assert headers["x-compute-characters"] == str(sum(map(len, TEXTS)))
    assert headers["x-compute-tokens"] == str(5 + 7)
    for name in ("x-compute-time", "x-total-time", "x-tokenization-time", "x-queue-time",
                 "x-inference-time"):  # fmt: skip
        assert headers[name].isdecimal()


def metric(server, name):
    text = server.get("/metrics").body.decode()
    values = re.findall(rf"^{re.escape(name)} ([\d.e+]+)$", text, re.MULTILINE)
    return float(values[0]) if values else 0.0


def test_figures_have_the_names_that_dashboards_know(server):
    names = {
        "te_request_count{method=\"embed\"}": 2, "te_request_success{method=\"embed\"}": 1,
        "te_request_failure{err=\"empty\"}": 1, "te_embed_count": 2, "te_embed_success": 2,
        "te_request_duration_count": 2, "te_request_tokenization_duration_count": 2,
        "te_request_queue_duration_count": 2, "te_request_inference_duration_count": 2,
        "te_request_input_length_count": 3, "te_request_input_length_sum": 17,
        "te_request_texts_sum": 3, "te_request_tokens_sum": 17, "te_queue_size": 0,
        "te_batch_next_size_sum": 3, "te_batch_next_tokens_sum": 17,
        "te_embed_duration_count": 1, "te_embed_tokenization_duration_count": 1,
        "te_embed_queue_duration_count": 1, "te_embed_inference_duration_count": 1,
        "te_predict_duration_count": 1, "te_predict_inference_duration_count": 1,
        "te_request_success{method=\"predict\"}": 1,
    }  # fmt: skip
    before = {name: metric(server, name) for name in names}
    server.post("/models/vectors/embed", {"inputs": TEXTS})
    server.post("/models/vectors/embed", {"inputs": ""})
    server.post("/models/classify/predict", {"inputs": TEXT})
    assert {name: metric(server, name) - before[name] for name in names} == names
    content_type = server.get("/metrics").headers["content-type"]
    assert content_type.startswith("text/plain")


@pytest.mark.parametrize("path, content, status, parts", [
    ("nothing/embed", {"inputs": TEXT}, 404, ["no model 'nothing'", "classify, multi_label"]),
    ("nothing", {"inputs": TEXT}, 404, ["no model 'nothing'"]),
    ("/nothing", {"inputs": TEXT}, 404, ["no route /nothing", "/openapi.json"]),
    ("/embed", {"inputs": TEXT}, 424, ["'classify'", "/predict."]),
    ("tag/predict", {"inputs": TEXT}, 424, ["'tag'", "/models/tag."]),
    ("regress/embed", {"inputs": TEXT}, 424, ["/models/regress/rerank"]),
    ("vectors/predict", {"inputs": TEXT}, 424, ["/models/vectors/embed"]),
    ("masked_lm/predict", {"inputs": TEXT}, 424, ["/models/masked_lm,", "mask token"]),
    ("answer/embed_all", {"inputs": TEXT}, 424, ["a question and a context"]),
    ("choose/similarity", {"inputs": TEXT}, 424, ["a text and its choices"]),
    ("classify/rerank", {"query": TEXT, "texts": TEXTS}, 424, ["one score", "'classify'"]),
    ("vectors/embed", {"inputs": ""}, 400, ["inputs: the text is empty"]),
    ("vectors/embed", {"inputs": []}, 400, ["inputs: found no text"]),
    ("vectors/embed", {"inputs": ["a", ""]}, 400, ["inputs[1]: the text is empty"]),
    ("classify/predict", {"inputs": [["a", ""]]}, 400, ["inputs[0]: the text is empty"]),
    ("answer", {"inputs": {"question": "a", "context": ""}}, 400, ["inputs.context: "]),
    ("masked_lm", {"inputs": "[MASK]", "parameters": {"targets": []}}, 400, ["targets: "]),
    ("masked_lm", {"inputs": "[MASK]", "parameters": {"targets": "zzz"}}, 422, ["'zzz' is [UNK]"]),
    ("vectors", {"inputs": "a", "parameters": {"normalise": 1}}, 422, ["parameters.normalise: "]),
    ("classify/predict", {"inputs": ["a", "b", "c"]}, 422, ["a pair of two", '[["a text"], ']),
    ("classify/predict", {"inputs": ["a", ["b"]]}, 422, ["a pair of two"]),
    ("single/predict", {"inputs": ["a", "b"]}, 422, ["'single' was trained on single texts"]),
    ("nli", {"inputs": "a", "parameters": {"candidate_labels": []}}, 400, ["candidate_labels: "]),
    ("regress/rerank", {"query": "", "texts": TEXTS}, 400, ["query: the text is empty"]),
    ("regress/rerank", {"query": "a", "texts": []}, 400, ["texts: found no text"]),
    ("nli", {"inputs": "a", "parameters": {"candidate_labels": ["a", ""]}}, 400,
     ["parameters.candidate_labels[1]: the text is empty"]),
    ("vectors/decode", {"ids": []}, 400, ["ids: found none"]),
    ("vectors/embed", {"inputs": [5, 6]}, 422, ["token ids", "check_embedding_ctx_length=False"]),
    ("vectors/embed", {"inputs": [[5, 6]]}, 422, ["token ids"]),
    ("vectors/embed", {"inputs": ["a", None]}, 422, ["inputs[1]: found null"]),
    ("vectors/embed", {"inputs": 5}, 422, ["inputs: found a whole number. Send a string or a"]),
    ("vectors/embed", {"inputs": "a", "normalise": True}, 422, ["normalise: ", ", normalize, "]),
    ("vectors/embed", {"inputs": "a", "normalize": 1}, 422, ["normalize: ", "Send true or false"]),
    ("vectors/embed", {"input": "a"}, 422, ["input: there is no such field", "are inputs, "]),
    ("vectors/embed", {}, 422, ["inputs: this field is missing"]),
    ("vectors/embed", ["a"], 422, ["the body: found a list. Send an object"]),
    ("embed", {"inputs": {"source_sentence": "a", "sentences": TEXTS}, "normalize": False}, 422,
     ["normalize: there is no such field", "are inputs, parameters, options"]),
    ("embed", {"inputs": {"source_sentence": "a", "sentences": TEXTS}, "prompt_name": "query"}, 422,
     ["prompt_name: there is no such field"]),
    ("vectors", {"inputs": LONG, "truncate": False}, 422, ["inputs: the text has 74 tokens"]),
    ("vectors/embed", {"inputs": LONG, "truncate": False}, 422, ["inputs: the text has"]),
    ("vectors/embed_all", {"inputs": LONG, "truncate": False}, 422, ["inputs: the text has"]),
    ("vectors/similarity", {"inputs": {"source_sentence": LONG, "sentences": ["a"]},
                            "parameters": {"truncate": False}}, 422,
     ["inputs.source_sentence: the text has"]),
    ("vectors/similarity", {"inputs": {"source_sentence": "a", "sentences": ["a", LONG]},
                            "parameters": {"truncate": False}}, 422,
     ["inputs.sentences[1]: the text has"]),
    ("masked_lm", {"inputs": "a"}, 422, ["inputs: ", "found no [MASK]"]),
    ("choose", {"inputs": [{"text": "a", "choices": ["b"]}]}, 422, ["inputs[0]: "]),
    ("paired", {"inputs": "a"}, 422,
     ["inputs: found a single text", '{"text": TEXT, "text_pair": TEXT}']),
    ("paired/predict", {"inputs": "a"}, 422, ["inputs: found a single text", "[[TEXT, TEXT]]"]),
    ("paired/predict", {"inputs": [TEXTS, ["a"]]}, 422, ["inputs[1]: found a single text"]),
    ("single", {"inputs": ["a", {"text": "a", "text_pair": "b"}]}, 422,
     ["inputs[1]: found a pair of texts", "Send TEXT for each"]),
    ("single/predict", {"inputs": [TEXTS]}, 422, ["inputs[0]: found a pair", "Send [TEXT]"]),
    ("single/rerank", {"query": "a", "texts": TEXTS}, 424, ["one score"]),
    ("number/rerank", {"query": "a", "texts": TEXTS}, 424,
     ["/rerank needs", "Its route is /models/number/predict."]),
    ("number/embed", {"inputs": TEXT}, 424, ["Its route is /models/number/predict."]),
    ("vectors/embed", {"inputs": "a", "dimensions": 0}, 422, ["dimensions: ", "1 or more"]),
    ("vectors/embed", {"inputs": "a", "dimensions": 25}, 422, ["dimensions: found 25", "24"]),
    ("vectors/embed", {"inputs": "a", "truncation_direction": "up"}, 422, ["'left', 'right'"]),
    ("vectors/embed", {"inputs": "a", "prompt_name": "query"}, 422, ["has no prompts"]),
    ("embed/embed", {"inputs": "a", "prompt_name": "passage"}, 422, ["'embed' are query"]),
    ("vectors/embed", {"inputs": ["a", LONG], "truncate": False}, 422,
     ["inputs[1]: the text has 74 tokens", "at most 37", '"truncate": true']),
    ("masked_lm", {"inputs": ["[MASK]", "a"]}, 422, ["inputs[1]: ", "found no [MASK]"]),
    ("masked_lm", {"inputs": LONG + "[MASK]"}, 422, ["found 0 of its 1 [MASK]"]),
    ("masked_lm", {"inputs": "[MASK] " * 1000}, 422,
     ["parameters.top_k: found 5 tokens for each of 1,000 masks", "at most 4,000"]),
    ("masked_lm", {"inputs": "[MASK] " + "film " * 300_000, "parameters": {"top_k": 15}}, 422,
     ["the answer would have 22,500,105 characters", "at most 20,000,000"]),
    ("masked_lm", {"inputs": "[MASK]", "parameters": {"targets": ["good"] * 4001}}, 422,
     ["parameters.targets: found 4,001 words", "at most 4,000"]),
    ("masked_lm", {"inputs": "[MASK]", "parameters": {"top": 3}}, 422,
     ["parameters.top: ", "The fields of parameters are top_k, targets"]),
    ("answer", {"inputs": {"question": "a"}}, 422, ["inputs.context: this field is missing"]),
    ("answer", {"inputs": [{"question": "a", "text": "b"}]}, 422, ["inputs[0].text: "]),
    ("answer", {"inputs": TEXT}, 422, ["inputs: found a string. Send an object or a list"]),
    ("choose", {"inputs": {"text": "a", "choices": ["b"]}}, 422, ["Give two or more"]),
    ("tag", {"inputs": "a", "parameters": {"aggregation_strategy": "all"}}, 422, ["'simple'"]),
    ("classify/predict", {"inputs": [["a", "b", "c"]]}, 422, ["inputs[0]: found 3 texts"]),
    ("vectors/decode", {"ids": [20]}, 422, ["ids: found 20", "0 to 19"]),
    ("vectors/decode", {"ids": [-1]}, 422, ["ids: found -1"]),
    ("vectors/embed", {"inputs": ["a"] * 1025}, 413, ["1,025 texts", "at most 1,024"]),
    ("choose", {"inputs": {"text": "a" * 3001, "choices": ["b"] * 1009}}, 413,
     ["inputs: the texts have 3,029,018 characters", "at most 2,000,000"]),
])  # fmt: skip
def test_mistakes_are_told_in_sentences(refused, path, content, status, parts):
    found, message = refused(path, content)
    assert found == status, message
    check_message(message, *parts)


MARKED = "\ue0f0truncate\ue0f1int x\ue0f2"
"""The characters by which messages mark their options, around a value that is no number."""


@pytest.mark.parametrize("path, content, status", [
    ("vectors/embed", {"inputs": TEXT, MARKED: 1}, 422),
    ("vectors", {"inputs": TEXT, "parameters": {MARKED: 1}}, 422),
    ("embed/embed", {"inputs": TEXT, "prompt_name": MARKED}, 422),
    ("vectors/embed", {"inputs": TEXT, "truncation_direction": MARKED}, 422),
    ("masked_lm", {"inputs": MARKED}, 422),
    ("masked_lm", {"inputs": "[MASK]", "parameters": {"targets": MARKED}}, 422),
    (f"{quote(MARKED)}/embed", {"inputs": TEXT}, 404),
    (f"/{quote(MARKED)}", {"inputs": TEXT}, 404),
    ("/v2/models/tag/infer", {"inputs": [], MARKED: 1}, 422),
])  # fmt: skip
def test_the_marks_of_messages_mean_nothing_in_texts_of_clients(server, path, content, status):
    path = path if path.startswith("/") else f"/models/{path}"
    assert server.post(path, content).status == status


@pytest.mark.parametrize("path", ["/models/vectors/embed", "/models/tag"])
@pytest.mark.parametrize("body, part", [
    (b"", "the body is empty"), (b"texts", "cannot be read as JSON"),
    (b'{"inputs": "\\ud83d"}', "surrogate"), (b'{"inputs": "\xff"}', "UTF-8"),
    (b'{"inputs": "a", "top_k": 1' + b"0" * 5000 + b"}", "a number with too many digits"),
    (b'{"inputs": ' + b"[" * 5000, "cannot be read as JSON"),
])  # fmt: skip
def test_what_is_no_json_is_refused(server, path, body, part):
    answer = server.post(path, body)
    assert (answer.status, part in answer.error) == (400, True), answer.error


@pytest.mark.parametrize("method, path, allowed", [
    ("GET", "/embed", "POST"), ("PUT", "/models/tag/tokenize", "POST"), ("POST", "/info", "GET"),
])  # fmt: skip
def test_a_method_that_a_route_does_not_take_is_named(server, method, path, allowed):
    answer = server.send(method, path, {})
    assert (answer.status, f"{path} does not take {method}" in answer.error) == (405, True)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert allowed in headers["allow"]


@pytest.mark.parametrize("path", ["/predict/", "/models/tag/", "/v1/embeddings/"])
def test_a_path_with_a_slash_at_its_end_is_no_other_one(server, path):
    answer = server.post(path, {"inputs": TEXT})
    assert answer.status == 404
    assert b"there is no route" in answer.body and path.encode() in answer.body


def test_a_compressed_body_is_refused(server):
    body = gzip.compress(json.dumps({"inputs": TEXT}).encode())
    answer = server.send("POST", "/predict", body, {"Content-Encoding": "gzip"})
    assert (answer.status, "Content-Encoding: gzip" in answer.error) == (415, True)
    headers = {"Content-Encoding": "identity"}
    assert server.send("POST", "/predict", {"inputs": TEXT}, headers).status == 200


def test_a_model_that_is_not_there_has_no_health(server):
    for path in ("/models/nothing/health", "/models/nothing/info"):
        assert server.get(path).status == 404


def test_the_key_is_asked_for(strict_server):
    content = {"inputs": TEXT}
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}):
        for path in ("/predict", "/", "/v1/embeddings", "/v2/models/classify/infer"):
            answer = strict_server.post(path, content, **headers)
            assert answer.status == 401
            assert b"Authorization: Bearer KEY" in answer.body
    for key in ("Bearer secret", "bearer secret", "BEARER  secret"):
        assert strict_server.post("/predict", content, Authorization=key).status == 200
    assert strict_server.get("/v1/models").status == 401
    for path in ("/health", "/metrics", "/v2/health/live", "/v2/health/ready"):
        assert strict_server.get(path).status == 200


def test_the_limits_of_a_server_are_told(strict_server):
    def send(path, content):
        answer = strict_server.post(path, content, Authorization="Bearer secret")
        return answer.status, answer.error

    status, message = send("/predict", {"inputs": [["a"]] * 5})
    assert (status, "5 texts" in message, "at most 4" in message) == (413, True, True)
    for path, content in (("/tokenize", {"inputs": ["a"] * 5}), ("/decode", {"ids": [[5]] * 5})):
        status, message = send(path, content)
        assert (status, "found 5 texts" in message, "at most 4" in message) == (413, True, True)
    status, message = send("/predict", {"inputs": "a " * 300})
    assert (status, "more than 500 bytes" in message) == (413, True)
    status, message = send("/predict", {"inputs": "a " * 120})
    assert (status, "at most 100 for one text" in message) == (422, True)


def test_a_body_without_a_length_is_measured_too(strict_server):
    chunks = (json.dumps({"inputs": "a " * 100}).encode() for _ in range(10))
    connection = strict_server.connect()
    connection.request("POST", "/predict", chunks, {"Authorization": "Bearer secret"},
                       encode_chunked=True)  # fmt: skip
    response = connection.getresponse()
    assert (response.status, b"more than 500 bytes" in response.read()) == (413, True)
    connection.close()
