"""OpenAI's client gets vectors, and errors that it can read."""

import base64

import numpy as np
import openai
import pytest

TEXTS = ["a good film", "the story was very dull"]


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0) as client:
        yield client


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("options", [{}, {"encoding_format": "base64"},
                                     {"encoding_format": "float"}])  # fmt: skip
def test_vectors_are_those_of_encode_at_length_one(client, local, options):
    answer = client.embeddings.create(model="vectors", input=TEXTS, **options)
    assert [one.index for one in answer.data] == [0, 1]
    if options.get("encoding_format") == "base64":  # the client decodes only if not asked for it
        vectors = [np.frombuffer(base64.b64decode(one.embedding), "<f4") for one in answer.data]
    else:
        vectors = [one.embedding for one in answer.data]
    np.testing.assert_allclose(vectors, unit(local("vectors").encode(TEXTS)), atol=1e-5)
    assert answer.model == "vectors"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 5 + 7


def test_one_text_is_a_list_of_one(client, local):
    answer = client.embeddings.create(model="embed", input=TEXTS[0], user="somebody")
    (one,) = answer.data
    np.testing.assert_allclose([one.embedding], unit(local("embed").encode(TEXTS[:1])), atol=1e-5)


def test_vectors_can_be_cut(client, local):
    answer = client.embeddings.create(model="vectors", input=TEXTS, dimensions=5)
    expected = unit(local("vectors").encode(TEXTS)[:, :5])
    np.testing.assert_allclose([one.embedding for one in answer.data], expected, atol=1e-5)
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.embeddings.create(model="vectors", input=TEXTS, dimensions=25)
    assert "the vectors of this model have 24 numbers" in caught.value.message


@pytest.mark.parametrize("ids", [[5, 6], [[5, 6], [7]]])
def test_token_ids_are_refused_with_the_cure(client, ids):
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.embeddings.create(model="vectors", input=ids)
    assert "check_embedding_ctx_length=False" in caught.value.message
    assert caught.value.body["type"] == "invalid_request_error"


def test_mistakes_are_the_errors_that_the_client_knows(client):
    for kind, options in (
        (openai.NotFoundError, {"model": "text-embedding-3-small", "input": TEXTS}),
        (openai.BadRequestError, {"model": "vectors", "input": []}),
        (openai.BadRequestError, {"model": "vectors", "input": ["a", ""]}),
        (openai.UnprocessableEntityError, {"model": "vectors", "input": TEXTS,
                                           "extra_body": {"truncate": True}}),
    ):  # fmt: skip
        with pytest.raises(kind) as caught:
            client.embeddings.create(**options)
        assert caught.value.message
    with pytest.raises(openai.APIStatusError) as caught:
        client.embeddings.create(model="tag", input=TEXTS)
    assert caught.value.status_code == 424


def test_models_are_listed(client, server):
    assert [model.id for model in client.models.list()] == list(server.folders)
    assert client.models.retrieve("tag").id == "tag"


def test_errors_without_a_route_are_sentences_for_the_client_too(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="tag", messages=[{"role": "user", "content": "a"}])
    assert "there is no route /v1/chat/completions here" in caught.value.message
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("nothing")
    assert "there is no model 'nothing' here" in caught.value.message


def test_the_key_of_the_client_is_the_servers(strict_server):
    url = f"{strict_server.address}/v1"
    with openai.OpenAI(base_url=url, api_key="secret", max_retries=0) as client:
        assert len(client.embeddings.create(model="vectors", input=TEXTS).data) == 2
        with pytest.raises(openai.APIStatusError) as caught:
            client.embeddings.create(model="vectors", input=["a"] * 5)
        assert (caught.value.status_code, "at most 4" in caught.value.message) == (413, True)
    with openai.OpenAI(base_url=url, api_key="other", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.embeddings.create(model="vectors", input=TEXTS)
        assert "the key is missing or wrong" in caught.value.message
