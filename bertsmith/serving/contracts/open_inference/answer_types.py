"""The types of this protocol's answers, from which /openapi.json and /docs are made."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class TensorAnswer(Struct, forbid_unknown_fields=True):
    """A tensor: its entries row by row, unless they follow the JSON in binary form."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET


class InferAnswer(Struct, forbid_unknown_fields=True):
    """The tensors of an answer, and the id of its request."""

    model_name: str
    model_version: str
    outputs: list[TensorAnswer]
    id: str | UnsetType = UNSET


class PredictionsAnswer(Struct, forbid_unknown_fields=True):
    """Answer of `:predict`: for each instance, the answer that `/` gives."""

    predictions: list[Any]
