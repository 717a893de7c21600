"""The engine: computes the texts of all requests, in batches without padding.

The engine is one loop in one thread, in a process of its own. Between two batches it reads the
requests that have arrived, and encodes some of their texts. No other thread encodes, because it
would take the interpreter's lock from the forward pass. (A second thread only receives messages.)
"""

import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.serving.characters import estimate_tokens
from bertsmith.serving.free_memory import FreeMemory
from bertsmith.serving.messages import (
    Answers,
    Cancel,
    Cancelled,
    ComputedBatch,
    ComputeRequest,
    Message,
    QueueState,
    Refusal,
    Stop,
)
from bertsmith.serving.recent_speed import RecentSpeed
from bertsmith.serving.request_queue import RequestQueue
from bertsmith.serving.served_model import Definition, ServedModel
from bertsmith.serving.text_encoding import RefusedRequest, TextEncoding
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.texts import TextTask

SLICE_CHARACTERS = 65_536
"""Number of characters that are encoded between two batches: enough for several batches, and a
small part of a second."""
CHARACTERS_LIKE_TOKEN = 20
"""Number of encoded characters that fragment the memory as much as one computed token: `FreeMemory`
gives freed memory back to the system after so much of either."""


class Sender(Protocol):
    """The way back to the HTTP process."""

    def send(self, message: Any) -> None: ...


@dataclass
class _EncodedRequest:
    """A request whose texts are encoded, and the results so far."""

    id: int
    model: ServedModel
    definition: Definition
    """The task that encoded the texts, and that decodes the model's outputs for them."""
    examples: Sequence[Any]
    """The texts as examples of the task."""
    encoded: EncodedExamples
    """Their token ids; a long text may have several rows, each a window of its tokens."""
    encoding_seconds: float
    encoded_at: float
    """Time on the clock of `time.perf_counter` at which its last text was encoded."""
    queue_seconds: float | None = None
    """Seconds from then until the batch of its first text; None before that batch."""
    compute_seconds: float = 0.0
    """Seconds of all batches that had one of its texts."""
    results: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """Prediction and raw outputs by the index of the text."""


@dataclass(frozen=True)
class NotFinite:
    """Placeholder for the prediction of a text whose output is NaN or infinite."""


