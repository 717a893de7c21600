"""The engine: computes the texts of all requests, in batches of real tokens.

It is one loop. Between two batches it reads the requests that have arrived and encodes their texts;
no other thread of Python does such work, since it would take the interpreter's lock from the
forward pass. (A second thread only receives the messages.)
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.errors import BertsmithError, InputError, option
from bertsmith.serving.messages import Answers, Cancel, Message, Refusal, Stop, Work
from bertsmith.serving.request_queue import RequestQueue
from bertsmith.serving.running_mean import RunningMean
from bertsmith.serving.served_model import Definition, ServedModel
from bertsmith.tasks.fill_mask import FillMask
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.texts import TextTask


class Sender(Protocol):
    """The way back to the HTTP process."""

    def send(self, message: Any) -> None: ...


@dataclass
class _Request:
    """A request whose texts are encoded, and the results so far."""

    work: Work
    model: ServedModel
    definition: Definition
    examples: Sequence[Any]
    encoded: EncodedExamples
    encoding_seconds: float
    arrived_at: float
    queue_seconds: float | None = None
    compute_seconds: float = 0.0
    results: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """Prediction and raw outputs by the index of the text."""


@dataclass(frozen=True)
class NotFinite:
    """In place of a prediction: the model's output for this text is NaN or infinite."""


class Engine:
    """Computes requests for several models.

    Args:
        models: by name.
        sender: receives `Answers` and `Refusal`.
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
        self.speed = RunningMean()
        """Tokens that are computed per second."""
        self._requests: dict[int, _Request] = {}

    def run(self, inbox: "SimpleQueue[Message]") -> None:
        """Compute what arrives in `inbox`, until a `Stop` has arrived and nothing is left."""
        is_stopping = False
        while True:
            while not inbox.empty() or not (self.queue or is_stopping):
                message = inbox.get()
                if isinstance(message, Stop):
                    is_stopping = True
                elif isinstance(message, Cancel):
                    self.cancel(message.number)
                elif isinstance(message, Work):
                    self.accept(message)
            if not self.queue:
                return
            self.compute_batch()

    def accept(self, work: Work) -> None:
        """Encode a request and put its texts into the queue, or refuse it."""
        arrived_at = time.perf_counter()
        model = self.models[work.model]
        try:
            definition = model.definition(work.kind, work.options)
            examples = [_numbered(index, definition.example, record)
                        for index, record in enumerate(work.records)]  # fmt: skip
            encoded = self._encode(model, definition, examples)
            self._check_lengths(work, model, encoded)
        except _TextError as problem:
            self.sender.send(Refusal(work.number, problem.message, problem.index))
            return
        except BertsmithError as error:
            self.sender.send(Refusal(work.number, error.message))
            return
        now = time.perf_counter()
        self._requests[work.number] = _Request(
            work, model, definition, examples, encoded, now - arrived_at, now
        )
        self.queue.add(work.number, (work.model, work.kind, work.options), encoded.lengths)

    def cancel(self, number: int) -> None:
        """Forget a request whose client has hung up."""
        self.queue.cancel(number)
        self._requests.pop(number, None)

    def compute_batch(self) -> None:
        """Compute the next batch, and answer the requests that are complete."""
        taken: dict[int, list[int]] = defaultdict(list)
        for number, index in self.queue.take(self.max_batch_tokens):
            taken[number].append(index)
        self._compute(taken)
        waiting_seconds = self.queue.num_tokens / self.speed.value if self.speed.value else 0.0
        for number in taken:
            request = self._requests.get(number)
            if request is not None and len(request.results) == len(request.examples):
                del self._requests[number]
                self.sender.send(_answers(request, waiting_seconds))

    def _compute(self, taken: Mapping[int, list[int]]) -> None:
        """Compute texts of several requests together; if that fails, each request by itself."""
        requests = [self._requests[number] for number in taken]
        started_at = time.perf_counter()
        try:
            results = compute_texts([(request, taken[request.work.number]) for request in requests])
        except (RuntimeError, MemoryError, ValueError) as error:
            if len(taken) > 1:
                for number, indices in taken.items():
                    self._compute({number: indices})
                return
            (number,) = taken
            self.queue.cancel(number)
            del self._requests[number]
            self.sender.send(Refusal(number, _first_line(error), is_backend=True))
            return
        seconds = time.perf_counter() - started_at
        num_tokens = sum(
            request.encoded.lengths[index]
            for request in requests
            for index in taken[request.work.number]
        )
        self.speed.add(num_tokens / max(seconds, 1e-9))
        for request in requests:
            if request.queue_seconds is None:
                request.queue_seconds = started_at - request.arrived_at
            request.compute_seconds += seconds
            for index in taken[request.work.number]:
                request.results[index] = next(results)

    def _encode(
        self, model: ServedModel, definition: Definition, examples: Sequence[Any]
    ) -> EncodedExamples:
        loaded = model.loaded

        def encode(some: Sequence[Any]) -> EncodedExamples:
            return definition.encode(loaded.tokenizer, some, loaded.max_length, labelled=False)

        try:
            return encode(examples)
        except InputError:  # encode one after another, to name the text
            for index, example in enumerate(examples):
                _numbered(index, encode, [example])
            raise

    def _check_lengths(self, work: Work, model: ServedModel, encoded: EncodedExamples) -> None:
        """Refuse a request with a text that is too long.

        Raises:
            _TextError: a text would be cut although it may not be, or takes too much computing.
        """
        for index, (length, num_cut) in enumerate(
            zip(encoded.lengths, encoded.num_cut, strict=True)
        ):
            if num_cut and not work.may_cut:
                raise _TextError(
                    index,
                    f"the text has {length + num_cut:,} tokens, and the model reads at most "
                    f"{model.info.max_length:,}. Shorten it, or send {option('truncate', True)} to "
                    "leave its end out.",
                )
            if length > self.max_text_tokens:
                raise _TextError(
                    index,
                    f"the text has {length:,} tokens; this server takes at most "
                    f"{self.max_text_tokens:,} for one text. Divide it.",
                )


class _TextError(Exception):
    """A problem of one text of a request."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.message = message


