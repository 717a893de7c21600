"""Vectors of the texts of a request, for the routes of all contracts."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from bertsmith.metrics.unit_vectors import unit_length
from bertsmith.serving.call import Call
from bertsmith.serving.contracts.text_embeddings_inference.truncation import TruncationDirection
from bertsmith.serving.messages import Answers, ModelInfo
from bertsmith.serving.problems import invalid
from bertsmith.serving.service import with_prompt
from bertsmith.serving.text_field import TextField


class VectorOptions(Struct, forbid_unknown_fields=True):
    """Options for turning texts into vectors; None means the default of the contract's server.

    By default long texts are cut, and vectors are scaled to length 1.
    """

    truncate: bool | None = None
    truncation_direction: TruncationDirection = "right"
    prompt_name: str | None = None
    normalize: bool | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None


async def embed_texts(
    call: Call,
    model: ModelInfo,
    texts: Sequence[str],
    options: VectorOptions,
    field: str | TextField = "inputs",
) -> NDArray[np.float32]:
    """Compute vectors, fp32 `[texts, hidden]`; `dimensions` keeps only the first numbers of each.

    Raises:
        Problem: a problem of `Service.compute`, or 422 if `dimensions` exceeds the hidden size.
    """
    _check_dimensions(model, options.dimensions)
    normalize = options.normalize is not False
    answers = await compute_vectors(
        call,
        model,
        texts,
        prompt_name=options.prompt_name,
        normalize=normalize,
        direction=options.truncation_direction,
        may_cut=options.truncate is not False,
        field=field,
    )
    return _cut_vectors(stack_vectors(answers), options.dimensions, normalize=normalize)


async def compute_vectors(
    call: Call,
    model: ModelInfo,
    texts: Sequence[str],
    *,
    prompt_name: str | None = None,
    normalize: bool | None = True,
    direction: str = "right",
    may_cut: bool = True,
    field: str | TextField = "inputs",
) -> Answers:
    """Compute a vector for each text.

    Args:
        normalize: whether vectors are scaled to length 1; None leaves it to the model's folder.

    Raises:
        Problem: a problem of `Service.compute`.
    """
    texts = with_prompt(model, texts, prompt_name)
    scaling = {} if normalize is None else {"normalize": normalize}
    return await call.compute(
        model,
        "vectors",
        [{"text": text} for text in texts],
        options={**scaling, "truncation_side": direction.lower()},
        may_cut=may_cut,
        field=field,
    )


def stack_vectors(answers: Answers) -> NDArray[np.float32]:
    """Return the vectors of all texts, fp32 `[texts, hidden]`."""
    return np.stack([prediction.vector for prediction in answers.predictions])


def _check_dimensions(model: ModelInfo, dimensions: int | None) -> None:
    """Check that the model's vectors have at least `dimensions` numbers.

    Raises:
        Problem: 422 if they have fewer.
    """
    if dimensions is not None and dimensions > model.hidden_size:
        raise invalid(
            f"dimensions: found {dimensions:,}, and the vectors of this model have "
            f"{model.hidden_size:,} numbers."
        )


def _cut_vectors(
    vectors: NDArray[np.float32], dimensions: int | None, *, normalize: bool
) -> NDArray[np.float32]:
    """Keep the first `dimensions` numbers of each vector (Kusupati et al. 2022, Matryoshka)."""
    if dimensions is None or dimensions == vectors.shape[1]:
        return vectors
    shorter = np.ascontiguousarray(vectors[:, :dimensions])
    return unit_length(shorter) if normalize else shorter
