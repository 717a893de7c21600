"""Tensors of Open Inference (v2): read and written in JSON, or in binary form after the JSON.

In binary form, a string is written as its length in bytes (4 bytes, little-endian), followed by
these bytes, its UTF-8.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from msgspec import Struct
from numpy.typing import NDArray

from bertsmith.data.json_rows import json_type
from bertsmith.serving.client_text import clip_text
from bertsmith.serving.problems import invalid

HEADER = "Inference-Header-Content-Length"
"""The header that says where the JSON ends and binary tensors begin."""
MAX_DIGITS = 20
"""Limit on the digits of `HEADER`; Python refuses to read a number of several thousand digits."""
MAX_DIMENSIONS = 8
"""Limit on the dimensions of a tensor, since the product of very many sizes would take minutes."""
DATATYPES = {"FP32": "<f4", "FP64": "<f8"}
"""numpy's names of the datatypes of numbers, little-endian."""


class InputParameters(Struct, forbid_unknown_fields=True):
    """Parameters of a tensor of a request."""

    binary_data_size: int | None = None
    content_type: str | None = None
    """Type of the strings' content, which is ignored."""


class InputTensor(Struct, forbid_unknown_fields=True):
    """A tensor of a request."""

    name: str
    shape: list[int]
    datatype: str
    data: Any = None
    parameters: InputParameters | None = None


@dataclass(frozen=True)
class Strings:
    """A tensor of strings, flat, row by row."""

    shape: tuple[int, ...]
    values: list[str]


@dataclass(frozen=True)
class OutputTensor:
    """A tensor of an answer: strings, or an array of the datatype's numbers."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Sequence[str] | NDArray[Any]

    def flat(self) -> Any:
        """Return the data as a flat list for JSON."""
        return self.data.ravel() if isinstance(self.data, np.ndarray) else list(self.data)

    def to_bytes(self) -> bytes:
        if isinstance(self.data, np.ndarray):
            return np.ascontiguousarray(self.data, dtype=DATATYPES[self.datatype]).tobytes()
        encoded = [text.encode() for text in self.data]
        return b"".join(len(text).to_bytes(4, "little") + text for text in encoded)


def split_body(body: bytes, header: str | None) -> tuple[bytes, bytes]:
    """Divide a body into its JSON and its binary part.

    Args:
        header: the value of `HEADER`, if there is one.

    Raises:
        Problem: 422 if the header is not a number of bytes within the body.
    """
    if header is None:
        return body, b""
    is_number = header.isascii() and header.isdecimal() and len(header) < MAX_DIGITS
    if not is_number or int(header) > len(body):
        raise invalid(
            f"{HEADER}: found '{clip_text(header)}'; it is the number of bytes of the JSON, and "
            f"the body has {len(body):,}."
        )
    return body[: int(header)], body[int(header) :]


def read_strings(tensors: Sequence[InputTensor], binary: bytes) -> dict[str, Strings]:
    """Read tensors of strings by their names, from JSON or from the binary part of a body.

    Raises:
        Problem: 422 if a tensor has another datatype, or not as many strings as its shape says.
    """
    strings: dict[str, Strings] = {}
    begin = 0
    for tensor in tensors:
        where = f"inputs '{clip_text(tensor.name)}'"
        if tensor.name in strings:
            raise invalid(f"{where}: there are two of this name.")
        if tensor.datatype != "BYTES":
            raise invalid(
                f"{where}: found datatype {clip_text(tensor.datatype)}; texts have BYTES."
            )
        size = None if tensor.parameters is None else tensor.parameters.binary_data_size
        if size is not None and tensor.data is not None:
            raise invalid(f"{where}: found data beside binary_data_size. Send one of them.")
        if size is None:
            values = list(_flatten(tensor.data, where))
        else:
            if not 0 <= size <= len(binary) - begin:
                raise invalid(
                    f"{where}: binary_data_size is {size}, and {len(binary) - begin:,} bytes are "
                    "left behind the JSON."
                )
            values = list(_split_strings(binary[begin : begin + size], where))
            begin += size
        if not _has_shape(len(values), tensor.shape):
            shape = clip_text(str(tensor.shape))
            raise invalid(f"{where}: found {len(values):,} strings, and the shape is {shape}.")
        strings[tensor.name] = Strings(tuple(tensor.shape), values)
    if begin < len(binary):
        raise invalid(
            f"inputs: {len(binary) - begin:,} bytes are left behind those of the tensors. The "
            "binary_data_size of each tensor is the number of its bytes."
        )
    return strings


def _has_shape(count: int, shape: Sequence[int]) -> bool:
    """Return whether `count` strings fill a shape, which has at most `MAX_DIMENSIONS`."""
    is_possible = len(shape) <= MAX_DIMENSIONS and all(0 <= size <= count for size in shape)
    return is_possible and math.prod(shape) == count


def write_body(
    head: Mapping[str, Any], outputs: Sequence[OutputTensor], binary_names: frozenset[str]
) -> tuple[bytes, dict[str, str]]:
    """Write an answer; return its body and headers.

    Args:
        binary_names: names of the tensors that are written in binary form.
    """
    tensors, parts = [], []
    for output in outputs:
        tensor: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": list(output.shape),
        }
        if output.name in binary_names:
            parts.append(output.to_bytes())
            tensor["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            tensor["data"] = output.flat()
        tensors.append(tensor)
    json = orjson.dumps({**head, "outputs": tensors}, option=orjson.OPT_SERIALIZE_NUMPY)
    if not parts:
        return json, {"Content-Type": "application/json"}
    headers = {HEADER: str(len(json)), "Content-Type": "application/octet-stream"}
    return json + b"".join(parts), headers


def _flatten(data: Any, where: str) -> Iterator[str]:
    """Yield the strings of a string, or of lists that may be nested."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, list):
        for part in data:
            yield from _flatten(part, where)
    elif data is None:
        raise invalid(f"{where}: found no data.")
    else:
        raise invalid(f"{where}: found {json_type(data)} among the data. Send texts as strings.")


def _split_strings(data: bytes, where: str) -> Iterator[str]:
    """Yield the strings of binary data, each written as its length and its bytes."""
    begin = 0
    while begin < len(data):
        end = begin + 4 + int.from_bytes(data[begin : begin + 4], "little")
        if end > len(data):
            raise invalid(f"{where}: its binary data end within a string.")
        try:
            yield data[begin + 4 : end].decode()
        except UnicodeDecodeError:
            raise invalid(f"{where}: a string is not UTF-8.") from None
        begin = end
