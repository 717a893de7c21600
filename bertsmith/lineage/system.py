"""A system beside BERT that learns from a corpus: everything that its training run needs of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.lineage.causal_lm import CausalLanguageModelling
from bertsmith.lineage.corpus_objective import CorpusObjective
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import load_gpt, save_gpt
from bertsmith.lineage.settings import GptSettings
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.trainable import TrainableModel
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class System:
    """A kind of model with its objective and its folder.

    A model's `config` is a dataclass that `build` takes.
    """

    name: str
    new_config: Callable[[Any, Tokenizer], Any]
    """Builds the config of a new model from its settings and the tokenizer of its corpus."""
    build: Callable[[Any], TrainableModel]
    load: Callable[[Path], TrainableModel]
    """Loads a checkpoint."""
    save: Callable[[Any, Path, Tokenizer], None]
    objective: type[CorpusObjective[Any, Any]]

    @property
    def command(self) -> str:
        """The command that trains it."""
        return f"pretrain {self.name}"


def new_gpt_config(settings: GptSettings, tokenizer: Tokenizer) -> GptConfig:
    """Build the config of a new GPT of as many layers and as wide as a BERT of its size."""
    size = PRESETS[settings.preset]
    width = size["hidden_size"]
    return GptConfig(
        vocab_size=tokenizer.vocab_size,
        n_embd=width,
        n_layer=size["num_hidden_layers"],
        n_head=BertConfig.proportions(width)["num_attention_heads"],
        bos_token_id=tokenizer.cls_id,
        eos_token_id=tokenizer.sep_id,
        pad_token_id=tokenizer.pad_id,
        **settings.shape(),
    )


SYSTEMS = {
    system.name: system
    for system in (System("gpt", new_gpt_config, Gpt, load_gpt, save_gpt, CausalLanguageModelling),)
}
"""The systems by the last word of their command."""
