"""Vectors of a request's texts, for all contracts."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertsmith.metrics.retrieval import unit_length
from bertsmith.serving.call import Call
from bertsmith.serving.messages import Answers, ModelInfo
from bertsmith.serving.problems import invalid
from bertsmith.serving.service import with_prompt


async def compute_vectors(
    call: Call,
    model: ModelInfo,
    texts: Sequence[str],
    *,
    prompt_name: str | None = None,
    normalize: bool | None = True,
    direction: str = "right",
    may_cut: bool = True,
    field: str = "inputs",
) -> Answers:
    """Compute a vector for each text.

    Args:
        normalize: whether vectors are scaled to length 1; None for what the model's folder says.

    Raises:
        Problem: as `Service.compute`.
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


def cut_vectors(
    vectors: NDArray[np.float32], dimensions: int | None, *, normalize: bool
) -> NDArray[np.float32]:
    """Keep the first numbers of each vector, for models that were trained for that (Matryoshka).

    Raises:
        Problem: 422 if the vectors have fewer numbers.
    """
    if dimensions is None or dimensions == vectors.shape[1]:
        return vectors
    if dimensions > vectors.shape[1]:
        raise invalid(
            f"dimensions: found {dimensions:,}, and the vectors of this model have "
            f"{vectors.shape[1]:,} numbers."
        )
    shorter = np.ascontiguousarray(vectors[:, :dimensions])
    return unit_length(shorter) if normalize else shorter
