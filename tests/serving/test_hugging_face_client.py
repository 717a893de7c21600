"""huggingface_hub's InferenceClient gets from the server what the model gives in Python."""

from contextlib import contextmanager

import huggingface_hub
import numpy as np
import pytest
import transformers
from huggingface_hub.errors import HfHubHTTPError
from model_server import assert_close, close
from tiny_models import SPECIAL_TOKENS
from transformers import ZeroShotClassificationPipeline

TEXT = "a good film"
LONG = "the film was very dull . " * 12
CONTEXT = "the story was good and the film was very dull and awful ."


@pytest.fixture
def client(server):
    """Give a client of one model."""
    return lambda name: huggingface_hub.InferenceClient(
        f"{server.address}/models/{name}", provider="hf-inference"
    )


def theirs(kind, server, name):
    """A model of transformers and its tokenizer, from the folder that is served."""
    folder = server.folders[name]
    model = getattr(transformers, kind).from_pretrained(folder).eval()
    return {"model": model, "tokenizer": transformers.AutoTokenizer.from_pretrained(folder)}


@contextmanager
def refuses(status, part):
    """Check that the server refuses, and that its message, which the client shows, has a part."""
    with pytest.raises(HfHubHTTPError) as caught:
        yield
    assert caught.value.response.status_code == status
    assert part in caught.value.response.json()["error"]


def test_the_first_model_answers_at_the_address_itself(server, local):
    client = huggingface_hub.InferenceClient(server.address)
    best = client.text_classification(TEXT)[0]
    assert (best.label, best.score) == (
        local("classify")(TEXT).label,
        close(local("classify")(TEXT).probability),
    )


def test_masks_are_filled_as_the_pipeline_fills_them(client, server):
    pipeline = transformers.FillMaskPipeline(**theirs("AutoModelForMaskedLM", server, "masked_lm"))
    words = ["bad", "good", "story"]
    for options in ({}, {"top_k": 2}, {"targets": words}, {"targets": words, "top_k": 2}):
        found = client("masked_lm").fill_mask("the [MASK] was dull", **options)
        # The server fills in no special tokens, such as [UNK], which the pipeline does.
        count = options.get("top_k", 5)
        every = pipeline("the [MASK] was dull", **{"top_k": 20, **options})
        expected = [word for word in every if word["token_str"] not in SPECIAL_TOKENS][:count]
        assert [word.token for word in found] == [word["token"] for word in expected]
        assert [word.token_str for word in found] == [word["token_str"] for word in expected]
        assert [word.sequence for word in found] == [word["sequence"] for word in expected]
        assert [word.score for word in found] == close([word["score"] for word in expected])


def test_several_masks_are_a_list_each_as_in_the_pipeline(server):
    pipeline = transformers.FillMaskPipeline(**theirs("AutoModelForMaskedLM", server, "masked_lm"))
    text = "the [MASK] was [MASK]"
    found = server.post("/models/masked_lm", {"inputs": text, "parameters": {"top_k": 3}}).json
    assert len(found) == 2
    for words, every in zip(found, pipeline(text, top_k=20), strict=True):
        expected = [word for word in every if word["token_str"] not in SPECIAL_TOKENS][:3]
        assert words == [word | {"score": close(word["score"])} for word in expected]


def test_a_target_of_several_tokens_is_refused(client):
    with refuses(422, "'good bad' is 2 tokens"):
        client("masked_lm").fill_mask("the [MASK] was dull", targets=["good bad"])


def test_texts_are_classified(client, local):
    expected = local("classify")(TEXT).probabilities
    found = client("classify").text_classification(TEXT)
    assert {row.label: row.score for row in found} == close(dict(expected))
    assert [row.score for row in found] == sorted((row.score for row in found), reverse=True)
    (best,) = client("classify").text_classification(TEXT, top_k=1)
    assert best == found[0]
    by_softmax = client("classify").text_classification(TEXT, function_to_apply="softmax")
    assert [row.score for row in by_softmax] == close([row.score for row in found])
    logits = client("classify").text_classification(TEXT, function_to_apply="none")
    by_sigmoid = client("classify").text_classification(TEXT, function_to_apply="sigmoid")
    assert [row.score for row in by_sigmoid] == close(
        [1 / (1 + np.exp(-row.score)) for row in logits]
    )
    assert logits[0].score - logits[1].score == close(np.log(found[0].score / found[1].score))


def test_labels_that_exclude_no_other_have_a_probability_each(client, local):
    found = client("multi_label").text_classification(TEXT)
    expected = local("multi_label")(TEXT).probabilities
    assert {row.label: row.score for row in found} == close(dict(expected))


def test_a_number_is_one_label(client, local):
    (found,) = client("regress").text_classification(TEXT)
    assert found.score == close(local("regress")(TEXT).value)


