"""What kind of model is pre-trained, and of what size: settings enter, a model's config leaves.

Fields that are not given have the values of a new model, or those of the model that a run goes on
from.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from bertsmith.bounds import check_all_largest
from bertsmith.data.shards import Corpus
from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertConfig
from bertsmith.model.family import Family, family_named


@dataclass(frozen=True)
class ModelSettings:
    """Kind and size of the model. With --from, what is not given is as that model has it."""

    preset: Literal["tiny", "mini", "small", "medium", "base", "large", "auto"] | None = None
    """One of BERT's released sizes; tiny learns in minutes on a laptop, large wants a large GPU.
    auto: the one that will know most after --minutes on this machine, by timing some steps.
    None means mini, or the shape of --from."""
    family: Literal["bert", "roberta", "albert", "distilbert", "electra"] | None = None
    """Which relative of BERT: roberta and distilbert do not tell segments apart, distilbert has
    half of a size's layers, albert one layer's weights for all of them, electra embeddings of their
    own width. None means bert, or that of --from."""
    max_position_embeddings: int | None = None
    """The longest text, in tokens, that the model can ever read. None means 512, or what --from
    reads; that is lengthened by repeating its positions, or shortened."""
    shared: Literal["all", "attention", "feed_forward", "none"] | None = None
    """What albert's layers have in common; all where nothing is said."""
    hidden_dropout_prob: float | None = None
    """The share of each layer's outputs that is left out at random while it learns. None means 0.1,
    or as in --from."""
    attention_probs_dropout_prob: float | None = None
    """The same for attention weights."""
    initializer_range: float | None = None
    """The spread of the random weights that training begins with. A tiny model leaves the plateau,
    on which it only knows how frequent words are, much sooner with 0.05. None means 0.02."""
    position_initializer: Literal["normal", "sinusoidal"] | None = None
    """What the position embeddings begin with: random numbers as all weights do (normal), or sines
    and cosines (sinusoidal), with which it is less a matter of the seed when a small model leaves
    that plateau. They are trained in both cases. None means normal."""
    pooling: Literal["first_token", "mean"] | None = None
    """What stands for a whole text: the vector of [CLS] (that is meant by None), or the mean over
    all tokens."""

    def __post_init__(self) -> None:
        """Refuse what the family has not."""
        check_all_largest(self, "model.")
        if self.shared is not None and self.family != "albert":
            raise ConfigError(
                f"model.shared: found {self.shared!r} for the family {self.family or 'bert'}. Only "
                "albert's layers share weights: leave it out, or give --family albert."
            )

    @property
    def resolved(self) -> "ModelSettings":
        """With the values of a new model where none are given."""
        return ModelSettings(**{**NEW_MODEL, **self.given})

    @property
    def resolved_family(self) -> Family:
        """That of a new model."""
        return family_named(self.family or NEW_MODEL["family"])

    @property
    def given(self) -> dict[str, Any]:
        """What was said."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def as_in(self, config: BertConfig) -> "ModelSettings":
        """With the values of a trained model where none are given."""
        theirs = {name: getattr(config, name) for name in NEW_MODEL if name not in FIXED}
        theirs["max_position_embeddings"] = config.max_length
        return ModelSettings(**{**theirs, **self.given})

    def config(self, corpus: Corpus, preset: str | None = None) -> BertConfig:
        """The config of a new model for a corpus, of another `preset` if one is given."""
        changes, tokenizer = self.resolved.given, corpus.tokenizer()
        family = family_named(changes.pop("family")).config
        del changes["position_initializer"]  # of the first weights, not of the shape
        size, length = changes.pop("preset"), changes.pop("max_position_embeddings")
        changes |= family.token_ids(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
        config = family.from_preset(preset or size, corpus.vocab_size, **changes)
        return replace(config, max_position_embeddings=length + config.first_position)


NEW_MODEL: Mapping[str, Any] = {
    "family": "bert",
    "preset": "mini",
    "max_position_embeddings": 512,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "position_initializer": "normal",
    "pooling": "first_token",
}
"""What a new model has where nothing else is asked for."""

FIXED = ("family", "preset", "shared", "initializer_range", "position_initializer", "pooling")
"""What a trained model has already."""
