"""The checks of the flags of `bertsmith evaluate`, for every kind of model."""

from collections.abc import Iterable

from bertsmith.commands.settings.evaluate import Settings
from bertsmith.errors import ConfigError

LABEL_FLAGS = ("long_texts", "stride", "label_separator", "errors", "page")
"""Flags that have an effect only for a fine-tuned model on labelled data."""


def used_flags(settings: Settings, names: Iterable[str]) -> list[str]:
    """Return the names of the settings that are not None."""
    return [name for name in names if getattr(settings, name) is not None]


def format_flags(names: Iterable[str]) -> str:
    """Spell fields of the settings as flags.

    >>> format_flags(["long_texts", "page"])
    '--long-texts, --page'
    """
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def check_flags(settings: Settings) -> None:
    """Check that either --data or --minimal-pairs is given, and that the other flags apply to it.

    Raises:
        ConfigError: both or neither is given, or another flag has no effect.
    """
    are_pairs = settings.minimal_pairs is not None
    if are_pairs == bool(settings.data):
        subject = "Both --data and" if are_pairs else "Neither --data nor"
        raise ConfigError(
            f"{subject} --minimal-pairs is given. Give --data FILE to score a fine-tuned model, or "
            "--minimal-pairs FILE to score a pre-trained one."
        )
    flag = "--data"
    names = ["scores"]
    if are_pairs:
        flag = "--minimal-pairs"
        names = list(LABEL_FLAGS)
    unfit = used_flags(settings, names)
    if are_pairs and getattr(settings.columns, "label_column", None):
        unfit.append("label_column")
    if unfit:
        flags = format_flags(unfit)
        verb = "have" if len(unfit) > 1 else "has"
        raise ConfigError(f"{flags} {verb} no effect with {flag}. Leave out {flags}.")
    if settings.scores and settings.scores.suffix != ".jsonl":
        raise ConfigError(f"--scores: the name must end in .jsonl, and is '{settings.scores}'.")
