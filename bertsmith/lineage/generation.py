"""Generation of token ids by a GPT, LSTM or GRU: greedy decoding, sampling or beam search."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertsmith.errors import InputError, SettingError, option
from bertsmith.lineage.beam_search import BeamSearch, TokenReader, read_logits, search_beams
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.recurrent import RecurrentLanguageModel, State, select_sequences
from bertsmith.model.cached_view import KeyValueCache
from bertsmith.model.trainable import TrainableModel
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Sampling:
    """Settings of sampling; the first three apply in this order, as in transformers.

    Raises:
        SettingError: a value is out of range.
    """

    temperature: float = 1.0
    """The logits are divided by this; below 1, likely tokens become even likelier."""
    top_k: int | None = None
    """Only this many likeliest tokens are drawn."""
    top_p: float | None = None
    """Only the likeliest tokens that together reach this probability are drawn (Holtzman 2020)."""
    seed: int = 0

    def __post_init__(self) -> None:
        # Outside these bounds logits overflow, or all tokens are equally likely.
        if not 1e-4 <= self.temperature <= 1e4:
            raise SettingError("temperature", self.temperature, "0.0001 to 10,000")
        if self.top_k is not None and self.top_k < 1:
            raise SettingError("top_k", self.top_k, "1 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise SettingError("top_p", self.top_p, "above 0 and at most 1")
        if self.seed < 0:
            raise SettingError("seed", self.seed, "0 or more")


class GptReader:
    """A GPT that reads `num_sequences` sequences token by token (a `TokenReader`).

    `read` takes new tokens of each sequence, and returns the logits of its next token. The
    reader stores the keys and values of the tokens so far; `keep` drops all but some sequences.
    """

    def __init__(self, model: Gpt, num_sequences: int) -> None:
        self.model = model
        self.cache = KeyValueCache(len(model.layers), num_sequences, model.device)

    def read(self, new_ids: Sequence[Sequence[int]]) -> Tensor:
        lengths = tuple(map(len, new_ids))
        device = self.model.device
        input_ids = torch.tensor([token for ids in new_ids for token in ids], device=device)
        hidden = self.model.encode_new(input_ids, lengths, self.cache)
        ends = torch.tensor(lengths, device=device).cumsum(0) - 1  # the last token of each sequence
        return self.model.compute_logits(hidden.index_select(0, ends)).float()

    def keep(self, rows: Sequence[int]) -> None:
        self.cache.keep(rows)


class RecurrentReader:
    """An LSTM or GRU that reads sequences token by token (a `TokenReader`).

    `read` takes new tokens of each sequence, and returns the logits of its next token. The
    reader stores the states after the tokens so far; `keep` drops all but some sequences.
    """

    def __init__(self, model: RecurrentLanguageModel) -> None:
        self.model = model
        self.states: list[State] | None = None

    def read(self, new_ids: Sequence[Sequence[int]]) -> Tensor:
        hidden, self.states = self.model.encode_new(new_ids, self.states)
        return self.model.compute_logits(hidden).float()

    def keep(self, rows: Sequence[int]) -> None:
        index = torch.tensor(rows, device=self.model.device)
        self.states = [select_sequences(state, index) for state in self.states or ()]


def generate(
    model: Gpt | RecurrentLanguageModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    decoding: Sampling | BeamSearch | None = None,
) -> list[list[int]]:
    """Continue each prompt by at most `max_new_tokens` tokens, up to the model's end token.

    Prompts may contain the end token.

    Args:
        prompts: ids of each prompt, at least one.
        decoding: None for greedy decoding; see `continue_sequences`.

    Returns:
        The new ids of each prompt, with the end token if it was reached.

    Raises:
        InputError: an empty prompt, an id out of range, or more tokens than the model reads.
        CheckpointError: the model's output is not a number.
    """
    _check_prompts(model, prompts, max_new_tokens)
    if not prompts or max_new_tokens < 1:
        return [[] for _ in prompts]
    with evaluating(model):
        reader: TokenReader = (
            GptReader(model, len(prompts)) if isinstance(model, Gpt) else RecurrentReader(model)
        )
        end = model.config.eos_token_id
        return continue_sequences(reader, prompts, max_new_tokens, end, decoding)


def check_list(texts: Iterable[str]) -> None:
    """Check that texts are a list, and not a single text, whose letters would count as texts.

    Raises:
        InputError: it is a single text.
    """
    if isinstance(texts, str):
        raise InputError("texts: found a single text. Put it into a list, as in ['a text'].")


def start_token_id(model: Gpt | RecurrentLanguageModel, tokenizer: Tokenizer) -> int:
    """Return the token that begins a text: the model's start token, or else the tokenizer's [CLS].

    transformers gives every new GPT the start token of GPT-2, 50,256. In a smaller vocabulary there
    is no such id, so it does not count.
    """
    start = model.config.bos_token_id
    return tokenizer.cls_id if start is None or start >= model.config.vocab_size else start


@contextlib.contextmanager
def evaluating(model: TrainableModel) -> Iterator[None]:
    """Put a model into evaluation mode and compute without gradients in the block."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def continue_sequences(
    reader: TokenReader,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    end: int | None,
    decoding: Sampling | BeamSearch | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[int]]:
    """Continue each prompt by 1 to `max_new_tokens` tokens, up to the token `end`.

    Args:
        reader: the model, which reads token by token. It has read nothing yet.
        decoding: None for greedy decoding. With `Sampling`, each prompt has a random generator of
            its own, by the seed and the prompt's number. So its tokens do not depend on the other
            prompts, except by rounding.
        numbers: the number of each prompt, for callers that divide prompts into groups; by default
            the prompt's index.

    Returns:
        The new ids of each prompt, with `end` if it was reached.

    Raises:
        CheckpointError: the model's output is not a number.
    """
    if isinstance(decoding, BeamSearch):
        return search_beams(reader, prompts, max_new_tokens, end, decoding)
    answers: list[list[int]] = [[] for _ in prompts]
    generators: list[np.random.Generator] = []
    if decoding is not None:
        numbers = range(len(prompts)) if numbers is None else numbers
        generators = [np.random.default_rng((decoding.seed, number)) for number in numbers]
    open_prompts = list(range(len(prompts)))  # indices of the prompts whose answers go on
    new_ids = [list(prompt) for prompt in prompts]
    for _ in range(max_new_tokens):
        logits = read_logits(reader, new_ids)
        if decoding is None:
            tokens = logits.argmax(-1).tolist()
        else:
            logits = filter_logits(logits, decoding)
            tokens = sample_next_tokens(logits, [generators[i] for i in open_prompts])
        for i, token in zip(open_prompts, tokens, strict=True):
            answers[i].append(token)
        open_rows = [row for row, token in enumerate(tokens) if token != end]
        if not open_rows:
            break
        if len(open_rows) < len(open_prompts):
            reader.keep(open_rows)
            open_prompts = [open_prompts[row] for row in open_rows]
        new_ids = [[tokens[row]] for row in open_rows]
    return answers


