"""ELMo: two language models, one for each direction, that read words by their characters.

A CNN over characters with highway layers gives each word a vector (Kim et al. 2016). Some LSTMs
read these vectors from left to right and predict the next word; others read from right to left and
predict the word before. Both directions share the vectors and the softmax layer. A task reads a
learned mix of all layers (Peters et al. 2018, sections 3.1 and 3.2).

In place of words our ELMo reads pieces, the tokens of a subword vocabulary. So it predicts the same
tokens as the other models here. The CNN reads each different piece of a batch once. The
released code clips the cells' states and outputs; torch's LSTM cannot, so ours are not clipped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertsmith.data.batches import Batch, send
from bertsmith.errors import ConfigError
from bertsmith.lineage.config_checks import check_probabilities, check_upper_limit
from bertsmith.lineage.piece_characters import NUM_CHARACTERS, PADDING, piece_characters
from bertsmith.lineage.recurrent import TimeOrder
from bertsmith.model.dropout import dropout, set_dropout_sequences
from bertsmith.model.shape_buckets import fill_up
from bertsmith.model.trainable import ParameterSpec, TrainableModel
from bertsmith.tokenization.tokenizer import Tokenizer

PAPER_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
"""The filters of the paper's model: width in characters, and number of filters of this width."""
PAPER_WIDTH = 512
"""The width of the paper's vectors, of pieces and of each direction."""
CARRY_BIAS = -2.0
"""Initial bias of a highway layer's gate: at first most of the input passes unchanged."""
PROJECTION_GAIN = 4.0
"""Factor of the projection's initial weights. With it the vectors of pieces differ by about 1, as
embeddings of torch do. With smaller vectors, LSTMs predict nothing but token frequencies for
hundreds of steps."""
PIECES_AT_ONCE = 1024
"""Number of pieces of the vocabulary whose vectors are computed together, to bound memory."""
COLUMN_MULTIPLE = 8
"""The characters of a batch's pieces are padded to a multiple of this, so that few different shapes
occur."""


@dataclass(frozen=True)
class ElmoConfig:
    """The config of an ELMo.

    Raises:
        ConfigError: a value has the wrong type or is out of range.
    """

    vocab_size: int
    hidden_size: int = PAPER_WIDTH
    """Width of a piece's vector, and of the vectors of each direction."""
    num_layers: int = 2
    """Number of LSTMs in each direction."""
    cell_size: int = 4096
    """Number of units in an LSTM. If it exceeds `hidden_size`, outputs are projected to that."""
    filters: tuple[tuple[int, int], ...] = PAPER_FILTERS
    """Pairs of a width in characters and the number of filters of this width."""
    character_size: int = 16
    max_characters: int = 50
    """Maximum number of characters of a piece, with the marks of its beginning and end."""
    num_highways: int = 2
    dropout: float = 0.1
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "num_layers", "character_size", "num_highways"):
            _check_count(name, getattr(self, name))
        if not isinstance(self.filters, Sequence) or not self.filters:
            raise ConfigError(f"filters is {self.filters!r}. It must be a list of pairs.")
        for pair in self.filters:
            if not isinstance(pair, Sequence) or len(pair) != 2:
                raise ConfigError(
                    f"filters has {pair!r}. Each must be a pair: width in characters, and number."
                )
            for number in pair:
                _check_count("filters", number)
        # JSON has lists in place of tuples.
        object.__setattr__(self, "filters", tuple((width, count) for width, count in self.filters))
        widest = max(width for width, _ in self.filters)
        _check_count("max_characters", self.max_characters, minimum=max(3, widest))
        _check_count("cell_size", self.cell_size, minimum=self.hidden_size)
        check_probabilities(self, ("dropout",))
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name), minimum=0)


def _check_count(name: str, value: object, minimum: int = 1) -> None:
    if type(value) is not int or value < minimum:
        raise ConfigError(f"{name} is {value!r}. It must be a whole number, {minimum} or more.")
    if not name.endswith("_token_id"):
        check_upper_limit(name, value)


