"""Text after a prompt, token by token: the likeliest token each time, or a drawn one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertsmith.errors import InputError, SettingError
from bertsmith.lineage.gpt import Gpt
from bertsmith.model.cached_view import KeyValueCache


@dataclass(frozen=True)
class Sampling:
    """Settings of drawing tokens; as in transformers, the three limits apply in this order.

    Raises:
        SettingError: a value is out of range.
    """

    temperature: float = 1.0
    """Divides the logits: below 1 likely tokens become likelier."""
    top_k: int | None = None
    """Only this many likeliest tokens are drawn."""
    top_p: float | None = None
    """Only the likeliest tokens that together reach this probability are drawn (Holtzman 2020)."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise SettingError("temperature", self.temperature, "above 0")
        if self.top_k is not None and self.top_k < 1:
            raise SettingError("top_k", self.top_k, "1 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise SettingError("top_p", self.top_p, "above 0 and at most 1")
        if self.seed < 0:
            raise SettingError("seed", self.seed, "0 or more")


def generate(
    model: Gpt,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    sampling: Sampling | None = None,
) -> list[list[int]]:
    """Continue each prompt by at most `max_new_tokens` tokens, up to the model's end token.

    Without `sampling` each token is the likeliest one. Each prompt draws from a stream of its own,
    keyed by the seed and its number, so that its tokens do not depend on the others, but for
    rounding. Prompts may have the end token in them, at any place.

    Args:
        prompts: ids of each prompt, at least one.

    Returns:
        The new ids of each prompt, with the end token if it was reached.

    Raises:
        InputError: an empty prompt, an id out of range, or more tokens than the model reads.
    """
    _check_prompts(model, prompts, max_new_tokens)
    answers: list[list[int]] = [[] for _ in prompts]
    if not prompts or max_new_tokens < 1:
        return answers
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            _continue(model, prompts, answers, max_new_tokens, sampling)
    finally:
        model.train(was_training)
    return answers


def _continue(
    model: Gpt,
    prompts: Sequence[Sequence[int]],
    answers: list[list[int]],
    max_new_tokens: int,
    sampling: Sampling | None,
) -> None:
    """Append new ids to `answers` in turns, one for each prompt that has not ended."""
    streams = (
        [np.random.default_rng((sampling.seed, i)) for i in range(len(prompts))] if sampling else []
    )
    open_prompts = list(range(len(prompts)))
    cache = KeyValueCache(len(model.layers), len(prompts), model.device)
    new_ids = [list(prompt) for prompt in prompts]
    for _ in range(max_new_tokens):
        lengths = tuple(map(len, new_ids))
        input_ids = torch.tensor([each for ids in new_ids for each in ids], device=model.device)
        hidden = model.encode_new(input_ids, lengths, cache)
        ends = torch.tensor(lengths, device=model.device).cumsum(0) - 1
        logits = model.compute_logits(hidden.index_select(0, ends)).float()
        if sampling is None:
            chosen = logits.argmax(-1).tolist()
        else:
            chosen = draw(limit(logits, sampling), [streams[i] for i in open_prompts])
        for i, token in zip(open_prompts, chosen, strict=True):
            answers[i].append(token)
        rest = [row for row, token in enumerate(chosen) if token != model.config.eos_token_id]
        if not rest:
            return
        if len(rest) < len(open_prompts):
            cache.keep(rest)
            open_prompts = [open_prompts[row] for row in rest]
        new_ids = [[chosen[row]] for row in rest]


def limit(logits: Tensor, sampling: Sampling) -> Tensor:
    """Apply temperature, top-k and top-p to logits [prompts, vocabulary].

    Tokens that are not to be drawn get -inf; at least one stays.
    """
    logits = logits / sampling.temperature
    if sampling.top_k is not None:
        smallest = logits.topk(min(sampling.top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    if sampling.top_p is not None:
        ascending, order = logits.sort()
        is_rest = ascending.softmax(-1).cumsum(-1) <= 1 - sampling.top_p
        is_rest[:, -1] = False
        logits = logits.masked_fill(is_rest.scatter(1, order, is_rest), -torch.inf)
    return logits


def draw(logits: Tensor, streams: Sequence[np.random.Generator]) -> list[int]:
    """Draw a token from each row of logits [prompts, vocabulary], by the stream of its prompt."""
    totals = logits.double().softmax(-1).cumsum(-1).cpu().numpy()
    return [
        int(np.searchsorted(row, stream.random() * row[-1], side="right"))
        for row, stream in zip(totals, streams, strict=True)
    ]


def _check_prompts(model: Gpt, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
    config = model.config
    for i, prompt in enumerate(prompts):
        if not len(prompt):
            raise InputError(
                f"prompts, number {i}: it has no tokens. Begin it with one, such as the start "
                "token that the model was trained with."
            )
        if len(prompt) + max_new_tokens > config.n_positions:
            raise InputError(
                f"prompts, number {i}: {len(prompt)} tokens and {max_new_tokens} new ones are more "
                f"than the {config.n_positions} that this model reads. Shorten the prompt."
            )
        for token in prompt:
            if not 0 <= token < config.vocab_size:
                raise InputError(
                    f"prompts, number {i}: found the token {token}. This model takes 0 to "
                    f"{config.vocab_size - 1}. Use the tokenizer saved with the model."
                )