def _numbered(index: int, function: Any, argument: Any) -> Any:
    """Call `function`, and let an error about the input name the text's index."""
    try:
        return function(argument)
    except InputError as error:
        raise _TextError(index, error.message) from None


def compute_texts(parts: Sequence[tuple[_Request, list[int]]]) -> Any:
    """Compute some texts of each of several requests of one model and definition.

    Returns:
        An iterator of (prediction, raw outputs), in the order of requests and indices.
    """
    first = parts[0][0]
    definition = first.definition
    encoded = EncodedExamples.concat(
        [
            request.encoded if len(indices) == len(request.encoded)
            else request.encoded.select(indices)
            for request, indices in parts
        ]
    )  # fmt: skip
    examples = [request.examples[index] for request, indices in parts for index in indices]
    outputs = definition.compute_outputs(first.model.loaded.model, encoded)
    is_finite = [
        all(np.isfinite(outputs[row]).all() for row in encoded.rows_of(example))
        for example in range(len(encoded))
    ]
    predictions = definition.decode(outputs, encoded, examples)
    raw = raw_outputs(definition, outputs, encoded)
    return iter(
        [
            (prediction if finite else NotFinite(), of_text)
            for prediction, of_text, finite in zip(predictions, raw, is_finite, strict=True)
        ]
    )


def raw_outputs(definition: Definition, outputs: Any, encoded: EncodedExamples) -> Sequence[Any]:
    """Return the outputs that predictions are made of, one entry for each text.

    They are logits in the labels' unit, fp32 `[labels]`; for hidden words arrays `[masks, top, 2]`;
    None for other heads.
    """
    if isinstance(definition, Regress):
        logits = encoded.mean_over_rows(outputs)
        return list(definition.deviation * logits + definition.mean)
    if isinstance(definition, TextTask):
        return list(encoded.mean_over_rows(outputs))
    return outputs if isinstance(definition, FillMask) else [None] * len(encoded)


def _answers(request: _Request, waiting_seconds: float) -> Answers | Refusal:
    results = [request.results[index] for index in range(len(request.examples))]
    for index, (prediction, _) in enumerate(results):
        if isinstance(prediction, NotFinite):
            return Refusal(
                request.work.number,
                "the model's output for this text is not a number (NaN or infinite), so there is "
                "no answer. The model's weights may be damaged.",
                index,
                is_backend=True,
            )
    return Answers(
        request.work.number,
        [prediction for prediction, _ in results],
        [raw for _, raw in results],
        request.encoded.lengths,
        request.encoding_seconds,
        request.queue_seconds or 0.0,
        request.compute_seconds,
        waiting_seconds,
    )


def _first_line(error: BaseException) -> str:
    """Return the first line of an error of torch, which may have a stack of C++ below it."""
    lines = str(error).splitlines() or [type(error).__name__]
    return f"the model could not compute these texts: {lines[0]}"