def test_words_are_labelled(client, local):
    expected = local("tag")(CONTEXT)
    words = client("tag").token_classification(
        CONTEXT, aggregation_strategy="none", ignore_labels=[]
    )
    assert tuple(word.word for word in words) == expected.words
    assert tuple(word.entity for word in words) == expected.label_names
    assert [word.score for word in words] == close(expected.label_probabilities)
    assert all(CONTEXT[word.start : word.end] == word.word for word in words)
    spans = client("tag").token_classification(CONTEXT)
    assert [(span.entity_group, span.word, span.start, span.end) for span in spans] == [
        (entity.label, entity.text, entity.start, entity.end) for entity in expected.entities
    ]
    assert spans  # the model finds some
    assert client("tag").token_classification(CONTEXT, ignore_labels=["X"]) == []


def test_questions_are_answered(client, local):
    question = "the film ?"
    expected = local("answer")(question, CONTEXT)
    found = client("answer").question_answering(question=question, context=CONTEXT, top_k=1)
    assert (found.answer, found.start, found.end) == expected.best
    assert found.score == close(expected.probability)
    assert client("answer").question_answering(question=question, context=CONTEXT) == found
    several = client("answer").question_answering(question=question, context=CONTEXT, top_k=3)
    assert [(one.answer, one.start, one.end, one.score) for one in several] == [
        (*candidate[:3], close(candidate.probability)) for candidate in expected.candidates(3)
    ]
    short = client("answer").question_answering(
        question=question, context=CONTEXT, max_answer_len=1, top_k=3
    )
    assert all(" " not in one.answer for one in short)


def test_vectors_are_those_of_encode(client, local):
    expected = local("vectors").encode([TEXT])
    found = client("vectors").feature_extraction(TEXT, normalize=False)
    assert (found.shape, found.dtype) == ((1, 24), np.float32)
    assert_close(found, expected)
    unit = client("vectors").feature_extraction(TEXT)
    np.testing.assert_allclose(unit, expected / np.linalg.norm(expected), atol=1e-5)


def test_options_of_vectors_are_followed(client, local):
    encode = local("embed").encode
    embed = client("embed").feature_extraction
    assert_close(embed(TEXT, normalize=False, prompt_name="query"), encode(["the film " + TEXT]))
    short = embed(TEXT, dimensions=5)
    assert short.shape == (1, 5)
    expected = encode([TEXT])[:, :5]
    np.testing.assert_allclose(short, expected / np.linalg.norm(expected), atol=1e-5)
    with refuses(422, "the text has 74 tokens"):
        embed(LONG, truncate=False)
    last_tokens = " ".join(LONG.split()[-35:])
    assert_close(embed(LONG, truncation_direction="left", normalize=False), encode([last_tokens]))


def test_sentences_are_compared(client, local):
    others = ["a bad film", "lovely"]
    vectors = local("embed").encode([TEXT, *others])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = client("embed").sentence_similarity(TEXT, other_sentences=others)
    assert found == close((vectors[1:] @ vectors[0]).tolist())


@pytest.mark.parametrize("options", [
    {}, {"multi_label": True}, {"hypothesis_template": "the story was {}"},
    {"multi_label": True, "hypothesis_template": "a {} film"},
])  # fmt: skip
@pytest.mark.parametrize("labels", [["good", "bad", "very dull"], ["good"]])
def test_labels_without_training_have_the_scores_of_the_pipeline(client, server, labels, options):
    pipeline = ZeroShotClassificationPipeline(
        **theirs("AutoModelForSequenceClassification", server, "nli")
    )
    expected = pipeline(CONTEXT, labels, **options)
    found = client("nli").zero_shot_classification(CONTEXT, labels, **options)
    assert [row.label for row in found] == expected["labels"]
    assert [row.score for row in found] == close(expected["scores"])


def test_a_classifier_without_entailment_refuses_labels_without_training(client):
    for name, found in (("classify", "none for entailment"), ("regress", "gives a number")):
        with refuses(422, found):
            client(name).zero_shot_classification(TEXT, ["good", "bad"])


def test_the_client_asks_for_health_and_information(client, server):
    assert client("vectors").health_check()
    info = client("vectors").get_endpoint_info()
    assert info["model_id"] == str(server.folders["vectors"])
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert info["max_input_length"] == 37


def test_the_token_of_the_client_is_the_servers_key(strict_server):
    url = f"{strict_server.address}/models/vectors"
    assert huggingface_hub.InferenceClient(url, token="secret").feature_extraction(TEXT).size == 24
    with refuses(401, "the key is missing or wrong"):
        huggingface_hub.InferenceClient(url, token="other").feature_extraction(TEXT)
