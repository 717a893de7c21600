"""An LSTM or GRU as a classifier, which reads a text in one direction or in both.

The language model, which continues texts, is in recurrent.py. A classifier of one direction has the
same weights and names, so it can start from a language model. transformers has no such model.
`model/family.py` describes the fields of `Family` in full; a comment at each table says in short
what it maps.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bertsmith.data.batches import Batch, Queries
from bertsmith.errors import ConfigError
from bertsmith.lineage.recurrent import CELLS, TimeOrder
from bertsmith.lineage.recurrent_entries import RECURRENT_KEYS, own_architectures
from bertsmith.model.attention import RecordWeights
from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import dropout
from bertsmith.model.families.bert import TASK_HEAD_NAMES
from bertsmith.model.family import Family, initialize
from bertsmith.model.head_names import CLASS_HEADS
from bertsmith.model.heads import ClassificationHead
from bertsmith.model.layers import Embeddings, Pooling
from bertsmith.model.packed_row import PickedTokens
from bertsmith.model.row_layout import RowLayout
from bertsmith.system.bounds import check_choice

POOLINGS = ("max", "last")
"""Ways to make one vector of a text (`RecurrentClassifierConfig.pooling`)."""


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class RecurrentClassifierConfig(BertConfig):
    """The config of a recurrent classifier.

    `RECURRENT_KEYS` has the fields' names in config.json, where they differ. `hidden_size` is the
    width of a token's vector; if there are two directions, each has half of it.
    """

    # Recurrent layers have no attention and no position vectors; fields of `BertConfig` for these
    # get a value that means none, or no limit.
    num_attention_heads: int = 1
    intermediate_size: int = 0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 1_048_576
    type_vocab_size: int = 0
    pad_token_id: Any = None
    pooling: Any = "max"
    """Vector of a text: the maximum of each dimension over the tokens, or the last state of each
    direction."""
    cell: str = "lstm"
    bidirectional: bool = False
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    model_type: ClassVar[str] = "recurrent"
    # The fields that must be 1 or more.
    sizes: ClassVar[tuple[str, ...]] = ("vocab_size", "hidden_size", "num_hidden_layers")
    has_pooler: ClassVar[bool] = False
    has_position_embedding: ClassVar[bool] = False
    poolings: ClassVar[tuple[str, ...]] = POOLINGS
    is_recurrent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("cell", self.cell, CELLS)
        if type(self.bidirectional) is not bool:
            raise ConfigError(f"bidirectional is {self.bidirectional!r}. It must be true or false.")
        if self.bidirectional and self.hidden_size % 2:
            raise ConfigError(
                f"hidden_size is {self.hidden_size} with two directions. Choose an even number."
            )


class RecurrentLayer(nn.Module):
    """A layer of torch's LSTM or GRU, or one from each side, and dropout."""

    def __init__(self, config: RecurrentClassifierConfig) -> None:
        super().__init__()
        size, cell = config.hidden_size, CELLS[config.cell]
        num_directions = 2 if config.bidirectional else 1
        self.cell = cell(size, size // num_directions)
        # A second module, since a bidirectional layer of torch would read the padding of a row
        # first.
        self.reverse = cell(size, size // num_directions) if config.bidirectional else None
        self.dropout_prob = config.hidden_dropout_prob

    def forward(
        self,
        hidden: Tensor,
        layout: RowLayout,
        record_weights: RecordWeights | None = None,
        picked: PickedTokens | None = None,
    ) -> Tensor:
        """Return new vectors `[tokens, hidden]`; with `picked`, of these tokens only.

        `hidden` may end in padding rows; `layout` has the lengths of the sequences. There are no
        attention weights to record.
        """
        lengths = layout.row.lengths
        vectors = hidden[: sum(lengths)]
        computed = TimeOrder(lengths, hidden.device).read(self.cell, vectors)
        if self.reverse is not None:
            order = TimeOrder(lengths, hidden.device, is_backward=True)
            computed = torch.cat([computed, order.read(self.reverse, vectors)], dim=-1)
        computed = dropout(computed, self.dropout_prob, self.training)
        return computed if picked is None else computed.index_select(0, picked.index)


class RecurrentPooling(Pooling):
    """One vector per sequence: the maximum over its tokens, or the last state of each direction."""

    def __init__(self, config: RecurrentClassifierConfig) -> None:
        super().__init__(config)
        self.bidirectional = config.bidirectional

    @property
    def queries(self) -> Queries:
        """The tokens whose vectors the last layer must compute."""
        return "last" if self.pooling == "last" and not self.bidirectional else "all"

    def read(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Return the vector of each sequence, `[sequences, hidden]`."""
        if self.pooling == "max":
            return torch.stack(
                [tokens.amax(0) for tokens in torch.split(hidden, list(batch.lengths))]
            )
        last = hidden.index_select(0, batch.last_tokens)
        if not self.bidirectional:
            return last
        half = hidden.shape[-1] // 2  # the second half is read backward, so it ends at token 0
        first = hidden.index_select(0, batch.first_tokens)
        return torch.cat([last[:, :half], first[:, half:]], dim=-1)


def _build_embeddings(config: RecurrentClassifierConfig) -> Embeddings:
    embeddings = Embeddings(config)
    embeddings.norm = nn.Identity()  # type: ignore[assignment]
    return embeddings


def _initialize(module: nn.Module, config: RecurrentClassifierConfig) -> None:
    """Draw embeddings and the head; the layers keep the weights that torch has drawn."""
    initialize(module, config)
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight)


FAMILY = Family(
    config=RecurrentClassifierConfig,
    # Name of a head → the class that builds it.
    heads=dict.fromkeys(CLASS_HEADS, ClassificationHead),
    names={  # our name of a module → its names in a folder
        "embeddings.word": ("word",),
        "layers.{i}.cell": ("layers.{i}",),
        "layers.{i}.reverse": ("layers.{i}.reverse",),
        **TASK_HEAD_NAMES,
    },
    architectures=own_architectures("Recurrent"),  # heads of a model → its class
    tied={},  # stored tensor → the one that it equals
    # field → value if config.json omits it: 0, which the config refuses
    absent={"vocab_size": 0, "hidden_size": 0, "num_hidden_layers": 0},
    keys=RECURRENT_KEYS,  # field → its key in config.json
    build_embeddings=_build_embeddings,
    build_layers=lambda config: [RecurrentLayer(config) for _ in range(config.num_layers)],
    build_pooler=RecurrentPooling,
    initialize=_initialize,
)
