"""The list of the systems (models beside BERT) that are pre-trained on a corpus.

It has the functions and classes that a training run needs of each: GPT, LSTM, ELMo and T5. This
file also builds the config of a new model from settings and the tokenizer of the corpus.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from bertsmith.errors import SettingError
from bertsmith.lineage.bidirectional_lm import BidirectionalLanguageModelling
from bertsmith.lineage.causal_lm import CausalLanguageModelling
from bertsmith.lineage.corpus_objective import CorpusObjective
from bertsmith.lineage.elmo import PAPER_FILTERS, PAPER_WIDTH, Elmo, ElmoConfig
from bertsmith.lineage.elmo_folder import load_elmo, save_elmo
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import load_gpt, save_gpt
from bertsmith.lineage.recurrent import RecurrentConfig, RecurrentLanguageModel
from bertsmith.lineage.recurrent_folder import load_recurrent, save_recurrent
from bertsmith.lineage.settings import (
    ElmoSettings,
    GptSettings,
    RecurrentSettings,
    SystemSettings,
    T5Settings,
)
from bertsmith.lineage.span_corruption import NUM_SENTINELS, SpanCorruption
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.lineage.t5_folder import load_t5, save_t5
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.trainable import TrainableModel
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.settings import Optimizer


@dataclass(frozen=True)
class System:
    """A kind of model, with the functions and classes that its training run needs."""

    name: str
    """The last word of its command."""
    settings: type[SystemSettings]
    new_config: Callable[[Any, Tokenizer], Any]
    """Builds the config of a new model from its settings and the tokenizer of its corpus."""
    build: Callable[[Any], TrainableModel]
    """Builds a new model from its config."""
    load: Callable[[Path], TrainableModel]
    """Loads a checkpoint."""
    save: Callable[[Any, Path, Tokenizer], None]
    objective: type[CorpusObjective[Any, Any]]
    """Class of the objective: it makes the batches and computes the losses."""
    set_tokenizer: Callable[[Any, Tokenizer], None] = lambda model, tokenizer: None
    """Gives a new model what it needs of the tokenizer, such as the characters of the tokens; a
    model from `load` has it already."""
    optimizers: tuple[Optimizer, ...] = get_args(Optimizer)
    """Optimizers that can train it. Muon updates no matrices of recurrent layers, as torch stacks
    those of their gates."""

    @property
    def command(self) -> str:
        """The command that trains the model."""
        return f"pretrain {self.name}"


def new_gpt_config(settings: GptSettings, tokenizer: Tokenizer) -> GptConfig:
    """Build the config of a new GPT with the layers and the width of a BERT of its size."""
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
        **settings.config_fields(),
    )


def new_recurrent_config(settings: RecurrentSettings, tokenizer: Tokenizer) -> RecurrentConfig:
    """Build the config of a new LSTM or GRU with the layers and the width of a BERT of its size."""
    size = PRESETS[settings.preset]
    return RecurrentConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=size["hidden_size"],
        num_layers=size["num_hidden_layers"],
        cell=settings.cell,
        dropout=settings.dropout,
        bos_token_id=tokenizer.cls_id,
        eos_token_id=tokenizer.sep_id,
        pad_token_id=tokenizer.pad_id,
    )


def new_elmo_config(settings: ElmoSettings, tokenizer: Tokenizer) -> ElmoConfig:
    """Build the config of a new ELMo, with the layers and width of a BERT of its size.

    The numbers of filters are in the paper's proportion to the width.

    Raises:
        SettingError: `cell_size` is below the width.
    """
    size = PRESETS[settings.preset]
    width = size["hidden_size"]
    cell_size = width if settings.cell_size is None else settings.cell_size
    if cell_size < width:
        raise SettingError("model.cell_size", cell_size, f"at least the width, {width}")
    filters = tuple(
        (characters, max(1, count * width // PAPER_WIDTH)) for characters, count in PAPER_FILTERS
    )
    return ElmoConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=width,
        num_layers=size["num_hidden_layers"],
        cell_size=cell_size,
        filters=filters,
        dropout=settings.dropout,
        bos_token_id=tokenizer.cls_id,
        eos_token_id=tokenizer.sep_id,
        pad_token_id=tokenizer.pad_id,
    )


def new_t5_config(settings: T5Settings, tokenizer: Tokenizer) -> T5Config:
    """Build the config of a new T5, each stack as deep and wide as a BERT of its size.

    Its sentinels, the tokens that stand for gaps, have the ids after the tokenizer's.
    """
    size = PRESETS[settings.preset]
    width, layers = size["hidden_size"], size["num_hidden_layers"]
    heads = BertConfig.proportions(width)["num_attention_heads"]
    # Version 1.0 of T5 ties the output layer to the embedding and scales its input; 1.1 does not.
    is_first_version = settings.feed_forward_proj == "relu"
    return T5Config(
        vocab_size=tokenizer.vocab_size + NUM_SENTINELS,
        d_model=width,
        d_kv=width // heads,
        d_ff=4 * width,
        num_layers=layers,
        num_decoder_layers=layers,
        num_heads=heads,
        dropout_rate=settings.dropout,
        feed_forward_proj=settings.feed_forward_proj,
        pad_token_id=tokenizer.pad_id,
        eos_token_id=tokenizer.sep_id,
        decoder_start_token_id=tokenizer.pad_id,
        tie_word_embeddings=is_first_version,
        scale_decoder_outputs=is_first_version,
    )


SYSTEMS = {
    "gpt": System(
        name="gpt",
        settings=GptSettings,
        new_config=new_gpt_config,
        build=Gpt,
        load=load_gpt,
        save=save_gpt,
        objective=CausalLanguageModelling,
    ),
    "lstm": System(
        name="lstm",
        settings=RecurrentSettings,
        new_config=new_recurrent_config,
        build=RecurrentLanguageModel,
        load=load_recurrent,
        save=save_recurrent,
        objective=CausalLanguageModelling,
        optimizers=("adamw",),
    ),
    "elmo": System(
        name="elmo",
        settings=ElmoSettings,
        new_config=new_elmo_config,
        build=Elmo,
        load=load_elmo,
        save=save_elmo,
        objective=BidirectionalLanguageModelling,
        set_tokenizer=Elmo.set_characters,
        optimizers=("adamw",),
    ),
    "t5": System(
        name="t5",
        settings=T5Settings,
        new_config=new_t5_config,
        build=T5,
        load=load_t5,
        save=save_t5,
        objective=SpanCorruption,
    ),
}
"""Maps the last word of each command, `bertsmith pretrain NAME`, to its system."""
