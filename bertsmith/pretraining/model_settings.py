"""Settings of a pre-training run's model, and the config that they define.

Fields that are None get the values of a new model, or those of the model that a run starts from.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from bertsmith.config import ADDED_NAMES
from bertsmith.errors import ConfigError, option
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced

FamilyName = Literal["bert", "roberta", "albert", "distilbert", "electra", "modernbert"]
SharedWeights = Literal["all", "attention", "feed_forward", "none"]


def added_families() -> list[str]:
    """Return the names of the families that modules of the user have added to `FAMILIES`."""
    # The module of the families imports torch, so it is not imported here. If nobody has imported
    # it, nobody has added a family to it.
    families = sys.modules.get("bertsmith.model.families")
    names = () if families is None else families.FAMILIES
    return [name for name in names if name not in get_args(FamilyName)]


@dataclass(frozen=True)
class ModelSettings:
    """Settings of the model. With --from, the defaults are those of that model."""

    preset: Literal["tiny", "mini", "small", "medium", "base", "large", "auto"] | None = None
    """Model size, as in BERT's release. tiny trains in minutes on a laptop, large needs a large
    GPU; auto times some steps and takes the size that will be best after --minutes on this machine.
    By default mini, or the shape of --from."""
    family: FamilyName | None = field(default=None, metadata={ADDED_NAMES: added_families})
    """Model family: bert; roberta, without segments; distilbert, without segments and with half of
    a size's layers; albert, whose layers share weights; electra, whose embeddings have a width
    of their own; or modernbert, deeper and narrower, with rotary positions. By default bert, or
    that of --from."""
    max_position_embeddings: Advanced[int | None] = None
    """Number of position embeddings: the longest input in tokens that the model can ever read. By
    default 512, or that of --from; other numbers repeat or cut the positions of --from."""
    shared: Advanced[SharedWeights | None] = None
    """Weights that the layers of albert share; by default all."""
    hidden_dropout_prob: Advanced[float | None] = None
    """Dropout of hidden states: the fraction of each layer's outputs that is zeroed at random in
    training. By default 0.1 (modernbert: 0), or that of --from."""
    attention_probs_dropout_prob: Advanced[float | None] = None
    """Dropout of attention weights. By default 0.1 (modernbert: 0), or that of --from."""
    initializer_range: Advanced[float | None] = None
    """Standard deviation of the initial weights. With 0.05 a tiny model learns much sooner to use
    the context, instead of token frequencies alone. By default 0.02."""
    position_initializer: Advanced[Literal["normal", "sinusoidal"] | None] = None
    """Initialization of position embeddings: normal, random as all weights; or sinusoidal, sines
    and cosines, with which small models depend less on the seed. They are trained in both cases.
    By default normal; modernbert has none."""
    word_initializer: Advanced[Literal["normal", "counted"] | None] = None
    """Initialization of word embeddings: normal, random as all weights; or counted, vectors that
    are similar for tokens that occur near each other in the corpus, with the logarithms of token
    frequencies as biases of the masked-LM head. They are trained in both cases. By default normal.
    """
    pooling: Advanced[Literal["first_token", "mean"] | None] = None
    """Pooling of token vectors to one vector per text: first_token, the vector of [CLS]; or mean,
    the mean over all tokens. By default first_token."""

    def __post_init__(self) -> None:
        check_upper_limits(self, "model.")
        if self.shared is not None and self.family != "albert":
            raise ConfigError(
                f"{option('model.shared')}: found {self.shared!r} for the family "
                f"{self.family or 'bert'}. Only albert's layers share weights, and only a new "
                f"model decides how: leave it out, or give {option('family', 'albert')} without "
                f"{option('from')}."
            )

    @property
    def given(self) -> dict[str, Any]:
        """The fields that the user has set: those that are not None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


NEW_MODEL: Mapping[str, Any] = {
    "family": "bert",
    "preset": "mini",
    "max_position_embeddings": 512,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "position_initializer": "normal",
    "word_initializer": "normal",
    "pooling": "first_token",
}
"""Default values of a new model."""

SHAPE_SETTINGS = (
    "family",
    "preset",
    "shared",
    "initializer_range",
    "position_initializer",
    "word_initializer",
    "pooling",
)
"""Fields for new models only; in a model that is trained already, they are decided."""
