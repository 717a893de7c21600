"""Settings of `bertsmith params`."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.pretraining.model_settings import FamilyName, SharedWeights


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model, with the names of its config's fields."""

    num_hidden_layers: Annotated[int | None, tyro.conf.arg(name="layers")] = None
    """Number of layers; with --hidden, no size needs to be named."""
    hidden_size: Annotated[int | None, tyro.conf.arg(name="hidden")] = None
    """Hidden size: the width of the vectors."""
    num_attention_heads: Annotated[int | None, tyro.conf.arg(name="heads")] = None
    """Attention heads in a layer. Default: one for every 64 of the hidden size."""
    intermediate_size: Annotated[int | None, tyro.conf.arg(name="intermediate")] = None
    """Intermediate size: the width inside the feed-forward layers. Default: 4 times the hidden
    size."""
    vocab_size: int | None = None
    """Vocabulary size in tokens. Default: 30,522, as in the released English models."""
    max_position_embeddings: Annotated[int | None, tyro.conf.arg(name="max-positions")] = None
    """Position embeddings: the longest text in tokens. Default: 512."""
    type_vocab_size: Annotated[int | None, tyro.conf.arg(name="type-vocab")] = None
    """Segment types. Default: that of the family, 2 for bert."""
    embedding_size: Annotated[int | None, tyro.conf.arg(name="embedding")] = None
    """Embedding size of albert and electra, if it differs from the hidden size."""
    family: FamilyName | None = None
    """Model family of a named size. distilbert has half of the size's layers. Default: bert."""
    shared: SharedWeights | None = None
    """Parameter sharing: the weights that albert's layers share. Default: all."""


@dataclass(frozen=True)
class Settings:
    """Count the parameters of a model exactly, and list those that the usual formula leaves out.

    Nothing is trained, and a named size takes no memory. For a folder, the heads are those in the
    folder; else those of pre-training.
    """

    model: tyro.conf.Positional[str | None] = None
    """A size (tiny, mini, small, medium, base, large) or the folder of a model."""
    sizes: Sizes = field(default_factory=Sizes)
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
