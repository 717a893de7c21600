"""Settings of the loss of tasks that choose among labels; their docstrings are help texts.

`Advanced` marks a setting that only --help-all shows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from bertsmith.config import OTHER_FORMS
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.system.compute import Advanced
from bertsmith.tasks.settings.finetune import FinetuneSettings

BALANCED = "balanced"
"""Value of `class_weights` by which each label has the same total weight."""


def allowed_weights(label: str = "spam") -> str:
    """Describe for messages the class weights that are allowed, with `label` as an example."""
    return (
        f"{option('class_weights', BALANCED)}, or a weight for each label, such as "
        f"{option('class_weights', {label: 3})}"
    )


def weight_words(value: object) -> list[object]:
    """Convert class weights from a call of Python or a recipe to the words of a command line.

    >>> weight_words({"spam": 3, "ham": 0.5}), weight_words("balanced"), weight_words(None)
    (['spam=3', 'ham=0.5'], ['balanced'], [])

    Raises:
        SettingError: the value is neither a string, a list of strings nor a table of weights.
    """
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [f"{label}={weight}" for label, weight in value.items()]
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return list(value)
    raise SettingError("class_weights", value, allowed_weights())


@dataclass(frozen=True)
class LossSettings(FinetuneSettings):
    """Settings of a task that chooses among labels."""

    # The entry OTHER_FORMS is the function that converts a value of a Python call or a recipe.
    class_weights: Advanced[tuple[str, ...]] = field(
        default=(), metadata={OTHER_FORMS: weight_words}
    )
    """Class weights in the loss: balanced, so that each label has the same total weight, however
    rare it is; or label=weight pairs such as spam=3 ham=1. Labels that are not named have 1."""
    label_smoothing: Advanced[float] = 0.0
    """Label smoothing: the share of the target probability that is spread over all labels, so that
    the model is less sure where labels may be wrong."""
    focal_gamma: Advanced[float] = 0.0
    """Gamma of the focal loss: above 0, examples that the model is sure of count less; 2 is usual,
    0 is off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.label_smoothing < 1:
            raise SettingError("label_smoothing", self.label_smoothing, "0 or more, below 1")
        if not 0 <= self.focal_gamma < math.inf:
            raise SettingError("focal_gamma", self.focal_gamma, "0 or more")
        if self.label_smoothing and self.focal_gamma:
            raise ConfigError(
                f"{option('label_smoothing')} and {option('focal_gamma')} exclude each other. Give "
                "one of them."
            )
