"""An ELMo as a classifier, which reads the learned mix of its layers.

The two language models are in elmo.py. A classifier has their LSTMs, and in place of the CNN a
table of the vectors that the CNN gives to each piece of the vocabulary. As long as the table is
frozen, the results are the same; otherwise fine-tuning changes the table instead of the CNN. The
vector of a text is the maximum of each dimension over its tokens. Source: Peters et al. 2018,
section 3.3. `model/family.py` describes the fields of `Family` in full; a comment at each table
says in short what it maps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bertsmith.data.batches import Batch, Queries
from bertsmith.errors import ConfigError
from bertsmith.lineage.elmo import LayerMix, build_lstm
from bertsmith.lineage.elmo_folder import load_elmo
from bertsmith.lineage.recurrent import TimeOrder
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
from bertsmith.model.weights import read_weights
from bertsmith.system.small_files import SmallFiles


@dataclass(unsafe_hash=True)  # hash by value; fields are set only once
class ElmoClassifierConfig(BertConfig):
    """The config of an ELMo as a classifier.

    `RECURRENT_KEYS` has the fields' names in config.json, where they differ. `hidden_size` is the
    width of one direction. A token's vector has twice as many numbers.
    """

    # An ELMo has no attention and no position vectors; fields of `BertConfig` for these get a value
    # that means none, or no limit.
    num_attention_heads: int = 1
    intermediate_size: int = 0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 1_048_576
    type_vocab_size: int = 0
    pad_token_id: Any = None
    pooling: Any = "max"
    cell_size: int = 0
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    model_type: ClassVar[str] = "elmo"
    # The fields that must be 1 or more.
    sizes: ClassVar[tuple[str, ...]] = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "cell_size",
    )
    has_pooler: ClassVar[bool] = False
    has_position_embedding: ClassVar[bool] = False
    poolings: ClassVar[tuple[str, ...]] = ("max",)
    is_recurrent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cell_size < self.hidden_size:
            raise ConfigError(
                f"cell_size is {self.cell_size}. It must be at least hidden_size, "
                f"{self.hidden_size}."
            )


class PieceVectors(Embeddings):
    """The CNN's vector of each piece, without position, segment and LayerNorm."""

    def __init__(self, config: ElmoClassifierConfig) -> None:
        super().__init__(config)
        self.norm = nn.Identity()  # type: ignore[assignment]

    def forward(self, batch: Batch, words: Tensor | None = None) -> Tensor:
        """Return `[tokens, hidden]`; `words`, of that shape, replace the vectors of the ids."""
        return self.word(batch.input_ids) if words is None else words


class ElmoLayer(nn.Module):
    """One LSTM for each direction; their vectors are appended to the vectors of lower layers."""

    def __init__(self, config: ElmoClassifierConfig, number: int) -> None:
        super().__init__()
        self.is_first = number == 0
        self.dropout_prob = config.hidden_dropout_prob
        self.size = config.hidden_size
        self.left_to_right = build_lstm(self.size, config.cell_size)
        self.right_to_left = build_lstm(self.size, config.cell_size)

    def forward(
        self,
        hidden: Tensor,
        layout: RowLayout,
        record_weights: RecordWeights | None = None,
        picked: PickedTokens | None = None,
    ) -> Tensor:
        """Return the vectors of all layers up to this one, `[tokens, (number + 2) x 2 x size]`.

        `hidden` has the vectors of all layers below, or in the first layer the vectors of the
        pieces; it may end in padding rows. `layout` has the lengths of the sequences. With
        `picked`, only the vectors of these tokens are returned. There are no attention weights to
        record.
        """
        lengths = layout.row.lengths
        hidden = hidden[: sum(lengths)]
        if self.is_first:
            hidden = torch.cat([hidden, hidden], -1)
        # The vectors of the layer below are the last ones: forward, then backward.
        forward_input, backward_input = torch.split(hidden[:, -2 * self.size :], self.size, -1)
        forward_order = TimeOrder(lengths, hidden.device)
        backward_order = TimeOrder(lengths, hidden.device, is_backward=True)
        forward = self._read(self.left_to_right, forward_input, forward_order)
        backward = self._read(self.right_to_left, backward_input, backward_order)
        output = torch.cat([hidden, forward, backward], -1)
        return output if picked is None else output.index_select(0, picked.index)

    def _read(self, lstm: nn.LSTM, vectors: Tensor, order: TimeOrder) -> Tensor:
        """Compute an LSTM; from the second layer on, its input is added to its output."""
        dropped = dropout(vectors, self.dropout_prob, self.training)
        output = order.read(lstm, dropped)
        return output if self.is_first else output + dropped


