"""Feature extraction (a vector for each text) and sentence similarity, for InferenceClient."""

from collections.abc import Mapping
from typing import Any, Literal

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions
from bertsmith.serving.contracts.similarities import SimilarityBody, compute_similarities
from bertsmith.serving.contracts.texts import Input, check_texts
from bertsmith.serving.contracts.vectors import VectorOptions, embed_texts
from bertsmith.serving.json_body import convert
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.text_field import TextField


class FeatureOptions(VectorOptions, forbid_unknown_fields=True):
    """Options of feature extraction."""

    encoding_format: Literal["float"] | None = None


class VectorsBody(FeatureOptions, forbid_unknown_fields=True, kw_only=True):
    """Body of feature extraction; its options are beside the texts or in `parameters`."""

    inputs: Input
    parameters: dict[str, Any] | None = None
    options: HubOptions | None = None


class ComparisonBody(SimilarityBody, forbid_unknown_fields=True):
    """Body of sentence similarity."""

    options: HubOptions | None = None


async def extract_features(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the vector of each text; or the similarities, if `inputs` is an object."""
    if isinstance(content.get("inputs"), dict):
        return await compute_similarities(call, model, convert(content, ComparisonBody))
    body = convert(content, VectorsBody)
    if body.parameters:
        # Checked by themselves, so that an error names a field of `parameters`.
        convert(body.parameters, FeatureOptions, within="parameters")
        body = convert({**content, **body.parameters, "parameters": None}, VectorsBody)
    field = TextField.of("inputs", body.inputs)
    return await embed_texts(call, model, check_texts(body.inputs), body, field)
