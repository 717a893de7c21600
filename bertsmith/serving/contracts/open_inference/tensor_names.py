"""Names, datatypes and shapes of the tensors that each kind of model takes and gives."""

from collections.abc import Mapping
from typing import Any

import orjson

from bertsmith.serving.client_text import clip_text
from bertsmith.serving.contracts.open_inference.tensors import Strings
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import invalid

INPUTS = {
    "question-answering": ("question", "context"),
    "multiple-choice": ("text", "choices"),
}
"""Names of the tensors that a task needs, for tasks that need more than `text`."""


def needed_names(model: ModelInfo) -> tuple[str, ...]:
    """Return the names of the tensors that a model needs."""
    if model.task == "text-classification" and model.reads_pairs:
        return ("text", "pair")
    return INPUTS.get(model.task, ("text",))


def optional_names(model: ModelInfo) -> tuple[str, ...]:
    """Return the names of optional tensors: `pair`, if the model may have been trained on pairs."""
    if model.task == "text-classification" and model.reads_pairs is None:
        return ("pair",)
    return ()


def check_inputs(model: ModelInfo, tensors: Mapping[str, Strings]) -> dict[str, list[Any]]:
    """Return the entries of each tensor: texts, or in the tensor `choices` lists of texts.

    Raises:
        Problem: 400 without a text, or 422 if a tensor is missing, unknown or of another shape, or
            if two tensors have different numbers of texts.
    """
    needed = needed_names(model)
    allowed = (*needed, *optional_names(model))
    for name in needed:
        if name not in tensors:
            raise invalid(
                f"inputs: found no tensor '{name}', which '{model.name}' needs. The tensors of "
                f"this model are {', '.join(allowed)}."
            )
    for name in tensors:
        if name not in allowed:
            raise invalid(
                f"inputs: found a tensor '{clip_text(name)}'. The tensors of '{model.name}' are "
                f"{', '.join(allowed)}."
            )
    texts: dict[str, list[Any]] = {}
    for name, strings in tensors.items():
        check_texts(strings.values, name)
        texts[name] = _divide_choices(strings) if name == "choices" else _as_list(name, strings)
    counts = {name: len(rows) for name, rows in texts.items()}
    if len(set(counts.values())) > 1:
        sizes = ", ".join(f"{count:,} in '{name}'" for name, count in counts.items())
        raise invalid(f"inputs: the tensors have different numbers of texts: {sizes}.")
    return texts


def _as_list(name: str, strings: Strings) -> list[str]:
    """Return the texts of a tensor [texts]; some clients send it as [texts, 1].

    Raises:
        Problem: 422 for another shape.
    """
    if sum(size != 1 for size in strings.shape) > 1:
        raise invalid(
            f"inputs '{name}': found the shape {list(strings.shape)}; texts have the shape [texts]."
        )
    return strings.values


def _divide_choices(strings: Strings) -> list[list[str]]:
    """Return the choices of each text, from a tensor [texts, choices] or [choices] of one text.

    Raises:
        Problem: 422 for another shape.
    """
    if len(strings.shape) == 1:
        return [strings.values]
    if len(strings.shape) != 2:
        raise invalid(
            f"inputs 'choices': found the shape {list(strings.shape)}; choices have the shape "
            "[texts, choices], or [choices] for a single text."
        )
    num_texts, num_choices = strings.shape
    return [strings.values[row * num_choices : (row + 1) * num_choices] for row in range(num_texts)]


def describe_input_tensors(model: ModelInfo) -> list[dict[str, Any]]:
    """Describe the tensors of a request; -1 is any number of entries."""
    optional = optional_names(model)
    return [
        {
            "name": name,
            "datatype": "BYTES",
            "shape": [-1, -1] if name == "choices" else [-1],
            **({"parameters": {"optional": True}} if name in optional else {}),
        }
        for name in (*needed_names(model), *optional)
    ]


def describe_output_tensors(model: ModelInfo) -> list[dict[str, Any]]:
    """Describe the tensors of an answer."""
    if "predict" not in model.kinds:
        return [{"name": "vectors", "datatype": "FP32", "shape": [-1, model.hidden_size]}]
    if model.is_regression:
        return [{"name": "score", "datatype": "FP64", "shape": [-1]}]
    if model.task != "text-classification":
        return [{"name": "result", "datatype": "BYTES", "shape": [-1]}]
    label = "labels" if model.is_multi_label else "label"
    names = orjson.dumps(model.labels).decode()  # parameters are strings, numbers or booleans
    return [
        {"name": label, "datatype": "BYTES", "shape": [-1]},
        {
            "name": "probabilities",
            "datatype": "FP64",
            "shape": [-1, len(model.labels)],
            "parameters": {"labels": names},
        },
    ]
