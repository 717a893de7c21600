"""The checks of the flags of `bertsmith evaluate`, for every kind of model."""

from collections.abc import Iterable

from bertsmith.commands.settings.evaluate import Settings
from bertsmith.errors import ConfigError, option

FLAGS_OF_LABELLED_DATA: tuple[str, ...] = (
    "long_texts",
    "stride",
    "label_separator",
    "errors",
    "page",
)
"""Flags that have an effect only with --data, on labelled examples."""
FLAGS_OF_MINIMAL_PAIRS: tuple[str, ...] = ("scores",)
"""Flags that have an effect only with --minimal-pairs."""


def used_flags(settings: Settings, names: Iterable[str]) -> list[str]:
    """Return the names of the settings that are not None."""
    return [name for name in names if getattr(settings, name) is not None]


def list_options(names: Iterable[str]) -> str:
    """Name settings in a message.

    >>> from bertsmith.errors import as_flags
    >>> as_flags(list_options(["long_texts", "page"]))
    '--long-texts, --page'
    """
    return ", ".join(map(option, names))


def check_flags(settings: Settings) -> None:
    """Check that either --data or --minimal-pairs is given, and that the other flags apply to it.

    Raises:
        ConfigError: both or neither is given, or another flag has no effect.
    """
    are_pairs = settings.minimal_pairs is not None
    if are_pairs == (settings.data is not None):
        first, conjunction = ("Both", "and") if are_pairs else ("Neither", "nor")
        raise ConfigError(
            f"{first} {option('data')} {conjunction} {option('minimal_pairs')} is given. Give "
            f"{option('data', placeholder='FILE')} to score a fine-tuned model, or "
            f"{option('minimal_pairs', placeholder='FILE')} to score a pre-trained one."
        )
    if are_pairs:
        kind, other_flags = "minimal_pairs", FLAGS_OF_LABELLED_DATA
    else:
        kind, other_flags = "data", FLAGS_OF_MINIMAL_PAIRS
    unfit = used_flags(settings, other_flags)
    # The type of `columns` depends on the model's task; only some types have a label column.
    if are_pairs and getattr(settings.columns, "label_column", None):
        unfit.append("label_column")
    if unfit:
        unfit_options = list_options(unfit)
        verb = "have" if len(unfit) > 1 else "has"
        raise ConfigError(
            f"{unfit_options} {verb} no effect with {option(kind)}. Leave out {unfit_options}."
        )
    if settings.scores and settings.scores.suffix != ".jsonl":
        raise ConfigError(
            f"{option('scores')}: the name must end in .jsonl, and is '{settings.scores}'."
        )
