"""Allowed values of settings: choices, seeds, and upper limits of numbers."""

from collections.abc import Mapping, Sequence

from bertsmith.errors import ConfigError, SettingError

LARGEST: Mapping[str, int] = {
    # A model: 1,000 layers are the deepest that were published (DeepNet, 2022), and vocabularies of
    # a million tokens the largest (XLM-V, 2023).
    "num_hidden_layers": 1_024,
    "num_hidden_groups": 1_024,
    "inner_group_num": 1_024,
    "hidden_size": 65_536,
    "embedding_size": 65_536,
    "cell_size": 65_536,
    "intermediate_size": 1_048_576,
    "num_attention_heads": 4_096,
    "vocab_size": 10_000_000,
    "type_vocab_size": 65_536,
    "max_position_embeddings": 1_048_576,
    "local_attention": 1_048_576,
    # A vocabulary: tokens that `tokenizer extend` adds, and how often a merged pair occurs.
    "add": 10_000_000,
    "min_frequency": 1_000_000_000_000,
    # A run: the minutes of a year; a batch of 16 × 65,536, where 65,536 is the largest of LAMB
    # (2020). `keep` counts checkpoints.
    "steps": 1_000_000_000,
    "minutes": 527_040,
    "epochs": 1_000_000,
    "batch_size": 1_048_576,
    "micro_batch_size": 1_048_576,
    "nodes": 100_000,
    "ranks": 1_024,
    "max_length": 1_048_576,
    "start_length": 1_048_576,
    "start_steps": 1_000_000_000,
    "masking_schedule_steps": 1_000_000_000,
    "duplicates": 1_000_000,
    "eval_every": 1_000_000_000,
    "checkpoint_every": 1_000_000_000,
    "eval_rows": 100_000_000,
    "final_rows": 100_000_000,
    "keep": 1_000_000,
    "patience": 1_000_000,
    "seeds": 1_000,
    "folds": 1_000,
    # Rows of a file, and how often a token occurs that `compress` keeps.
    "limit": 1_000_000_000_000,
    "eval_limit": 1_000_000_000_000,
    "min_count": 1_000_000_000_000,
    # A page, on which each text is a mark.
    "num_texts": 10_000,
    # A server; `seconds` are those of `serve --bench`.
    "max_queue": 1_000_000,
    "max_texts": 1_000_000,
    "max_characters": 1_000_000_000,
    "max_batch_tokens": 10_000_000,
    "max_text_tokens": 10_000_000,
    "max_body_bytes": 1_000_000_000,
    "timeout": 86_400,
    "seconds": 86_400,
    # Generated text.
    "beams": 1_024,
    "max_new_tokens": 1_000_000,
    # A computer.
    "measure_seconds": 86_400,
    "threads": 1_024,
    "processes": 1_024,
}
"""Upper limits of settings. They catch typing errors before these exhaust time or memory."""


def check_largest(name: str, value: float | None, table: str = "") -> None:
    """Check that a setting is a number, and not above its limit in `LARGEST`.

    Args:
        table: the table of the recipe that has the setting, with a dot at the end, such as
            "training."; empty for a setting of the command line.

    Raises:
        SettingError: `value` is above the limit, or NaN.
    """
    most = LARGEST[name]
    if value is not None and not value <= most:
        raise SettingError(f"{table}{name}", value, f"at most {most:,}")


def check_upper_limits(settings: object, table: str = "") -> None:
    """Check each field that has an upper limit in `LARGEST`; `table` is as in `check_largest`.

    Raises:
        SettingError: a field is above its limit, or NaN.
    """
    for name in LARGEST:
        value = getattr(settings, name, None)
        if isinstance(value, int | float):
            check_largest(name, value, table)


def check_seed(name: str, value: int) -> None:
    """Check that `value` is a seed that every random generator accepts.

    Raises:
        SettingError: `value` is not from 0 to 2^63 - 1.
    """
    if not 0 <= value < 2**63:
        raise SettingError(name, value, f"0 to {2**63 - 1:,}")


def check_choice(name: str, value: object, allowed: Sequence[str] | Mapping[str, object]) -> None:
    """Check that `value` is one of `allowed`.

    Raises:
        ConfigError: `value` is none of them; the message lists them.
    """
    # Not a SettingError: many of these names are no options, such as keys of a config.json.
    # A list from a recipe is not hashable, so it could not be looked up in a mapping.
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{name} is {value!r}. Choose one of: {', '.join(allowed)}.")