def filter_logits(logits: Tensor, sampling: Sampling) -> Tensor:
    """Apply temperature, top-k and top-p to logits [prompts, vocabulary].

    Tokens that must not be drawn get -inf; at least one token keeps its logit.
    """
    logits = logits / sampling.temperature
    if sampling.top_k is not None:
        smallest_kept = logits.topk(min(sampling.top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < smallest_kept, -torch.inf)
    if sampling.top_p is not None:
        ascending, order = logits.sort()
        is_excluded = ascending.softmax(-1).cumsum(-1) <= 1 - sampling.top_p
        is_excluded[:, -1] = False
        # scatter undoes the sorting.
        logits = logits.masked_fill(is_excluded.scatter(1, order, is_excluded), -torch.inf)
    return logits


def sample_next_tokens(logits: Tensor, generators: Sequence[np.random.Generator]) -> list[int]:
    """Draw a token from each row of logits [prompts, vocabulary]; each prompt has a generator."""
    cumulative = logits.double().softmax(-1).cumsum(-1).cpu().numpy()
    # The last entry of a row is 1 but for rounding; a draw must stay below it.
    return [
        int(np.searchsorted(row, rng.random() * row[-1], side="right"))
        for row, rng in zip(cumulative, generators, strict=True)
    ]


def _check_prompts(
    model: Gpt | RecurrentLanguageModel, prompts: Sequence[Sequence[int]], max_new_tokens: int
) -> None:
    """Raise InputError as `generate` describes."""
    config = model.config
    longest = config.n_positions if isinstance(config, GptConfig) else None
    for i, prompt in enumerate(prompts):
        if not len(prompt):
            raise InputError(
                f"prompts, number {i}: it has no tokens. Begin it with one, such as the start "
                "token that the model was trained with."
            )
        if longest is not None and len(prompt) + max_new_tokens > longest:
            advice = f"Shorten the prompt to at most {longest - 1} tokens."
            if len(prompt) < longest:
                allowed = option("max_new_tokens", longest - len(prompt))
                advice = f"Shorten the prompt, or give {allowed}."
            raise InputError(
                f"prompts, number {i}: {len(prompt)} tokens and {max_new_tokens} new ones are more "
                f"than the {longest} that this model reads. {advice}"
            )
        for token in prompt:
            if not 0 <= token < config.vocab_size:
                raise InputError(
                    f"prompts, number {i}: found the token {token}. This model takes 0 to "
                    f"{config.vocab_size - 1}. Use the tokenizer saved with the model."
                )
