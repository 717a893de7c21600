"""Options of `bertsmith vectors`: each field is one, and its docstring is the help."""

from dataclasses import dataclass
from functools import partial

from bertsmith.commands.flags import parse_settings
from bertsmith.pretraining.vector_settings import VectorSettings


@dataclass(frozen=True)
class Settings(VectorSettings):
    """Count a vector for each token of a corpus, in seconds, without pre-training.

    Tokens with similar neighbours get similar vectors, and the vector of a text is the mean over
    its tokens. `finetune`, `predict`, `evaluate`, `embed` and `serve` take the folder as they take
    a BERT. The vectors ignore the order of words. model2vec and sentence-transformers open the
    folder, too.
    """

    json: bool = False
    """Print one JSON object instead of text."""


parse = partial(parse_settings, Settings)