class Engine:
    """The loop that computes the requests of several models.

    Each `ComputeRequest` gets `Answers` or a `Refusal`, or `Cancelled` if a `Cancel` comes before
    its answers are computed.

    Args:
        models: by name.
        sender: sends these messages to the HTTP process, a `ComputedBatch` for each batch, and
            `QueueState` after each batch and each `Cancel`.
        max_batch_tokens: largest number of tokens that are computed together; a longer text is
            computed alone.
        max_text_tokens: largest number of tokens of one text, over all its windows.
    """

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        sender: Sender,
        *,
        max_batch_tokens: int,
        max_text_tokens: int,
    ) -> None:
        self.models = models
        self.sender = sender
        self.max_batch_tokens = max_batch_tokens
        self.max_text_tokens = max_text_tokens
        self.queue = RequestQueue()
        self.speed = RecentSpeed()
        self._encodings: dict[int, TextEncoding] = {}
        """Requests that are not encoded yet, in the order of their turns."""
        self._requests: dict[int, _EncodedRequest] = {}
        """Requests that are encoded and not yet answered."""
        self._last_request_id = 0
        self._busy_since = time.perf_counter()
        """The end of the last batch, or the time at which a request found the engine idle."""
        self._memory = FreeMemory(max_batch_tokens)

    @property
    def is_idle(self) -> bool:
        return not (self._encodings or self.queue)

    def warm_up(self) -> None:
        """Compute random texts with each model, so that its speed is known to the first request."""
        for model in self.models.values():
            num_tokens, seconds = model.warm_up(self.max_batch_tokens)
            self.speed.add(num_tokens, seconds)

    def run(self, inbox: "SimpleQueue[Message]") -> None:
        """Compute what arrives in `inbox`, until a `Stop` has arrived and nothing is left."""
        self._send_queue_state()
        is_stopping = False
        while not (is_stopping and self.is_idle):
            # All messages are read before a text is encoded: the next one may be a Cancel. If there
            # is nothing to do, `inbox.get` waits for a message.
            while not inbox.empty() or (self.is_idle and not is_stopping):
                message = inbox.get()
                if isinstance(message, Stop):
                    is_stopping = True
                elif isinstance(message, Cancel):
                    self.cancel(message.request_id)
                elif isinstance(message, ComputeRequest):
                    self.accept(message)
            self.encode_some()
            self.compute_batch()
            self._memory.give_back(is_idle=self.is_idle)  # after the answers were sent

    def accept(self, request: ComputeRequest) -> None:
        """Let the texts of a request wait for their turn to be encoded."""
        if self.is_idle:
            self._busy_since = time.perf_counter()
        self._last_request_id = request.request_id
        self._encodings[request.request_id] = TextEncoding(
            request, self.models[request.model], self.max_text_tokens
        )

    def encode_some(self) -> None:
        """Encode about `SLICE_CHARACTERS` of the requests that have arrived, which take turns.

        A request whose texts are all encoded goes into the queue.
        """
        room = SLICE_CHARACTERS
        while room > 0 and self._encodings:
            request_id, encoding = next(iter(self._encodings.items()))
            del self._encodings[request_id]
            try:
                room -= encoding.choose_slice(room)
                encoding.encode_slice()
                if encoding.is_complete:
                    self._enqueue(encoding)
                else:
                    self._encodings[request_id] = encoding  # behind those that wait for their turn
            except RefusedRequest as refused:
                self.sender.send(refused.refusal)
            except Exception as error:
                self.sender.send(_fault(request_id, error))
        self._memory.add((SLICE_CHARACTERS - room) // CHARACTERS_LIKE_TOKEN)

    def _enqueue(self, encoding: TextEncoding) -> None:
        """Put a request whose texts are all encoded into the queue."""
        request = encoding.request
        definition = encoding.definition
        assert definition is not None
        encoded = encoding.joined()
        self._requests[request.request_id] = _EncodedRequest(
            request.request_id,
            encoding.model,
            definition,
            encoding.examples,
            encoded,
            encoding.seconds,
            encoded_at=time.perf_counter(),
        )
        # Texts with the same key are computed by one definition, so a batch may hold them together.
        batch_key = (request.model, request.kind, request.options)
        self.queue.add(request.request_id, batch_key, encoded.lengths)

    def cancel(self, request_id: int) -> None:
        """Forget a request, and confirm it unless the request has been answered already."""
        is_encoding = self._encodings.pop(request_id, None) is not None
        self.queue.cancel(request_id)
        if self._requests.pop(request_id, None) is not None or is_encoding:
            self.sender.send(Cancelled(request_id))
        self._send_queue_state()

    def compute_batch(self) -> None:
        """Compute the next batch, if there is one, and answer the requests that are complete."""
        batch: dict[int, list[int]] = defaultdict(list)
        for request_id, index in self.queue.take(self.max_batch_tokens):
            batch[request_id].append(index)
        if not batch:
            return
        self._compute(batch)
        for request_id in batch:
            request = self._requests.get(request_id)
            if request is not None and len(request.results) == len(request.examples):
                del self._requests[request_id]
                self.sender.send(_answers(request))
        self._send_queue_state()

    def _send_queue_state(self) -> None:
        """Send the number of tokens that are computed before a new request, and the speed."""
        # Texts that are not encoded yet count, too: under overload more arrive than are encoded.
        not_encoded = sum(
            estimate_tokens(encoding.num_characters, self.max_batch_tokens)
            for encoding in self._encodings.values()
        )
        encoded = self.queue.tokens_before_new(self.max_batch_tokens)
        num_tokens = encoded + not_encoded
        self.sender.send(
            QueueState(self._last_request_id, num_tokens, self.speed.seconds_per_token)
        )

    def _compute(self, batch: Mapping[int, list[int]]) -> None:
        """Compute texts of several requests together; if that fails, each request by itself.

        Args:
            batch: the indices of the texts, by the id of their request.
        """
        requests = [self._requests[request_id] for request_id in batch]
        started_at = time.perf_counter()
        try:
            results = compute_texts([(request, batch[request.id]) for request in requests])
        except Exception as error:
            if len(batch) > 1:  # so that only the request whose text is the reason is refused
                for request_id, indices in batch.items():
                    self._compute({request_id: indices})
                return
            (request_id,) = batch
            self.queue.cancel(request_id)
            del self._requests[request_id]
            self.sender.send(_not_computed(request_id, error))
            return
        seconds = time.perf_counter() - started_at
        num_tokens = sum(
            request.encoded.lengths[index] for request in requests for index in batch[request.id]
        )
        now = time.perf_counter()
        # If nothing else waits, the batch may be one short text, which does not show the speed.
        if not self.is_idle:
            self.speed.add(num_tokens, now - self._busy_since)
        self._busy_since = now
        self._memory.add(num_tokens)
        self.sender.send(ComputedBatch(sum(map(len, batch.values())), num_tokens))
        for request in requests:
            if request.queue_seconds is None:
                request.queue_seconds = started_at - request.encoded_at
            request.compute_seconds += seconds
            for index in batch[request.id]:
                request.results[index] = next(results)


def compute_texts(
    selections: Sequence[tuple[_EncodedRequest, list[int]]],
) -> Iterator[tuple[Any, Any]]:
    """Compute some texts of each of several requests of one model and definition.

    Args:
        selections: each request, with the indices of its texts to compute.

    Returns:
        An iterator of (prediction, raw outputs), in the order of requests and indices. The raw
        outputs are as `raw_outputs` describes them.
    """
    first_request = selections[0][0]
    definition = first_request.definition
    encoded_parts = []
    examples: list[Any] = []
    for request, indices in selections:
        is_whole = indices == list(range(len(request.encoded)))  # `select` would copy all rows
        encoded_parts.append(request.encoded if is_whole else request.encoded.select(indices))
        examples += [request.examples[index] for index in indices]
    encoded = EncodedExamples.concat(encoded_parts)
    outputs = definition.compute_outputs(first_request.model.loaded.model, encoded)
    predictions = definition.decode(outputs, encoded, examples)
    raw = raw_outputs(definition, outputs, encoded)
    results = []
    # A text's outputs are those of all its rows: a long text has a row for each window.
    for index, (prediction, raw_output) in enumerate(zip(predictions, raw, strict=True)):
        is_finite = all(np.isfinite(outputs[row]).all() for row in encoded.rows_of(index))
        results.append((prediction if is_finite else NotFinite(), raw_output))
    return iter(results)


def raw_outputs(definition: Definition, outputs: Any, encoded: EncodedExamples) -> Sequence[Any]:
    """Return the outputs that predictions are made of, one entry for each text.

    For classes, an entry has the logits, fp32 `[labels]`; for a regression the number in the unit
    of the training labels, fp32 `[1]`, before the sigmoid that some models apply to it; for masked
    tokens the likeliest token ids with their probabilities, fp32 `[masks, top, 2]`. It is None for
    other heads.
    """
    if isinstance(definition, Regress):
        logits = encoded.mean_over_rows(outputs)
        return list(definition.deviation * logits + definition.mean)
    if isinstance(definition, TextTask):
        return list(encoded.mean_over_rows(outputs))
    return outputs if isinstance(definition, FillMask) else [None] * len(encoded)


def _answers(request: _EncodedRequest) -> Answers | Refusal:
    """Answer a request whose texts are all computed; refuse it if an output is not finite."""
    results = [request.results[index] for index in range(len(request.examples))]
    for index, (prediction, _) in enumerate(results):
        if isinstance(prediction, NotFinite):
            return Refusal(
                request.id,
                "the model's output for this text is not a number (NaN or infinite), so there is "
                "no answer. The model's weights may be damaged.",
                index,
                is_backend=True,
            )
    return Answers(
        request.id,
        [prediction for prediction, _ in results],
        [raw for _, raw in results],
        request.encoded.lengths,
        request.encoding_seconds,
        request.queue_seconds or 0.0,
        request.compute_seconds,
    )


def _not_computed(request_id: int, error: Exception) -> Refusal:
    """Refuse a request that the model failed to compute."""
    if not isinstance(error, RuntimeError | MemoryError | ValueError):
        return _fault(request_id, error)
    # Below the first line of an error of torch there may be a stack of C++.
    lines = str(error).splitlines() or [type(error).__name__]
    message = f"the model could not compute these texts: {lines[0]}"
    return Refusal(request_id, message, is_backend=True)


def _fault(request_id: int, error: Exception) -> Refusal:
    """Refuse a request that failed by a bug of this program, and print the traceback.

    The error's own message is not printed, since it may quote the text.
    """
    print("bertsmith: a request failed by a bug of the server:", file=sys.stderr)
    traceback.print_tb(error.__traceback__)
    print(type(error).__name__, file=sys.stderr, flush=True)
    message = "the request failed by a bug of the server; see its log."
    return Refusal(request_id, message, is_backend=True)
