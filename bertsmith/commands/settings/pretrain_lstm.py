"""Options of `bertsmith pretrain lstm`: each field is one, and its docstring is the help."""

from dataclasses import dataclass, field
from functools import partial

from bertsmith.commands.flags import parse_settings
from bertsmith.commands.settings.pretrain_system import PretrainSystem
from bertsmith.lineage.settings import RecurrentSettings


@dataclass(frozen=True)
class Settings(PretrainSystem):
    """Train an LSTM on your texts.

    The model reads one token after another, keeps a state of fixed size, and learns to predict the
    next token from it. It learns from the same corpus and with the same loop as a BERT of
    `bertsmith pretrain`, and its bits per byte can be compared with those of `bertsmith
    pretrain gpt`. The result is a folder for `bertsmith generate`.
    """

    model: RecurrentSettings = field(default_factory=RecurrentSettings)


parse = partial(parse_settings, Settings)
