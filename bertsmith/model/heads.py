"""Heads: vectors of the encoder in, logits out; and the masked-LM loss in bounded memory.

A head is applied only where something is predicted: a pre-training step gathers the masked
positions first, since logits of a 30,000-word vocabulary at every position would be most of
the work of a small model.
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
from bertsmith.model.sizes import fill_up

if TYPE_CHECKING:
    from bertsmith.model.bert import BertConfig

MAX_LOGITS = 2**24
"""Logits held at once by the masked-LM loss: 64 MB in fp32, 549 positions of 30,522 words."""

MAX_GPU_LOGITS = 2**27
"""The same on a GPU, most of which small products leave idle: 256 MB in bf16, 4,397 positions."""

CACHED_BYTES = 2**20
"""Logits whose softmax is taken at once on a CPU, in bytes: they stay in its cache."""


class MaskedLMHead(nn.Module):
    """Which word belongs here? (Paper, section 3.1, task 1.)

    A dense layer with the activation and LayerNorm, then a decoder whose weight is the word
    embedding: it is given with each call, so that it exists once. Only its bias lives here.
    """

    def __init__(self, config: "BertConfig", activation: str | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.activation = ACTIVATIONS[activation or config.hidden_act]

    def transform(self, hidden: Tensor) -> Tensor:
        """[positions, hidden] to the vectors that are compared with the word embeddings."""
        return self.norm(self.activation(self.dense(hidden)))  # type: ignore[no-any-return]

    def forward(self, hidden: Tensor, word_embedding: Tensor) -> Tensor:
        """Logits [positions, vocabulary] from [positions, hidden] and [vocabulary, size]."""
        return F.linear(self.transform(hidden), word_embedding, self.bias)

    def loss(self, hidden: Tensor, word_embedding: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """`masked_lm_loss` at the predicted positions, [positions, hidden] as they leave the
        encoder, with `labels` int64 [positions]."""
        return masked_lm_loss(self.transform(fill_up(hidden)), word_embedding, self.bias, labels)

    def loss_and_samples(
        self, hidden: Tensor, word_embedding: Tensor, labels: Tensor, draws: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`loss`, and words sampled from the predictions, int64 [positions]: each the one at
        which the sum of the probabilities passes its draw, fp32 from 0 to 1 [positions]."""
        vectors = self.transform(fill_up(hidden))
        loss_sum, num_correct, samples = MaskedLMLoss.apply(
            vectors, word_embedding, self.bias, labels, draws
        )  # type: ignore[no-untyped-call]
        return loss_sum, num_correct, samples


class NextSentenceHead(nn.Module):
    """Does B follow A? Logits [sequences, 2]: class 0 it does, 1 it is a random sentence.

    The same for the sentences' order (Lan et al. 2020, section 3.1): 0 as in the text, 1 swapped.
    """

    def __init__(self, config: "BertConfig") -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        """[sequences, hidden] to [sequences, 2]."""
        return self.dense(pooled)  # type: ignore[no-any-return]


class ClassificationHead(nn.Module):
    """`num_labels` numbers for a vector: dropout, then a linear layer.

    The vector is a sequence's, or with the head "tag" a token's.
    """

    def __init__(self, config: "BertConfig", num_labels: int, dropout: float | None = None) -> None:
        super().__init__()
        self.num_labels = num_labels
        self.dropout_prob = config.hidden_dropout_prob if dropout is None else dropout
        self.dense = nn.Linear(config.hidden_size, num_labels)

    def forward(self, vectors: Tensor) -> Tensor:
        """[vectors, hidden] to [vectors, num_labels]."""
        return self.dense(drop(vectors, self.dropout_prob, self.training))  # type: ignore[no-any-return]


class TwoLayerHead(ClassificationHead):
    """The same with a dense layer and an activation before, as where there is no pooler.

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
        """[vectors, hidden] to [vectors, num_labels]."""
        if self.drop_first:
            vectors = drop(vectors, self.dropout_prob, self.training)
        return super().forward(self.activation(self.transform(vectors)))


class SpanHead(nn.Module):
    """Where does the answer start and end? Logits [tokens, 2] (paper, section 4.2)."""

    def __init__(self, config: "BertConfig") -> None:
        super().__init__()
        self.num_labels = 2
        self.dense = nn.Linear(config.hidden_size, 2)

    def forward(self, hidden: Tensor) -> Tensor:
        """[tokens, hidden] to [tokens, 2]."""
        return self.dense(hidden)  # type: ignore[no-any-return]


class ReplacedTokenHead(nn.Module):
    """Is this token another than in the text? A logit for each, above 0 where it seems replaced
    (Clark et al. 2020, section 2)."""

    def __init__(self, config: "BertConfig") -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, 1)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor) -> Tensor:
        """[tokens, hidden] to [tokens]."""
        return self.dense(self.activation(self.transform(hidden))).squeeze(-1)  # type: ignore[no-any-return]


PAIR_HEADS = ("next_sentence", "sentence_order")
"""Heads that say something of the two segments of a row."""
PRETRAINING_HEADS = ("masked_lm", *PAIR_HEADS, "replaced_token")
LABEL_HEADS = ("classify", "multi_label", "tag")
"""Heads with an output for each of so many labels."""
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
"""Hugging Face's names of these heads where each is a single layer."""


