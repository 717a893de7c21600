"""Heads: the modules that compute logits from the encoder's vectors.

A head is applied only where something is predicted. So pre-training gathers the masked positions
first: logits of a 30,000-token vocabulary at every position would be most of the work of a small
model.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.model.activations import ACTIVATIONS
from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import dropout as drop
from bertsmith.model.masked_lm_loss import MaskedLMLoss, token_log_probs
from bertsmith.model.shape_buckets import fill_up


class MaskedLMHead(nn.Module):
    """Masked-LM head (Devlin et al. 2019, section 3.1, task 1).

    A dense layer with activation and LayerNorm, then a decoder whose weight is the word embedding.
    The word embedding is an argument of each method, so that the weight has one owner; this module
    stores only the decoder's bias.

    Shapes in its methods: `hidden` [positions, hidden] as it leaves the encoder, and
    `word_embedding` [vocabulary, embedding size], both in the dtype of the head's weights, fp32 or
    bf16; `labels` int64 [positions].
    """

    def __init__(self, config: BertConfig, activation: str | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.activation = ACTIVATIONS[activation or config.hidden_act]

    def transform(self, hidden: Tensor) -> Tensor:
        """Project [positions, hidden] to [positions, embedding size]."""
        return self.norm(self.activation(self.dense(hidden)))

    def forward(self, hidden: Tensor, word_embedding: Tensor) -> Tensor:
        """Return logits [positions, vocabulary], in the dtype of the weights."""
        return F.linear(self.transform(hidden), word_embedding, self.bias)

    def loss(self, hidden: Tensor, word_embedding: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the summed loss and the number correct, fp32 scalars, as `MaskedLMLoss` does."""
        return self.loss_and_samples(hidden, word_embedding, labels)[:2]

    def log_probs(self, hidden: Tensor, word_embedding: Tensor, labels: Tensor) -> Tensor:
        """Compute the log-probability of each label, fp32 [positions], without gradients."""
        return token_log_probs(self.transform(fill_up(hidden)), word_embedding, self.bias, labels)

    def loss_and_samples(
        self, hidden: Tensor, word_embedding: Tensor, labels: Tensor, draws: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute loss and number correct as `loss` does, and sample a token at each position.

        The samples, int64 [positions], are those of `sample_tokens` for `draws`, fp32 [positions]
        in [0, 1). Without `draws` they are empty.
        """
        vectors = self.transform(fill_up(hidden))
        return MaskedLMLoss.apply(vectors, word_embedding, self.bias, labels, draws)  # type: ignore[no-untyped-call]


class TwoLogitHead(nn.Module):
    """A linear layer to two logits: for NSP, sentence order and question answering.

    NSP (Devlin et al. 2019, section 3.1, task 2): 0 if B follows A, 1 if random. Sentence order
    (Lan et al. 2020, section 3.1): 0 as in the text, 1 swapped. Question answering (Devlin et al.
    2019, section 4.2): scores of each token as start and as end of the answer.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return logits [vectors, 2] from [vectors, hidden], in the dtype of the weights."""
        return self.dense(vectors)


class ClassificationHead(nn.Module):
    """Dropout and a linear layer to `num_labels` outputs (Devlin et al. 2019, section 4.1).

    It reads a vector per sequence, or as head "tag" one per token. `dropout` is by default the
    config's `classifier_dropout`, or else its `hidden_dropout_prob`.
    """

    def __init__(self, config: BertConfig, num_labels: int, dropout: float | None = None) -> None:
        super().__init__()
        self.num_labels = num_labels
        if dropout is None:
            dropout = config.classifier_dropout
        self.dropout_prob = config.hidden_dropout_prob if dropout is None else dropout
        self.dense = nn.Linear(config.hidden_size, num_labels)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return logits [vectors, num_labels] from [vectors, hidden], in the weights' dtype."""
        return self.dense(drop(vectors, self.dropout_prob, self.training))


class TwoLayerHead(ClassificationHead):
    """A classification head with its own dense layer instead of a pooler.

    With `drop_first`, dropout comes before this layer too.
    """

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        activation: Callable[[Tensor], Tensor],
        *,
        dropout: float | None = None,
        drop_first: bool = True,
    ) -> None:
        super().__init__(config, num_labels, dropout)
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = activation
        self.drop_first = drop_first

    def forward(self, vectors: Tensor) -> Tensor:
        if self.drop_first:
            vectors = drop(vectors, self.dropout_prob, self.training)
        return super().forward(self.activation(self.transform(vectors)))


class ReplacedTokenHead(nn.Module):
    """Replaced-token detection head (Clark et al. 2020, section 2).

    One logit per token, above 0 if it seems replaced.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, 1)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits [tokens] from [tokens, hidden], in the dtype of the weights."""
        return self.dense(self.activation(self.transform(hidden))).squeeze(-1)
