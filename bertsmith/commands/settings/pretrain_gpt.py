"""Options of `bertsmith pretrain gpt`: each field is one, and its docstring is the help."""

from dataclasses import dataclass, field
from functools import partial

from bertsmith.commands.flags import parse_settings
from bertsmith.commands.settings.pretrain_system import PretrainSystem
from bertsmith.lineage.settings import GptSettings


@dataclass(frozen=True)
class Settings(PretrainSystem):
    """Train a GPT on your texts.

    The model reads a text from left to right and learns to predict each token from those before it
    (causal language modelling). It learns from the same corpus as a BERT of `bertsmith pretrain`,
    with the same loop. The result is a Hugging Face folder of GPT-2's form for `bertsmith
    generate`.
    """

    model: GptSettings = field(default_factory=GptSettings)


parse = partial(parse_settings, Settings)
