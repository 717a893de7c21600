"""The activation function on the output of sentence-transformers' CrossEncoder.

A CrossEncoder reads two texts as one row and scores the pair. The file that names the function
depends on the version of sentence-transformers that wrote the folder. The parameter `files` of the
functions reads the JSON files of a model's folder.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from bertsmith.errors import CheckpointError, warn_once
from bertsmith.model.config_file import CONFIG_FILE
from bertsmith.system.json_text import shown_json
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.sentence_folder import SETTINGS_FILE, check_prompt, read_settings

Activation = Literal["identity", "sigmoid"]

SUPPORTED_ACTIVATIONS: Mapping[str, Activation] = {"Identity": "identity", "Sigmoid": "sigmoid"}
"""Supported functions by their classes in torch.nn."""

MODEL_KEY = "sentence_transformers"
"""Entry of config.json that holds the function in version 4."""

OLD_KEY = "sbert_ce_default_activation_function"
"""Entry of config.json that holds the function before version 4."""


class _NamedFunction(NamedTuple):
    """The name of an activation function, and the file and key that it was read from."""

    file: str
    key: str
    name: object


def read_activation(files: SmallFiles, config: Mapping[str, Any]) -> Activation:
    """Read the activation function of a model with one output.

    `config` is the content of config.json. A CrossEncoder's folder that names no function has a
    sigmoid. A folder of transformers has none, since transformers trains a single output by the
    loss of regression. A warning is shown for a folder that may be of either kind.

    Raises:
        CheckpointError: the folder names an unsupported function, or a prompt for every text.
    """
    function = _read_function(files, config)
    if function is not None:
        return _to_activation(files, function)
    if is_cross_encoder(files, config):
        return "sigmoid"
    if config.get("problem_type") is None:
        warn_once(
            f"{files.path(CONFIG_FILE)}: does not say whether this model gives numbers or "
            "probabilities. Its outputs are taken for numbers; sentence-transformers and pipelines "
            "of transformers apply a sigmoid. Write "
            f'"problem_type": "regression" there for numbers, or "{OLD_KEY}": '
            '"torch.nn.modules.activation.Sigmoid" for probabilities.'
        )
    return "identity"


def check_softmax(files: SmallFiles, config: Mapping[str, Any]) -> None:
    """Refuse a model with several outputs whose activation function is not a softmax.

    The identity is allowed, too: it keeps the order of the outputs, so the likeliest label is that
    of a softmax.

    Raises:
        CheckpointError: the folder names another function, or a prompt for every text.
    """
    function = _read_function(files, config)
    if function is None or config.get("problem_type") is not None:
        return
    name = _torch_class(function)
    if name == "Sigmoid":
        raise CheckpointError(
            f"{files.path(function.file)}: {function.key} asks for a sigmoid of each of several "
            "outputs, but transformers computes a softmax of all. Write into config.json which is "
            'right: "problem_type": "multi_label_classification" if a text may have several '
            'labels, "single_label_classification" if it has one.'
        )
    if name not in ("Softmax", "Identity"):
        raise _unsupported(files, function, allowed="Softmax")


def _read_function(files: SmallFiles, config: Mapping[str, Any]) -> _NamedFunction | None:
    """Read the function that a CrossEncoder's folder names; newer formats take precedence.

    The result is None if the folder names none.

    Raises:
        CheckpointError: the folder has a prompt, which would be put before every text.
    """
    settings = read_settings(files, SETTINGS_FILE, absent={})
    if settings.get("model_type") == "CrossEncoder":
        check_prompt(files, settings)
    model = config.get(MODEL_KEY)
    in_model = model.get("activation_fn") if isinstance(model, dict) else None
    # The first file is that of newer versions than 4.
    for function in (
        _NamedFunction(SETTINGS_FILE, "activation_fn", settings.get("activation_fn")),
        _NamedFunction(CONFIG_FILE, f"{MODEL_KEY}.activation_fn", in_model),
        _NamedFunction(CONFIG_FILE, OLD_KEY, config.get(OLD_KEY)),
    ):
        if function.name is not None:
            return function
    return None


def is_cross_encoder(files: SmallFiles, config: Mapping[str, Any]) -> bool:
    """Return whether a folder says that it is a CrossEncoder, which reads pairs of texts.

    `config` is the content of config.json.
    """
    settings = read_settings(files, SETTINGS_FILE, absent={})
    is_named = settings.get("model_type") == "CrossEncoder"
    return is_named or MODEL_KEY in config or OLD_KEY in config


def _to_activation(files: SmallFiles, function: _NamedFunction) -> Activation:
    """Convert the function of a model with one output.

    Raises:
        CheckpointError: the function is not supported.
    """
    class_name = _torch_class(function)
    if class_name in SUPPORTED_ACTIVATIONS:
        return SUPPORTED_ACTIVATIONS[class_name]
    raise _unsupported(files, function, allowed="Sigmoid")


def _torch_class(function: _NamedFunction) -> str:
    """Return the class in torch.nn that is named, such as Sigmoid; empty for other names.

    >>> _torch_class(_NamedFunction("config.json", "key", "torch.nn.modules.activation.Sigmoid"))
    'Sigmoid'
    """
    module, _, class_name = str(function.name).rpartition(".")
    return class_name if module.startswith("torch.nn") else ""


def _unsupported(files: SmallFiles, function: _NamedFunction, *, allowed: str) -> CheckpointError:
    """Build the error for a function that is neither the identity nor `allowed`."""
    return CheckpointError(
        f"{files.path(function.file)}: {function.key} is "
        f"{shown_json(function.name)}; allowed are torch.nn.{allowed} and "
        "torch.nn.Identity. Write torch.nn.Identity, and apply your function to the model's "
        "outputs yourself."
    )
