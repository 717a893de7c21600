"""Options of `bertsmith pretrain t5`: each field is one, and its docstring is the help."""

from dataclasses import dataclass, field
from functools import partial

from bertsmith.commands.flags import parse_settings
from bertsmith.commands.settings.pretrain_system import PretrainSystem
from bertsmith.lineage.settings import T5Settings


@dataclass(frozen=True)
class Settings(PretrainSystem):
    """Train a T5 on your texts.

    The model reads a text in which some spans of tokens are missing, each replaced by a sentinel,
    and learns to write what is missing (span corruption). It learns from the same corpus as a BERT
    of `bertsmith pretrain`, with the same loop. The result is a Hugging Face folder of T5's form,
    which `bertsmith finetune translate` teaches to write one text from another.
    """

    model: T5Settings = field(default_factory=T5Settings)


parse = partial(parse_settings, Settings)
