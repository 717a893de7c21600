"""Heads that compute logits, and a masked-LM loss in bounded memory.

A head is applied only where something is predicted: pre-training gathers the masked positions
first, since logits of a 30,000-token vocabulary at every position would be most of the work of a
small model.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertsmith.errors import ConfigError, check_choice
from bertsmith.model.activations import ACTIVATIONS
from bertsmith.model.dropout import dropout as drop
from bertsmith.model.family import HeadBuilder, family_named
from bertsmith.model.row_maximum import row_maximum
from bertsmith.model.shape_buckets import fill_up

if TYPE_CHECKING:
    from bertsmith.model.bert import BertConfig

MAX_LOGITS = 2**24
"""Logits held at once by the masked-LM loss: 64 MB in fp32, 549 positions of 30,522 tokens."""

MAX_GPU_LOGITS = 2**27
"""Logits held at once on a GPU, which small products leave idle: 256 MB in bf16, 4,397 positions.
"""

CACHED_BYTES = 2**20
"""Bytes of logits whose softmax is computed at once on a CPU: they stay in its cache."""


class MaskedLMHead(nn.Module):
    """Masked-LM head (Devlin et al. 2019, section 3.1, task 1).

    A dense layer with activation and LayerNorm, then a decoder whose weight is the word embedding.
    That is passed with each call, so that it exists once; only the bias is stored here.
    """

    def __init__(self, config: "BertConfig", activation: str | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.activation = ACTIVATIONS[activation or config.hidden_act]

    def transform(self, hidden: Tensor) -> Tensor:
        """Project [positions, hidden] to the vectors that are compared with word embeddings."""
        return self.norm(self.activation(self.dense(hidden)))  # type: ignore[no-any-return]

    def forward(self, hidden: Tensor, word_embedding: Tensor) -> Tensor:
        """Return logits [positions, vocabulary] from [positions, hidden] and [vocabulary, size]."""
        return F.linear(self.transform(hidden), word_embedding, self.bias)

    def loss(self, hidden: Tensor, word_embedding: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute `masked_lm_loss` from encoder outputs [positions, hidden].

        `labels` are int64 [positions].
        """
        return masked_lm_loss(self.transform(fill_up(hidden)), word_embedding, self.bias, labels)

    def loss_and_samples(
        self, hidden: Tensor, word_embedding: Tensor, labels: Tensor, draws: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the loss, and sample a token id at each position, int64 [positions].

        The sample is the token at which the cumulative probability passes the position's draw, fp32
        from 0 to 1 [positions].
        """
        vectors = self.transform(fill_up(hidden))
        loss_sum, num_correct, samples = MaskedLMLoss.apply(
            vectors, word_embedding, self.bias, labels, draws
        )  # type: ignore[no-untyped-call]
        return loss_sum, num_correct, samples


class NextSentenceHead(nn.Module):
    """Next-sentence head: 0 if B follows A, 1 if random; [sequences, 2].

    Also the sentence-order head (Lan et al. 2020, section 3.1): 0 as in the text, 1 swapped.
    """

    def __init__(self, config: "BertConfig") -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        """Return logits [sequences, 2] from [sequences, hidden]."""
        return self.dense(pooled)  # type: ignore[no-any-return]


class ClassificationHead(nn.Module):
    """Dropout and a linear layer to `num_labels` outputs.

    It reads a vector per sequence, or as head "tag" one per token.
    """

    def __init__(self, config: "BertConfig", num_labels: int, dropout: float | None = None) -> None:
        super().__init__()
        self.num_labels = num_labels
        self.dropout_prob = config.hidden_dropout_prob if dropout is None else dropout
        self.dense = nn.Linear(config.hidden_size, num_labels)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return logits [vectors, num_labels] from [vectors, hidden]."""
        return self.dense(drop(vectors, self.dropout_prob, self.training))  # type: ignore[no-any-return]


class TwoLayerHead(ClassificationHead):
    """A classification head with its own dense layer instead of a pooler.

    With `drop_first`, dropout comes before this layer too.
    """

    def __init__(
        self,
        config: "BertConfig",
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


class SpanHead(nn.Module):
    """Question-answering head: start and end logits, [tokens, 2] (paper, section 4.2)."""

    def __init__(self, config: "BertConfig") -> None:
        super().__init__()
        self.num_labels = 2
        self.dense = nn.Linear(config.hidden_size, 2)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits [tokens, 2] from [tokens, hidden]."""
        return self.dense(hidden)  # type: ignore[no-any-return]


class ReplacedTokenHead(nn.Module):
    """Replaced-token detection head (Clark et al. 2020, section 2).

    One logit per token, above 0 if it seems replaced.
    """

    def __init__(self, config: "BertConfig") -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, 1)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits [tokens] from [tokens, hidden]."""
        return self.dense(self.activation(self.transform(hidden))).squeeze(-1)  # type: ignore[no-any-return]


PAIR_HEADS = ("next_sentence", "sentence_order")
"""Heads that classify the relation of a row's two segments."""
PRETRAINING_HEADS = ("masked_lm", *PAIR_HEADS, "replaced_token")
LABEL_HEADS = ("classify", "multi_label", "tag")
"""Heads with an output per label."""
NUMBER_HEADS = ("regress", "choose")
"""Heads with one output: a number for a text, or the score of one of several choices."""
TASK_HEADS = (*LABEL_HEADS, *NUMBER_HEADS, "answer")
HEADS = (*PRETRAINING_HEADS, *TASK_HEADS)

BERT_HEADS: Mapping[str, HeadBuilder] = {
    "masked_lm": lambda config, _: MaskedLMHead(config),
    "next_sentence": lambda config, _: NextSentenceHead(config),
    "sentence_order": lambda config, _: NextSentenceHead(config),
    **dict.fromkeys((*LABEL_HEADS, *NUMBER_HEADS), ClassificationHead),
    "answer": lambda config, _: SpanHead(config),
}

TASK_HEAD_NAMES = {
    **{f"heads.{name}.dense": ("classifier",) for name in (*LABEL_HEADS, *NUMBER_HEADS)},
    "heads.answer.dense": ("qa_outputs",),
}
"""Hugging Face's names of task heads that are a single layer."""


def build_heads(
    config: "BertConfig", names: Sequence[str], num_labels: int | None = None
) -> dict[str, nn.Module]:
    """Build heads of `HEADS` by name; those of `LABEL_HEADS` need `num_labels`."""
    return {name: _build_head(config, name, num_labels) for name in names}


def _build_head(config: "BertConfig", name: str, num_labels: int | None) -> nn.Module:
    check_choice("head", name, HEADS)
    heads = family_named(config.model_type).heads
    check_choice(f"head of a model of the family {config.model_type}", name, heads)
    if name in LABEL_HEADS and (num_labels is None or num_labels < 1):
        raise ConfigError(f"num_labels is {num_labels}. Say how many classes there are.")
    return heads[name](config, num_labels or 1 if name in LABEL_HEADS else 1)


def masked_lm_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the summed cross entropy of `hidden @ weight.T + bias`, and the number correct.

    Shapes: `hidden` [positions, hidden], `weight` [vocabulary, hidden], `bias` [vocabulary],
    `labels` int64 [positions], or fewer: rows without a label are ignored. Both results are fp32
    scalars. No more than `MAX_LOGITS` logits (`MAX_GPU_LOGITS` on a GPU) exist at a time: a chunk's
    gradients are computed together with its logits.
    """
    loss_sum, num_correct, _ = MaskedLMLoss.apply(hidden, weight, bias, labels, None)  # type: ignore[no-untyped-call]
    return loss_sum, num_correct


class MaskedLMLoss(torch.autograd.Function):
    """Autograd function of `masked_lm_loss`, with gradients computed in the forward pass.

    With `draws` it also samples a token at each position from the probabilities.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        draws: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        samples = torch.empty_like(labels if draws is not None else labels[:0])

        def take(logits: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            wanted = labels[rows]
            logits[len(wanted) :] = 0.0
            sampler = None if draws is None else Sampler(draws[rows], samples[rows])
            return cross_entropy_and_gradient(logits[: len(wanted)], wanted, sampler)

        max_logits = MAX_GPU_LOGITS if hidden.is_cuda else MAX_LOGITS
        loss_sum, num_correct = decode_in_chunks(ctx, hidden, weight, bias, take, max_logits)
        ctx.mark_non_differentiable(num_correct, samples)
        return loss_sum, num_correct, samples

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (*scaled_gradients(ctx, grad_outputs[0]), None, None)


def decode_in_chunks(
    ctx: Any,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    take: Callable[[Tensor, slice], tuple[Tensor, Tensor]],
    max_logits: int,
) -> tuple[Tensor, Tensor]:
    """Compute a loss over the vocabulary in chunks of logits.

    `take` gets logits `[rows, vocabulary]` and their slice of rows, returns summed loss and number
    of correct predictions, and overwrites the logits with their gradient. The gradients of
    `hidden`, `weight` and `bias` are kept for `scaled_gradients`.
    """
    loss_sum = torch.zeros((), device=hidden.device)
    num_correct = torch.zeros((), device=hidden.device)
    grad_hidden = torch.zeros_like(hidden)
    grad_weight = grad_bias = None
    for rows in equal_chunks(len(hidden), max(1, max_logits // len(weight))):
        logits = F.linear(hidden[rows], weight, bias)
        loss, correct = take(logits, rows)
        loss_sum += loss
        num_correct += correct
        gradient, vectors = logits, hidden[rows].to(logits.dtype)
        grad_hidden[rows] = gradient @ weight.to(logits.dtype)
        grad_weight = accumulate(grad_weight, gradient.T @ vectors)
        # A product with ones is a sum over rows, and three times as fast as torch's own.
        grad_bias = accumulate(grad_bias, (gradient.new_ones(1, len(vectors)) @ gradient)[0])
    ctx.gradients = (grad_hidden, grad_weight, grad_bias)
    ctx.dtypes = (hidden.dtype, weight.dtype, bias.dtype)
    ctx.mark_non_differentiable(num_correct)
    return loss_sum, num_correct


def scaled_gradients(ctx: Any, scale: Tensor) -> list[Tensor | None]:
    """Run the backward pass of a loss computed by `decode_in_chunks`, once."""
    if ctx.gradients is None:
        raise RuntimeError("a loss over the vocabulary keeps its gradients for one backward pass")
    scaled = [
        None if gradient is None else gradient.mul_(scale).to(dtype)
        for gradient, dtype in zip(ctx.gradients, ctx.dtypes, strict=True)
    ]
    ctx.gradients = None  # scaled in place, which spares a copy of [vocab, hidden]
    return scaled


def accumulate(total: Tensor | None, part: Tensor) -> Tensor:
    """Add a chunk's gradient to the sum, in fp32 after the first."""
    return part if total is None else total.float().add_(part)


def equal_chunks(count: int, largest: int) -> list[slice]:
    """Divide `count` rows into slices of about equal size, at most `largest`.

    >>> equal_chunks(7, 3)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 9, None)]
    """
    size = -(-count // max(1, -(-count // largest)))
    return [slice(first, first + size) for first in range(0, count, max(1, size))]


def cross_entropy_and_gradient(
    logits: Tensor, labels: Tensor, sampler: "Sampler | None" = None
) -> tuple[Tensor, Tensor]:
    """Compute summed loss and number correct in fp32; `logits` becomes the gradient.

    Shapes: `logits` [positions, classes], `labels` int64 [positions]. Softmax is computed in fp32
    for any type of `logits` and rounded to that type once; on a CPU for so few positions at a time
    that they stay in its cache, where `sampler` reads them.
    """
    size = len(logits)
    if logits.device.type == "cpu":
        size = max(1, CACHED_BYTES // (logits.shape[-1] * logits.element_size()))
    loss_sum = torch.zeros((), device=logits.device)
    num_correct = torch.zeros((), device=logits.device)
    for part, wanted in zip(torch.split(logits, size), torch.split(labels, size), strict=True):
        highest, guess = row_maximum(part)
        num_correct += (guess[:, 0] == wanted).sum()
        distance = highest.float() - part.gather(-1, wanted[:, None]).float()
        torch.softmax(part, -1, out=part)
        if sampler is not None:
            sampler.see(part)
        # The highest probability is 1 / sum(exp(logits - highest)), never near zero.
        loss_sum += (distance - part.gather(-1, guess).float().log()).sum()
        places = torch.arange(len(wanted), device=part.device), wanted
        part.index_put_(places, part[places] - 1)
    return loss_sum, num_correct


SAMPLED_BLOCK = 128
"""Vocabulary entries whose probabilities are summed at once, to find the block of a draw."""


class Sampler:
    """Samples tokens from successive chunks of probabilities, into `samples`."""

    def __init__(self, draws: Tensor, samples: Tensor) -> None:
        self._draws = draws
        self._samples = samples
        self._seen = 0

    def see(self, probabilities: Tensor) -> None:
        """Sample from the next `[positions, vocabulary]`."""
        rows = slice(self._seen, self._seen + len(probabilities))
        self._samples[rows] = sample(probabilities, self._draws[rows])
        self._seen = rows.stop


def sample(probabilities: Tensor, draws: Tensor) -> Tensor:
    """Sample the token at which the cumulative probability passes each draw, int64 `[positions]`.

    Shapes: `probabilities` `[positions, vocabulary]`, `draws` fp32 `[positions]` in [0, 1). A draw
    alone decides, on every device and however positions are divided. Blocks are summed first, then
    one block is searched: summing token by token would take several times as long.
    """
    words = probabilities.shape[-1]
    num_blocks = words // SAMPLED_BLOCK
    whole = probabilities[:, : num_blocks * SAMPLED_BLOCK]
    whole = whole.reshape(len(whole), num_blocks, SAMPLED_BLOCK)
    sums = whole.sum(-1, dtype=torch.float32)
    rest = probabilities[:, num_blocks * SAMPLED_BLOCK :].sum(-1, keepdim=True, dtype=torch.float32)
    blocks = torch.cat([sums, rest], -1).cumsum(-1)
    wanted = draws * blocks[:, -1]
    block = first_above(blocks, wanted)[:, None]
    before = blocks.gather(-1, (block - 1).clamp(min=0)) * (block > 0)
    ids = block * SAMPLED_BLOCK + torch.arange(SAMPLED_BLOCK, device=block.device)
    inside = probabilities.gather(-1, ids.clamp(max=words - 1)).float() * (ids < words)
    place = first_above(inside.cumsum(-1), wanted - before[:, 0])
    return block[:, 0] * SAMPLED_BLOCK + place


def first_above(sums: Tensor, wanted: Tensor) -> Tensor:
    """Find the first of rising `sums` `[rows, count]` above `wanted` `[rows]`.

    Where rounding leaves none, it is the first of the highest.
    """
    highest = sums[:, -1].nextafter(sums.new_zeros(()))
    return (sums <= torch.minimum(wanted.clamp(min=0), highest)[:, None]).sum(-1)
