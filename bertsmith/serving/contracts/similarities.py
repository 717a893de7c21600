"""Similarities of a sentence with others, for text-embeddings-inference and InferenceClient."""

from msgspec import Struct

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.text_embeddings_inference.truncation import TruncationDirection
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.contracts.vectors import compute_vectors, stack_vectors
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.text_field import TextField
from bertsmith.tasks.similarity import compute_similarity


class SentencesToCompare(Struct, forbid_unknown_fields=True):
    """A sentence, and the sentences that it is compared with."""

    source_sentence: str
    sentences: list[str]


class SimilarityParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Options of /similarity; unless `truncate` is false, long texts are cut."""

    truncate: bool | None = None
    truncation_direction: TruncationDirection = "right"
    prompt_name: str | None = None


class SimilarityBody(Struct, forbid_unknown_fields=True):
    """Body of /similarity."""

    inputs: SentencesToCompare
    parameters: SimilarityParameters | None = None


async def compute_similarities(call: Call, model: ModelInfo, body: SimilarityBody) -> list[float]:
    """Compare a sentence with others by the model folder's similarity, usually the cosine."""
    parameters = body.parameters or SimilarityParameters()
    source = check_texts(body.inputs.source_sentence, "inputs.source_sentence")
    sentences = check_texts(body.inputs.sentences, "inputs.sentences")
    answers = await compute_vectors(
        call,
        model,
        [*source, *sentences],
        prompt_name=parameters.prompt_name,
        # The cosine compares vectors of length 1. Whether vectors are scaled to it changes every
        # other similarity, so that only the folder can say it.
        normalize=True if model.similarity == "cosine" else None,
        direction=parameters.truncation_direction,
        may_cut=parameters.truncate is not False,
        field=TextField("inputs", _path_of),
    )
    vectors = stack_vectors(answers)
    return compute_similarity(vectors[:1], vectors[1:], model.similarity)[0].tolist()


def _path_of(index: int) -> str:
    return "inputs.source_sentence" if index == 0 else f"inputs.sentences[{index - 1}]"
