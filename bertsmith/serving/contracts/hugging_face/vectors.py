"""Feature extraction and sentence similarity."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions, convert
from bertsmith.serving.contracts.similarities import SimilarityBody, compute_similarities
from bertsmith.serving.contracts.tei.truncation import TruncationDirection
from bertsmith.serving.contracts.texts import Input, check_texts
from bertsmith.serving.contracts.vectors import compute_vectors, cut_vectors, stack_vectors
from bertsmith.serving.messages import ModelInfo


class VectorOptions(Struct, forbid_unknown_fields=True):
    """Options of feature extraction."""

    normalize: bool | None = None
    prompt_name: str | None = None
    truncate: bool | None = None
    truncation_direction: TruncationDirection = "right"
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    encoding_format: Literal["float"] | None = None


class VectorsBody(VectorOptions, forbid_unknown_fields=True, kw_only=True):
    """Body of feature extraction, whose options stand beside the texts or in `parameters`."""

    inputs: Input
    parameters: dict[str, Any] | None = None
    options: HubOptions | None = None


async def vectors(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    if isinstance(content.get("inputs"), dict):
        names = ("inputs", "parameters")
        compared = {name: content[name] for name in names if content.get(name) is not None}
        return await compute_similarities(call, model, convert(compared, SimilarityBody))
    body: VectorsBody = convert(content, VectorsBody)
    if body.parameters:
        convert(body.parameters, VectorOptions, "parameters")
        body = convert({**content, **body.parameters, "parameters": None}, VectorsBody)
    normalize = body.normalize is not False
    answers = await compute_vectors(
        call,
        model,
        check_texts(body.inputs),
        prompt_name=body.prompt_name,
        normalize=normalize,
        direction=body.truncation_direction,
        may_cut=body.truncate is not False,
    )
    return cut_vectors(stack_vectors(answers), body.dimensions, normalize=normalize)
