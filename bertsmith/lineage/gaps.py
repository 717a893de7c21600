"""Predictions of a missing token, the gap of a text, by all kinds of models.

A GPT or LSTM sees only the tokens before the gap. BERT and T5 see the tokens on both sides: BERT
reads `[MASK]` in place of the missing token, and T5 its first sentinel. An ELMo has a language
model for each side; its prediction is the mean of their log-probabilities, normalized. With
`gap_log_probs` all models can be compared at the same gaps. The mean log-probability of the missing
tokens is an estimate per token: of the log-likelihood of the text for models that read from left to
right, and of its pseudo-log-likelihood for the others (Salazar et al. 2020, section 2).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import Batch, pack
from bertsmith.errors import ConfigError
from bertsmith.lineage.elmo import Elmo
from bertsmith.lineage.generation import start_token_id
from bertsmith.lineage.gpt import Gpt
from bertsmith.lineage.recurrent import RecurrentLanguageModel
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.lineage.t5 import T5
from bertsmith.model.bert import BertModel
from bertsmith.model.trainable import TrainableModel
from bertsmith.tokenization.tokenizer import Tokenizer

GAPS_AT_ONCE = 64
"""Number of gaps that are computed together, to bound memory."""


@dataclass(frozen=True)
class Gap:
    """A text without one of its tokens: the ids before and after it, and its own id."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    missing: int = -1
    """The id of the missing token; -1 if it is not known."""


def gap_log_probs(
    model: TrainableModel, tokenizer: Tokenizer, gaps: Sequence[Gap]
) -> Iterator[Tensor]:
    """Yield the log-probabilities of all tokens for groups of gaps, fp32 [gaps, vocabulary].

    The groups are in the order of `gaps`.

    Args:
        tokenizer: the tokenizer of the corpus that the model was trained on.

    Raises:
        ConfigError: the model does not predict tokens.
    """
    for first in range(0, len(gaps), GAPS_AT_ONCE):
        logits = _gap_logits(model, tokenizer, gaps[first : first + GAPS_AT_ONCE])
        yield logits.float().log_softmax(-1)


def predicts_gaps(model: TrainableModel) -> bool:
    """Return whether the model predicts missing tokens; an ELECTRA discriminator does not."""
    if isinstance(model, BertModel):
        return "masked_lm" in model.heads
    return isinstance(model, Gpt | RecurrentLanguageModel | Elmo | T5)


def _gap_logits(model: TrainableModel, tokenizer: Tokenizer, gaps: Sequence[Gap]) -> Tensor:
    """Compute logits of all tokens at each gap, [gaps, vocabulary], by the kind of the model."""
    if not predicts_gaps(model):
        raise ConfigError("The model predicts no tokens, so it cannot fill gaps.")
    if isinstance(model, BertModel):
        return _masked_logits(model, tokenizer, gaps)
    if isinstance(model, T5):
        return _span_logits(model, tokenizer, gaps)
    if isinstance(model, Elmo):
        return _two_way_logits(model, tokenizer, gaps)
    assert isinstance(model, Gpt | RecurrentLanguageModel)
    return _next_token_logits(model, tokenizer, gaps)


def _next_token_logits(
    model: Gpt | RecurrentLanguageModel, tokenizer: Tokenizer, gaps: Sequence[Gap]
) -> Tensor:
    """Predict each missing token from those before it."""
    start = start_token_id(model, tokenizer)
    batch = pack([np.array([start, *gap.before], dtype=np.int64) for gap in gaps])
    last_tokens = torch.tensor(batch.lengths).cumsum(0) - 1
    hidden = model.encode(batch.to(model.device)).index_select(0, last_tokens.to(model.device))
    return _restore_order(model.compute_logits(hidden), batch.order)


def _masked_logits(model: BertModel, tokenizer: Tokenizer, gaps: Sequence[Gap]) -> Tensor:
    """Predict each missing token from both sides, with `[MASK]` in its place."""
    rows = [
        [tokenizer.cls_id, *gap.before, tokenizer.mask_id, *gap.after, tokenizer.sep_id]
        for gap in gaps
    ]
    batch = pack([np.array(row, dtype=np.int64) for row in rows])
    positions = _gap_positions(batch, gaps)
    hidden = model.encode(batch.to(model.device)).index_select(0, positions.to(model.device))
    # The output layer of this head has the weights of the word embedding.
    logits = model.heads["masked_lm"](hidden, model.embeddings.word.weight)
    return _restore_order(logits, batch.order)


def _two_way_logits(model: Elmo, tokenizer: Tokenizer, gaps: Sequence[Gap]) -> Tensor:
    """Predict each missing token from the left and from the right; return the mean log-probability.

    Neither direction reads the token in the gap to predict it, so any token may stand there.
    """
    rows = [
        [tokenizer.cls_id, *gap.before, tokenizer.mask_id, *gap.after, tokenizer.sep_id]
        for gap in gaps
    ]
    batch = pack([np.array(row, dtype=np.int64) for row in rows])
    positions = _gap_positions(batch, gaps).to(model.device)
    forward, backward = model.encode(batch.to(model.device))
    sides = (forward.index_select(0, positions - 1), backward.index_select(0, positions + 1))
    left, right = (model.compute_logits(hidden).float().log_softmax(-1) for hidden in sides)
    return _restore_order((left + right) / 2, batch.order)


def _gap_positions(batch: Batch, gaps: Sequence[Gap]) -> Tensor:
    """Return the index of each gap in the packed row, int64 [gaps], in the batch's order.

    Each sequence has a start token before the tokens of `Gap.before`.
    """
    starts = torch.tensor([0, *batch.lengths[:-1]]).cumsum(0)
    return starts + torch.tensor([1 + len(gaps[index].before) for index in batch.order])


def _span_logits(model: T5, tokenizer: Tokenizer, gaps: Sequence[Gap]) -> Tensor:
    """Predict the token that follows the first sentinel in the target, from both sides."""
    if model.vocab_size <= tokenizer.vocab_size:
        raise ConfigError(
            f"The T5 has {model.vocab_size:,} tokens and its tokenizer {tokenizer.vocab_size:,}, "
            "so it has no sentinels after them and cannot fill gaps. Take a T5 of "
            "'bertsmith pretrain t5'."
        )
    sentinel = model.vocab_size - 1
    sources = [[*gap.before, sentinel, *gap.after, model.end_id] for gap in gaps]
    # The token after the sentinel is predicted, not read.
    targets = [[sentinel, model.end_id]] * len(gaps)
    batch = SourceTarget.of(sources, targets, model.start_id).to(model.device)
    # The decoder reads two tokens of each target: the start token and the sentinel.
    sentinels = torch.arange(1, 2 * len(gaps), 2, device=model.device)
    hidden = model.decode(batch).index_select(0, sentinels)
    return _restore_order(model.compute_logits(hidden), batch.order)


def _restore_order(logits: Tensor, order: Sequence[int]) -> Tensor:
    """Put rows of a packed batch into the order of the gaps."""
    ordered = torch.empty_like(logits)
    ordered[list(order)] = logits
    return ordered