class Highway(nn.Module):
    """A layer whose gate lets a part of its input pass unchanged (Srivastava et al. 2015)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.gate = nn.Linear(size, size)
        for linear, bias in ((self.transform, 0.0), (self.gate, CARRY_BIAS)):
            nn.init.normal_(linear.weight, std=size**-0.5)
            nn.init.constant_(linear.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate(x).sigmoid()
        return gate * self.transform(x).relu() + (1 - gate) * x


class CharacterCnn(nn.Module):
    """The network that computes a vector for each piece from its characters."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        size = sum(count for _, count in config.filters)
        self.embedding = nn.Embedding(NUM_CHARACTERS, config.character_size)
        self.filters = nn.ModuleList(
            _build_filters(config.character_size, count, width) for width, count in config.filters
        )
        self.highways = nn.ModuleList(Highway(size) for _ in range(config.num_highways))
        self.projection = nn.Linear(size, config.hidden_size)
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        nn.init.normal_(self.projection.weight, std=PROJECTION_GAIN * size**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, characters: Tensor) -> Tensor:
        """Return vectors [pieces, hidden] of characters, int64 [pieces, characters]."""
        embedded = self.embedding(characters).mT
        # The gradient of `max` goes to one window alone, and so is faster than that of `amax`.
        maxima = [filters(embedded).max(-1).values for filters in self.filters]
        vectors = torch.cat(maxima, -1).relu()
        for highway in self.highways:
            vectors = highway(vectors)
        return self.projection(vectors)


def _build_filters(size: int, count: int, width: int) -> nn.Conv1d:
    filters = nn.Conv1d(size, count, width)
    nn.init.kaiming_normal_(filters.weight)
    assert filters.bias is not None
    nn.init.zeros_(filters.bias)
    return filters


def build_lstm(size: int, cells: int) -> nn.LSTM:
    """Build an LSTM of `cells` units, whose outputs are projected to `size` if there are more."""
    return nn.LSTM(size, cells, proj_size=size if cells > size else 0)