def build_heads(
    config: "BertConfig", names: Sequence[str], num_labels: int | None = None
) -> dict[str, nn.Module]:
    """New heads by name, of `HEADS`; those of `LABEL_HEADS` need `num_labels`."""
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
    """Cross entropy of `hidden @ weight.T + bias`, summed over positions, and how many are right.

    Shapes: `hidden` [positions, hidden], `weight` [vocabulary, hidden], `bias` [vocabulary],
    `labels` int64 [positions], or fewer: rows without a label count for nothing. Both results
    are fp32 scalars. No more than `MAX_LOGITS` logits (`MAX_GPU_LOGITS` on a GPU) exist at a time:
    a chunk's gradients are taken while its logits are at hand.
    """
    loss_sum, num_correct, _ = MaskedLMLoss.apply(hidden, weight, bias, labels, None)  # type: ignore[no-untyped-call]
    return loss_sum, num_correct


class MaskedLMLoss(torch.autograd.Function):
    """`masked_lm_loss`; its forward pass takes the gradients too, its backward scales them.

    With `draws` it samples a word at each position while the probabilities are at hand.
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
    """The forward pass of a loss over the vocabulary: a chunk of logits at a time goes to `take`.

    `take` gets logits `[rows, vocabulary]` and which rows they are of; it gives summed loss and
    number of right guesses, and makes the logits their gradient. The gradients of `hidden`,
    `weight` and `bias` are kept for `scaled_gradients`.
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
        # A product with ones is a sum, and three times as fast as torch's over rows.
        grad_bias = accumulate(grad_bias, (gradient.new_ones(1, len(vectors)) @ gradient)[0])
    ctx.gradients = (grad_hidden, grad_weight, grad_bias)
    ctx.dtypes = (hidden.dtype, weight.dtype, bias.dtype)
    ctx.mark_non_differentiable(num_correct)
    return loss_sum, num_correct


def scaled_gradients(ctx: Any, scale: Tensor) -> list[Tensor | None]:
    """The backward pass of a loss that `decode_in_chunks` computed."""
    if ctx.gradients is None:
        raise RuntimeError("a loss over the vocabulary keeps its gradients for one backward pass")
    scaled = [
        None if gradient is None else gradient.mul_(scale).to(dtype)
        for gradient, dtype in zip(ctx.gradients, ctx.dtypes, strict=True)
    ]
    ctx.gradients = None  # they were scaled in place, which spares a copy of [vocab, hidden]
    return scaled


def accumulate(total: Tensor | None, part: Tensor) -> Tensor:
    """Add a chunk's gradient to the sum so far, in fp32 as soon as there is more than one."""
    return part if total is None else total.float().add_(part)


def equal_chunks(count: int, largest: int) -> list[slice]:
    """Slices of about equal size, at most `largest`, that cover `count` rows.

    >>> equal_chunks(7, 3)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 9, None)]
    """
    size = -(-count // max(1, -(-count // largest)))
    return [slice(first, first + size) for first in range(0, count, max(1, size))]


def cross_entropy_and_gradient(
    logits: Tensor, labels: Tensor, sampler: "Sampler | None" = None
) -> tuple[Tensor, Tensor]:
    """Summed loss and number of right guesses in fp32; `logits` becomes the gradient, in place.

    Shapes: `logits` [positions, classes], `labels` int64 [positions]. Each position's softmax is
    computed in fp32 whatever the type of `logits`, and rounded to that type once; on a CPU it is
    taken of so few positions at a time that they stay in its cache. `sampler` sees it there.
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
"""Words whose probabilities are summed at once, to find the block of words that a draw falls in."""


class Sampler:
    """Samples a word from each of a chunk's distributions as they come, into `samples`."""

    def __init__(self, draws: Tensor, samples: Tensor) -> None:
        self._draws = draws
        self._samples = samples
        self._seen = 0

    def see(self, probabilities: Tensor) -> None:
        """Take in the next `[positions, words]`."""
        rows = slice(self._seen, self._seen + len(probabilities))
        self._samples[rows] = sample(probabilities, self._draws[rows])
        self._seen = rows.stop


def sample(probabilities: Tensor, draws: Tensor) -> Tensor:
    """The word at which the sum of the probabilities passes each draw, int64 `[positions]`.

    Shapes: `probabilities` `[positions, words]`, `draws` fp32 `[positions]`, at least 0 and below
    1. So a draw decides alone, on every device and however positions are divided. Sums of blocks
    come first, then one block is looked into: to sum word by word would take several times as long.
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
    """The first of the rising `sums` `[rows, count]` above each of `wanted` `[rows]`; where
    rounding leaves none, the first of the highest."""
    highest = sums[:, -1].nextafter(sums.new_zeros(()))
    return (sums <= torch.minimum(wanted.clamp(min=0), highest)[:, None]).sum(-1)
