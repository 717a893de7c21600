"""Options of `bertsmith params`: each field is one, and its docstring is the help."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import tyro

from bertsmith.commands.flags import parse_settings
from bertsmith.config import ADDED_NAMES
from bertsmith.pretraining.model_settings import FamilyName, SharedWeights, added_families


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model, with the names of its config's fields."""

    num_hidden_layers: Annotated[int | None, tyro.conf.arg(name="layers")] = None
    """Number of layers. With --layers and --hidden together, no preset needs to be named."""
    hidden_size: Annotated[int | None, tyro.conf.arg(name="hidden")] = None
    """Hidden size: the width of the vectors."""
    num_attention_heads: Annotated[int | None, tyro.conf.arg(name="heads")] = None
    """Attention heads in a layer. Default: one per 64 dimensions of the hidden size, at least 1."""
    intermediate_size: Annotated[int | None, tyro.conf.arg(name="intermediate")] = None
    """Intermediate size: the width inside the feed-forward layers. Default: 4 times the hidden
    size; for modernbert 1.5 times, and 2,624 for its preset large."""
    vocab_size: int | None = None
    """Vocabulary size in tokens. Default: 30,522, that of the released English BERT, in all
    families."""
    max_position_embeddings: int | None = None
    """Longest text in tokens, for each of which the model has a position embedding (modernbert has
    none). Default: 512."""
    type_vocab_size: Annotated[int | None, tyro.conf.arg(name="type-vocab")] = None
    """Number of segment types. Default: 2 for bert, albert and electra; 1 for roberta; none for
    distilbert and modernbert."""
    embedding_size: Annotated[int | None, tyro.conf.arg(name="embedding")] = None
    """Embedding size of albert and electra. Default: 128; for the preset tiny of albert 64,
    for base and large of electra the hidden size."""
    family: FamilyName | None = field(default=None, metadata={ADDED_NAMES: added_families})
    """Model family, of a preset or of the given sizes. A preset of distilbert has half as many
    layers as that of bert, one of modernbert has more. Default: bert."""
    shared: SharedWeights | None = None
    """Parameter sharing: the weights that the layers of albert share. Default: all."""


@dataclass(frozen=True)
class Settings:
    """Count the parameters of a model exactly, and compare the count with the usual formula.

    The formula is V·H + 512·H + 2·H + 12·L·H², for a vocabulary of V tokens and L layers of width
    H; what it leaves out or counts too much is listed. Nothing is trained. The weights of a preset
    are counted without being allocated, so even large takes no memory. The output heads are
    counted too: for a folder those that it holds, else those that pre-training would add.
    """

    model: tyro.conf.Positional[str | None] = None
    """A preset (tiny, mini, small, medium, base, large) or the folder of a model."""
    sizes: Sizes = field(default_factory=Sizes)
    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
