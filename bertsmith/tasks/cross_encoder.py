"""Folders of sentence-transformers' CrossEncoder: what is applied to the model's output.

Which file says so depends on the version that wrote the folder.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from bertsmith.errors import CheckpointError
from bertsmith.model.config_file import CONFIG_FILE
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.sentence_folder import SETTINGS_FILE, check_prompt, read_settings

Activation = Literal["identity", "sigmoid"]

SUPPORTED_ACTIVATIONS: Mapping[str, Activation] = {"Identity": "identity", "Sigmoid": "sigmoid"}
"""Supported functions by their classes in torch.nn."""

MODEL_KEY = "sentence_transformers"
"""Entry of config.json in version 4."""

OLD_KEY = "sbert_ce_default_activation_function"
"""Entry of config.json before version 4."""


def read_activation(files: SmallFiles, config: Mapping[str, Any]) -> Activation:
    """Read what a folder with one output applies to it; identity if no CrossEncoder wrote it.

    `config` is the content of config.json. Without a function in it, a CrossEncoder's is sigmoid.

    Raises:
        CheckpointError: another function, or a prompt before every text.
    """
    settings = read_settings(files, SETTINGS_FILE, {})
    is_cross_encoder = settings.get("model_type") == "CrossEncoder"
    if is_cross_encoder:
        check_prompt(files, settings)
    model = config.get(MODEL_KEY)
    in_model = model.get("activation_fn") if isinstance(model, dict) else None
    for file, key, name in (
        (SETTINGS_FILE, "activation_fn", settings.get("activation_fn")),
        (CONFIG_FILE, f"{MODEL_KEY}.activation_fn", in_model),
        (CONFIG_FILE, OLD_KEY, config.get(OLD_KEY)),
    ):
        if name is not None:
            return _supported(files, file, key, name)
    is_cross_encoder |= MODEL_KEY in config or OLD_KEY in config
    return "sigmoid" if is_cross_encoder else "identity"


def _supported(files: SmallFiles, file: str, key: str, name: object) -> Activation:
    path, _, kind = str(name).rpartition(".")
    if kind in SUPPORTED_ACTIVATIONS and path.startswith("torch.nn"):
        return SUPPORTED_ACTIVATIONS[kind]
    raise CheckpointError(
        f"{files.path(file)}: {key} is {json.dumps(name)[:60]}, which is applied to the model's "
        "output; bertsmith has torch.nn.Sigmoid and torch.nn.Identity. Write one of these, and "
        "apply the other to the numbers yourself."
    )
