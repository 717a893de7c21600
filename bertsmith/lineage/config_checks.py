"""Checks of the values in a model's config, for the configs of all systems.

A config.json may have been changed by an editor or by another program. So each value is checked
before a network is built from it.
"""

from collections.abc import Sequence

from bertsmith.errors import ConfigError
from bertsmith.system.bounds import LARGEST

FIELDS_BY_LIMIT = {
    "vocab_size": ("vocab_size",),
    "num_hidden_layers": (
        "n_layer", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers",
        "num_highways",
    ),
    "hidden_size": (
        "n_embd", "d_model", "d_kv", "hidden_size", "character_size", "max_characters",
        "relative_attention_num_buckets",
    ),
    "cell_size": ("cell_size",),
    "num_attention_heads": (
        "n_head", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
    ),
    "intermediate_size": ("n_inner", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "filters"),
    "max_position_embeddings": (
        "n_positions", "max_position_embeddings", "relative_attention_max_distance",
    ),
}  # fmt: skip
"""Maps the name of an upper limit, a key of `LARGEST` (those of all settings), to the fields of
configs that have this limit."""


def check_sizes(config: object, names: Sequence[str]) -> None:
    """Check that fields are whole numbers above 0 and not above their limits.

    Raises:
        ConfigError: a field has another value.
    """
    for name in names:
        value = getattr(config, name)
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name} is {value!r}. It must be a whole number above 0.")
        check_upper_limit(name, value)


def check_upper_limit(name: str, value: int) -> None:
    """Check that the value of a field is not above its limit in `FIELDS_BY_LIMIT`, if it has one.

    Raises:
        ConfigError: the value is above the limit.
    """
    for limit_name, fields in FIELDS_BY_LIMIT.items():
        limit = LARGEST[limit_name]
        if name in fields and value > limit:
            raise ConfigError(f"{name} is {value:,}. It must be at most {limit:,}.")


def check_probabilities(config: object, names: Sequence[str]) -> None:
    """Check that fields are numbers, at least 0 and below 1.

    Raises:
        ConfigError: a field has another value.
    """
    for name in names:
        value = getattr(config, name)
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise ConfigError(f"{name} is {value!r}. It must be at least 0 and below 1.")


def check_small_numbers(config: object, names: Sequence[str]) -> None:
    """Check that fields are numbers above 0 and below 1.

    Raises:
        ConfigError: a field has another value.
    """
    for name in names:
        value = getattr(config, name)
        if type(value) not in (int, float) or not 0 < value < 1:
            raise ConfigError(f"{name} is {value!r}. It must be above 0 and below 1.")


def check_optional_ids(config: object, names: Sequence[str]) -> None:
    """Check that fields are token ids or None.

    Raises:
        ConfigError: a field has another value.
    """
    for name in names:
        value = getattr(config, name)
        if value is not None and (type(value) is not int or value < 0):
            raise ConfigError(f"{name} is {value!r}. It must be 0 or above, or null.")


def check_ids(config: object, names: Sequence[str], vocab_size: int) -> None:
    """Check that fields are token ids of the vocabulary.

    Raises:
        ConfigError: a field has another value.
    """
    for name in names:
        value = getattr(config, name)
        if type(value) is not int or not 0 <= value < vocab_size:
            raise ConfigError(f"{name} is {value!r}. It must be an id below vocab_size.")
