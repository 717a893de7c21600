"""Encoding of a request's texts to token ids, a slice of them at a time.

The engine does nothing else while it encodes. So between two slices it reads the messages that have
arrived, and computes a batch.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.errors import BertsmithError, InputError, option
from bertsmith.serving.characters import count_characters
from bertsmith.serving.messages import ComputeRequest, Refusal
from bertsmith.serving.served_model import Definition, ServedModel

MAX_ANSWER_NUMBERS = 2**24
"""Largest number of entries that the token vectors of one request may have: 64 MiB as fp32, and 180
MB as JSON. A model with vectors of 1,024 numbers can answer for 32 texts of 512 tokens."""


class RefusedRequest(Exception):  # noqa: N818 - a request, not this program, is wrong
    """Raised for a request that cannot be computed as it is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass
class TextEncoding:
    """A request whose texts are encoded one slice after another."""

    request: ComputeRequest
    model: ServedModel
    max_text_tokens: int
    definition: Definition | None = None
    """The request's task, with the options of the request; None before the first slice is
    encoded."""
    examples: list[Any] = field(default_factory=list)
    """The texts that are encoded, as examples of the task."""
    slices: list[EncodedExamples] = field(default_factory=list)
    """The token ids of these examples, an entry for each slice."""
    slice_stop: int = 0
    """One more than the index of the last text of the chosen slice."""
    num_tokens: int = 0
    """Number of tokens of all slices."""
    seconds: float = 0.0
    """Seconds that the encoding of all slices took."""

    @property
    def is_complete(self) -> bool:
        return len(self.examples) == len(self.request.records)

    @cached_property
    def num_characters(self) -> int:
        """Number of characters of all texts."""
        return count_characters(self.request.records)

    def choose_slice(self, max_characters: int) -> int:
        """Choose the texts to encode next, until they have `max_characters` or more together.

        Returns:
            The number of characters of the chosen texts.
        """
        self.slice_stop = len(self.examples)
        num_characters = 0
        for record in self.request.records[self.slice_stop :]:
            if num_characters >= max_characters:
                break
            num_characters += count_characters([record])
            self.slice_stop += 1
        return num_characters

    def encode_slice(self) -> None:
        """Encode the chosen texts.

        Raises:
            RefusedRequest: a text is wrong or too long, or the answer would be too large.
        """
        started_at = time.perf_counter()
        records = self.request.records
        start, stop = len(self.examples), self.slice_stop
        try:
            if self.definition is None:
                self.definition = self.model.definition(self.request.kind, self.request.options)
            examples = [
                self._call_for(index, self.definition.example, records[index])
                for index in range(start, stop)
            ]
            encoded = self._encode(start, examples)
        except BertsmithError as error:
            raise self._refused(error.message) from None
        self._check_lengths(start, encoded)
        self.examples += examples
        self.slices.append(encoded)
        self.seconds += time.perf_counter() - started_at

    def joined(self) -> EncodedExamples:
        """Return all texts of a complete request."""
        return EncodedExamples.concat(self.slices)

    def _encode(self, start: int, examples: Sequence[Any]) -> EncodedExamples:
        try:
            return self._encode_together(examples)
        except InputError:  # encode one after another, to name the text
            for index, example in enumerate(examples, start):
                self._call_for(index, self._encode_together, [example])
            raise  # every text is right by itself, so the error names none

    def _encode_together(self, examples: Sequence[Any]) -> EncodedExamples:
        assert self.definition is not None
        tokenizer, max_length = self.model.loaded.tokenizer, self.model.info.max_length
        return self.definition.encode(tokenizer, examples, max_length, labelled=False)

    def _check_lengths(self, start: int, encoded: EncodedExamples) -> None:
        """Refuse texts that are too long, and requests whose answer would be too large."""
        for index, (length, num_cut) in enumerate(
            zip(encoded.lengths, encoded.num_cut, strict=True), start
        ):
            if num_cut and not self.request.may_cut:
                raise self._refused(
                    f"the text has {length + num_cut:,} tokens, and the model reads at most "
                    f"{self.model.info.max_length:,}. Shorten it, or send "
                    f"{option('truncate', True)} to leave its end out.",
                    index,
                )
            if length > self.max_text_tokens:
                raise self._refused(
                    f"the text has {length:,} tokens; this server takes at most "
                    f"{self.max_text_tokens:,} for one text. Divide it.",
                    index,
                )
        self.num_tokens += sum(encoded.lengths)
        hidden_size = self.model.info.hidden_size
        max_tokens = MAX_ANSWER_NUMBERS // hidden_size
        if self.request.kind == "token_vectors" and self.num_tokens > max_tokens:
            raise RefusedRequest(
                Refusal(
                    self.request.request_id,
                    f"the texts have more than {max_tokens:,} tokens, each of which gets a vector "
                    f"of {hidden_size:,} numbers; that is the largest answer. Divide the request.",
                    is_too_large=True,
                )
            )

    def _call_for(self, index: int, function: Any, argument: Any) -> Any:
        """Call `function`; an error about the input becomes a refusal with the text's index."""
        try:
            return function(argument)
        except InputError as error:
            raise self._refused(error.message, index) from None

    def _refused(self, message: str, index: int | None = None) -> RefusedRequest:
        return RefusedRequest(Refusal(self.request.request_id, message, index))
