"""Text generation: a GPT or LSTM and its tokenizer continue texts."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bertsmith.lineage.beam_search import BeamSearch
from bertsmith.lineage.generation import Sampling, check_list, generate, start_token_id
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import load_gpt
from bertsmith.lineage.gpt_tokenizer import load_text_tokenizer
from bertsmith.lineage.recurrent import RecurrentLanguageModel
from bertsmith.lineage.recurrent_folder import load_recurrent
from bertsmith.lineage.system_folder import read_model_type
from bertsmith.model.hub import find_checkpoint
from bertsmith.system.hardware import select_device
from bertsmith.tokenization.tokenizer import Tokenizer

NEW_TOKENS = 50
"""Number of new tokens by default, if the model can read so many."""


@dataclass(frozen=True)
class Continuation:
    """A text's continuation."""

    text: str
    """The whole text, decoded from its tokens."""
    continuation: str
    """Only the new part."""
    num_tokens: int
    """The number of new tokens, without the end token."""
    is_ended: bool
    """Whether the model ended the text before it had written the maximum number of tokens."""


class TextGenerator:
    """A GPT or LSTM with its tokenizer: texts in, continued texts out."""

    def __init__(
        self, model: Gpt | RecurrentLanguageModel, tokenizer: Tokenizer, *, has_start: bool = True
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.has_start = has_start
        """Whether the model was trained on texts that begin with a start token, unlike GPT-2."""

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """Load a folder, or a model of the Hugging Face hub.

        Raises:
            CheckpointError: there is no such folder, or it has no tokenizer, or its model continues
                no texts.
            ConfigError: this machine has no such device.
        """
        target = select_device(device)
        directory = find_checkpoint(path)
        is_recurrent = read_model_type(directory) == "recurrent"
        model = load_recurrent(directory) if is_recurrent else load_gpt(directory)
        tokenizer, has_start = load_text_tokenizer(directory)
        return cls(model.to(target), tokenizer, has_start=has_start)

    @property
    def longest(self) -> int | None:
        """Maximum number of tokens that the model reads; None if there is no limit."""
        config = self.model.config
        return config.n_positions if isinstance(config, GptConfig) else None

    def encode_prompt(self, text: str) -> list[int]:
        """Encode a text, with the start token if the model has one or the text is empty."""
        ids = self.tokenizer.encode_ids(text)
        if ids and not self.has_start:
            return ids
        return [start_token_id(self.model, self.tokenizer), *ids]

    def __call__(
        self,
        texts: Iterable[str],
        max_new_tokens: int | None = None,
        decoding: Sampling | BeamSearch | None = None,
    ) -> list[Continuation]:
        """Continue each text by at most `max_new_tokens` tokens; an empty text begins a new one.

        Args:
            max_new_tokens: by default `NEW_TOKENS`, or as many as the model can read after the
                longest of the texts.
            decoding: as `generate` takes it; by default the likeliest token each time.

        Raises:
            InputError: `texts` is no list, or a text and `max_new_tokens` new tokens are more than
                the model reads.
            CheckpointError: the model's output is not a number.
        """
        check_list(texts)
        prompts = [self.encode_prompt(text) for text in texts]
        if max_new_tokens is None:
            max_new_tokens = self._room_after(max(map(len, prompts), default=0))
        answers = generate(self.model, prompts, max_new_tokens, decoding)
        return [
            self._describe(prompt, new_ids)
            for prompt, new_ids in zip(prompts, answers, strict=True)
        ]

    def _room_after(self, num_tokens: int) -> int:
        """Return the default number of new tokens after a text of `num_tokens`, at least 1."""
        if self.longest is None:
            return NEW_TOKENS
        return max(1, min(NEW_TOKENS, self.longest - num_tokens))

    def _describe(self, prompt: list[int], new_ids: list[int]) -> Continuation:
        """Decode a prompt with its new tokens, and the new tokens alone."""
        is_ended = new_ids[-1:] == [self.model.config.eos_token_id]
        num_tokens = len(new_ids) - is_ended
        # The embedding table of a model may have more rows than its tokenizer has tokens.
        known_ids = [id_ for id_ in new_ids[:num_tokens] if id_ < self.tokenizer.vocab_size]
        decode = self.tokenizer.decode
        return Continuation(decode(prompt + known_ids), decode(known_ids), num_tokens, is_ended)
