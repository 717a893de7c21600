"""Options of `bertsmith pretrain elmo`: each field is one, and its docstring is the help."""

from dataclasses import dataclass, field
from functools import partial

from bertsmith.commands.flags import parse_settings
from bertsmith.commands.settings.pretrain_system import PretrainSystem
from bertsmith.lineage.settings import ElmoSettings


@dataclass(frozen=True)
class Settings(PretrainSystem):
    """Train an ELMo on your texts.

    The model reads each token by its characters. One language model reads a text from left to right
    and learns to predict the next token, another reads it from right to left and learns to predict
    the token before. It learns from the same corpus and with the same loop as a BERT of `bertsmith
    pretrain`, and its bits per byte can be compared with those of `bertsmith pretrain gpt`.
    """

    model: ElmoSettings = field(default_factory=ElmoSettings)


parse = partial(parse_settings, Settings)
