"""/embed, /embed_all and /similarity: vectors of texts and of tokens, and their comparison."""

from msgspec import Struct
from starlette.responses import Response

from bertsmith.serving.call import Call, answer_json, stream_arrays
from bertsmith.serving.contracts.similarities import SimilarityBody, compute_similarities
from bertsmith.serving.contracts.text_embeddings_inference.truncation import TruncationDirection
from bertsmith.serving.contracts.texts import Input, check_texts
from bertsmith.serving.contracts.vectors import VectorOptions, embed_texts
from bertsmith.serving.service import with_prompt
from bertsmith.serving.text_field import TextField


class EmbedBody(VectorOptions, forbid_unknown_fields=True, kw_only=True):
    """Body of /embed."""

    inputs: Input


class EmbedAllBody(Struct, forbid_unknown_fields=True):
    """Body of /embed_all."""

    inputs: Input
    truncate: bool | None = None
    truncation_direction: TruncationDirection = "right"
    prompt_name: str | None = None


async def answer_embed(call: Call) -> Response:
    """Answer with a vector for each text."""
    model = call.require("vectors", "/embed")
    body = await call.body(EmbedBody)
    field = TextField.of("inputs", body.inputs)  # messages name a text by its place in it
    return answer_json(await embed_texts(call, model, check_texts(body.inputs), body, field))


async def answer_embed_all(call: Call) -> Response:
    """Answer with a vector for each token of each text."""
    model = call.require("token_vectors", "/embed_all")
    body = await call.body(EmbedAllBody)
    texts = with_prompt(model, check_texts(body.inputs), body.prompt_name)
    answers = await call.compute(
        model,
        "token_vectors",
        [{"text": text} for text in texts],
        options={"truncation_side": body.truncation_direction.lower()},
        may_cut=body.truncate is not False,
        field=TextField.of("inputs", body.inputs),
    )
    return stream_arrays(answers.predictions)


async def answer_similarity(call: Call) -> Response:
    """Answer with the similarity of a sentence to each of several others."""
    model = call.require("vectors", "/similarity")
    body = await call.body(SimilarityBody)
    return answer_json(await compute_similarities(call, model, body))