class OneWayLstm(nn.Module):
    """The LSTMs of one direction; from the second on, an LSTM's input is added to its output."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.dropout_prob = config.dropout
        self.layers = nn.ModuleList(
            build_lstm(config.hidden_size, config.cell_size) for _ in range(config.num_layers)
        )

    def forward(self, hidden: Tensor, order: TimeOrder) -> list[Tensor]:
        """Return each layer's vectors, [tokens, hidden].

        `order` sorts the tokens by time step, which the LSTMs read one after another.
        """
        outputs = []
        for number, layer in enumerate(self.layers):
            hidden = dropout(hidden, self.dropout_prob, self.training)
            output = order.read(layer, hidden)
            hidden = output if number == 0 else output + hidden
            outputs.append(hidden)
        return outputs


class Elmo(TrainableModel):
    """The two language models of an ELMo; call `set_characters` before the model reads a batch."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.cnn = CharacterCnn(config)
        self.left_to_right = OneWayLstm(config)
        self.right_to_left = OneWayLstm(config)
        self.softmax = nn.Linear(config.hidden_size, config.vocab_size)
        nn.init.normal_(self.softmax.weight, std=config.hidden_size**-0.5)
        nn.init.zeros_(self.softmax.bias)
        # An array, not a buffer: a copy of the model in another dtype takes over only parameters.
        self.characters: NDArray[np.int16] = np.empty((0, config.max_characters), dtype=np.int16)

    def set_characters(self, tokenizer: Tokenizer) -> None:
        """Set the characters of each piece of the tokenizer's vocabulary."""
        self.characters = piece_characters(tokenizer, self.config.max_characters)

    def parameter_specs(self) -> list[ParameterSpec]:
        """List the parameters, with how each is stored and updated.

        The LSTMs compute in fp32, as torch computes them on a CPU.
        """
        specs = super().parameter_specs()
        lstms = ("left_to_right.", "right_to_left.")
        return [replace(spec, fp32_only=spec.name.startswith(lstms)) for spec in specs]

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Encode a packed batch to the vectors that predict the next token, and the one before.

        Both tensors are [tokens, hidden].
        """
        _, forward, backward = self._read(batch)
        return self._apply_dropout(forward[-1]), self._apply_dropout(backward[-1])

    def encode_layers(self, batch: Batch) -> list[Tensor]:
        """Encode a packed batch to all layers' vectors, each [tokens, 2 x hidden].

        The first tensor has the vectors of the CNN twice. Each other tensor has the vectors of a
        layer's two LSTMs side by side.
        """
        tokens, forward, backward = self._read(batch)
        pairs = [(tokens, tokens), *zip(forward, backward, strict=True)]
        return [torch.cat(pair, -1) for pair in pairs]

    @torch.no_grad()
    def compute_piece_vectors(self) -> Tensor:
        """Compute the CNN's vector of each piece of the vocabulary, [vocabulary, hidden]."""
        pieces = torch.arange(self.config.vocab_size, device=self.device)
        return torch.cat([self._embed(part) for part in torch.split(pieces, PIECES_AT_ONCE)])

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the predicted token, [tokens, vocabulary]."""
        return self.softmax(hidden)

    def _read(self, batch: Batch) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Return the CNN's vectors of the tokens, and each layer's vectors of each direction.

        All are [tokens, hidden].
        """
        # From here on, `dropout` draws the mask of each sequence from its own random stream.
        set_dropout_sequences(batch.lengths, batch.step_indices)
        tokens = self._embed(batch.input_ids)
        device = batch.input_ids.device
        forward = self.left_to_right(tokens, TimeOrder(batch.lengths, device))
        backward = self.right_to_left(tokens, TimeOrder(batch.lengths, device, is_backward=True))
        return tokens, forward, backward

    def _embed(self, input_ids: Tensor) -> Tensor:
        """Compute the CNN for each different piece, and give each token its piece's vector."""
        pieces, piece_of_token = torch.unique(input_ids, return_inverse=True)
        characters = self._trim(self.characters[pieces.cpu().numpy()])
        ids = send(torch.from_numpy(characters.astype(np.int64)), input_ids.device)
        # On a CPU `fill_up` appends pieces that no token reads, so that few shapes occur.
        return self.cnn(fill_up(ids)).index_select(0, piece_of_token)

    def _trim(self, characters: NDArray[np.int16]) -> NDArray[np.int16]:
        """Remove columns of padding that change no maximum of a filter.

        A filter also sees windows that hold only padding. So enough padding stays for one such
        window of the widest filter.
        """
        longest = int((characters != PADDING).sum(1).max(initial=0))
        widest = max(width for width, _ in self.config.filters)
        num_columns = math.ceil((longest + widest) / COLUMN_MULTIPLE) * COLUMN_MULTIPLE
        return characters[:, :num_columns]

    def _apply_dropout(self, hidden: Tensor) -> Tensor:
        return dropout(hidden, self.config.dropout, self.training)


class LayerMix(nn.Module):
    """The learned mix of layers that a task reads: the weighted mean of the layers, times gamma.

    Source: Peters et al. 2018, equation 1.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num_layers))
        self.scale = nn.Parameter(torch.ones(1))
        """Gamma of the paper. In old folders `gamma` is the name of LayerNorm's weights, which is
        replaced on loading, so this parameter has another name."""

    @property
    def shares(self) -> Tensor:
        """The share of each layer, [layers]; their sum is 1."""
        return self.weights.softmax(0)

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """Return the mix of layers of one shape, in that shape."""
        mixed = sum(share * layer for share, layer in zip(self.shares, layers, strict=True))
        return self.scale * mixed
