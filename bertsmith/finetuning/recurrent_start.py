"""The start of an LSTM or GRU classifier: a new model, or the pooling of one from a folder.

The pooling is the way to one vector for a text: the maximum over its tokens, or the last state.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from bertsmith.data.corpus import TOKENIZER_DIR
from bertsmith.data.manifest import MANIFEST_NAME
from bertsmith.errors import ConfigError, option
from bertsmith.lineage.recurrent_classifier import RecurrentClassifierConfig
from bertsmith.model.bert import BertModel
from bertsmith.model.config import PRESETS
from bertsmith.model.families import build_heads
from bertsmith.model.model_folder import ModelFolder
from bertsmith.system.torch_modes import drawing_from
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.settings.finetune import FinetuneSettings
from bertsmith.tasks.task import Task, named_settings
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer

DEFAULT_PRESET = "tiny"
"""Size of a new LSTM or GRU by default: that of BERT-tiny."""
DEFAULT_POOLING = "max"
"""Vector of a text by default: the maximum of each number over the tokens."""


def load_vocabulary(path: Path) -> Tokenizer:
    """Load the tokenizer of a corpus, or of another folder that holds one.

    Raises:
        CheckpointError: there is no tokenizer, or it is damaged.
    """
    return load_tokenizer(path / TOKENIZER_DIR if (path / MANIFEST_NAME).is_file() else path)


def build_new(settings: ClassifySettings, task: Task[Any, Any], tokenizer: Tokenizer) -> BertModel:
    """Build an LSTM or GRU classifier with random weights, fp32, on the CPU.

    It reads each text in both directions.
    """
    assert settings.cell is not None
    size = PRESETS[settings.preset or DEFAULT_PRESET]
    config = RecurrentClassifierConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=size["hidden_size"],
        num_hidden_layers=size["num_hidden_layers"],
        cell=settings.cell,
        bidirectional=True,
        pooling=settings.pooling or DEFAULT_POOLING,
        pad_token_id=tokenizer.pad_id,
        bos_token_id=tokenizer.cls_id,
        eos_token_id=tokenizer.sep_id,
    )
    assert task.head is not None
    with drawing_from(settings.seed):
        heads = build_heads(config, [task.head], len(task.labels))
        model = BertModel(config, heads)
    model.id2label = dict(enumerate(task.labels))
    model.task_settings = named_settings(task)
    return model


def set_pooling(folder: ModelFolder, settings: FinetuneSettings) -> None:
    """Set the pooling of the folder's model to that of the settings, if they have one.

    Raises:
        ConfigError: the model is neither an LSTM nor a GRU.
    """
    if not isinstance(settings, ClassifySettings) or settings.pooling is None:
        return
    config = folder.config
    if not isinstance(config, RecurrentClassifierConfig):
        raise ConfigError(
            f"{option('pooling')}: found {settings.pooling}, but {folder.path} is neither an LSTM "
            f"nor a GRU. Leave it out, or give {option('cell', 'lstm')} for a new one."
        )
    folder.config = replace(config, pooling=settings.pooling)