class MixPooling(Pooling):
    """The mix of all layers, and its maximum over the tokens of each sequence."""

    def __init__(self, config: ElmoClassifierConfig) -> None:
        super().__init__(config)
        self.mix = LayerMix(config.num_layers + 1)
        self.width = 2 * config.hidden_size

    @property
    def queries(self) -> Queries:
        """The tokens whose vectors the last layer must compute: all of them."""
        return "all"

    def read(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Return the vector of each sequence, `[sequences, 2 x size]`."""
        mixed = self.mix(torch.split(hidden, self.width, -1))
        return torch.stack([tokens.amax(0) for tokens in torch.split(mixed, list(batch.lengths))])


class MixHead(ClassificationHead):
    """Dropout and a linear layer over the vector of a text, which is as wide as both directions."""

    def __init__(self, config: ElmoClassifierConfig, num_labels: int) -> None:
        super().__init__(config, num_labels)
        self.dense = nn.Linear(2 * config.hidden_size, num_labels)


def read_mix(directory: Path) -> LayerMix:
    """Read the mix of layers that the classifier in a folder has learned.

    Raises:
        CheckpointError: the folder is damaged.
    """
    tensors = read_weights(directory)
    mix = LayerMix(len(tensors["mix.weights"]))
    mix.load_state_dict({name: tensors[f"mix.{name}"].float() for name in ("weights", "scale")})
    return mix


def _from_language_models(files: SmallFiles, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Put the CNN's vectors of all pieces in place of the CNN, if the folder has one."""
    if not any(name.startswith("cnn.") for name in tensors):
        return tensors
    vectors = load_elmo(files.directory).compute_piece_vectors()
    others = {name: tensor for name, tensor in tensors.items() if not name.startswith("cnn.")}
    return {"word.weight": vectors, **others}


def _initialize(module: nn.Module, config: ElmoClassifierConfig) -> None:
    """Draw embeddings and the head, and weight layers alike; LSTMs keep what torch has drawn."""
    initialize(module, config)
    if isinstance(module, LayerMix):
        nn.init.zeros_(module.weights)
        nn.init.ones_(module.scale)


FAMILY = Family(
    config=ElmoClassifierConfig,
    heads=dict.fromkeys(CLASS_HEADS, MixHead),  # name of a head → the class that builds it
    names={  # our name of a module → its names in a folder
        "embeddings.word": ("word",),
        "layers.{i}.left_to_right": ("left_to_right.layers.{i}",),
        "layers.{i}.right_to_left": ("right_to_left.layers.{i}",),
        "pooler.mix": ("mix",),
        **TASK_HEAD_NAMES,
    },
    architectures=own_architectures("Elmo"),  # heads of a model → its class
    tied={},  # stored tensor → the one that it equals
    # field → value if config.json omits it: 0, which the config refuses
    absent={"vocab_size": 0, "hidden_size": 0, "num_hidden_layers": 0},
    keys=RECURRENT_KEYS,  # field → its key in config.json
    build_embeddings=PieceVectors,
    build_layers=lambda config: [ElmoLayer(config, i) for i in range(config.num_layers)],
    build_pooler=MixPooling,
    initialize=_initialize,
    convert=_from_language_models,  # is applied to a folder's weights before names are mapped
)
