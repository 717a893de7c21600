"""`Call`: one HTTP request, with its body, its model and its answer.

A handler, the function that answers the requests of a route, gets a `Call` and returns a response.
If it raises a `Problem`, the client gets the problem's status and sentence.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import orjson
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from bertsmith.serving.characters import count_characters
from bertsmith.serving.client_text import clip_text
from bertsmith.serving.heads import REQUIRED_MODELS, wrong_head
from bertsmith.serving.json_body import parse
from bertsmith.serving.messages import Answers, ModelInfo, ResultKind
from bertsmith.serving.problems import (
    CLIENT_CLOSED,
    Problem,
    hung_up,
    invalid,
    too_many_texts,
)
from bertsmith.serving.service import Service
from bertsmith.serving.text_field import TextField
from bertsmith.serving.worker_thread import run_in_worker_thread

Body = TypeVar("Body", bound=msgspec.Struct)
Result = TypeVar("Result")
MAX_DISCARD_FACTOR = 16
"""A body that is too large is read to its end if it is at most this many times the limit."""


class Call:
    """A request to one model.

    The model is the one that the path names, else the first.
    """

    def __init__(self, service: Service, request: Request) -> None:
        self.service = service
        self.request = request
        self.answers: Answers | None = None  # from `compute` on; other routes compute nothing
        self.num_characters = 0
        self.started_at = time.perf_counter()

    @property
    def model(self) -> ModelInfo:
        """The model that the path names, else the first.

        Raises:
            Problem: 404 if there is none of this name.
        """
        return self.service.model(self.request.path_params.get("model"))

    @property
    def num_tokens(self) -> int:
        """Number of tokens that the model has read for this request."""
        return 0 if self.answers is None else sum(self.answers.num_tokens)

    async def read(self) -> bytes:
        """Read the whole body.

        A body that is too large is read to its end, up to `MAX_DISCARD_FACTOR` times the limit: a
        client that is still sending would not read the error, but only see a closed connection.

        Raises:
            Problem: 413 if it is too large, 415 if it is compressed, 408 if it does not arrive in
                time, or 429 if too many bodies arrive at a time.
        """
        limit = self.service.limits.max_body_bytes
        encoding = self.request.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise invalid(
                f"the body is sent with Content-Encoding: {clip_text(encoding)}. Send it as it is, "
                "without this header.",
                status=415,
            )
        chunks = []
        size = num_held = 0
        try:
            async with asyncio.timeout(self.service.limits.timeout_seconds):
                async for chunk in self.request.stream():
                    size += len(chunk)
                    if size > limit * MAX_DISCARD_FACTOR:
                        break
                    if size <= limit:  # what comes beyond is read, but not kept
                        self.service.arriving_bytes.add(len(chunk))
                        num_held = size
                        chunks.append(chunk)
        except ClientDisconnect:
            raise hung_up() from None
        except TimeoutError:
            raise invalid(
                f"the body did not arrive within {self.service.limits.timeout_seconds:g} seconds.",
                status=408,
            ) from None
        finally:
            self.service.arriving_bytes.subtract(num_held)
        if size > limit:
            raise too_large(limit)
        return b"".join(chunks)

    async def body(self, body_type: type[Body]) -> Body:
        """Read the body and check its fields.

        Raises:
            Problem: 400 if it is not JSON, or 422 if a field is missing, unknown or of another
                type.
        """
        return parse(await self.read(), body_type)

    def require(self, kind: ResultKind, route: str) -> ModelInfo:
        """Return the model, after a check that it has results of this kind.

        Args:
            kind: "predict", "vectors" or "token_vectors".
            route: the path of the route, for the message.

        Raises:
            Problem: 424 if its head does not give them.
        """
        model = self.model
        self.check_kind(model, kind, route)
        return model

    def check_kind(self, model: ModelInfo, kind: ResultKind, route: str) -> None:
        """Check that a model has results of this kind.

        Raises:
            Problem: 424 if its head does not give them.
        """
        if kind not in model.kinds:
            raise self.wrong_head(model, route, REQUIRED_MODELS[kind])

    def wrong_head(self, model: ModelInfo, route: str, needed: str) -> Problem:
        """Build the problem of a route that the model's head cannot answer."""
        # Only the first model answers without /models/NAME before the path.
        has_short_paths = model.name == next(iter(self.service.models))
        return wrong_head(model, route, needed, has_short_paths=has_short_paths)

    def model_for_vectors(self, name: str | None) -> ModelInfo:
        """Return the model that a body names; without a name, the first one that gives vectors.

        If the server has one model, any name means this one: clients of OpenAI must give a name,
        and it is often that of a model of OpenAI.

        Raises:
            Problem: 404 if there are several models, and none of this name.
        """
        models = self.service.models
        # Before the service is ready, the kinds of results of its models are not known.
        if name is None and self.service.is_ready:
            with_vectors = [model.name for model in models.values() if "vectors" in model.kinds]
            name = with_vectors[0] if with_vectors else None
        return self.model if len(models) == 1 else self.service.model(name)

    async def compute(
        self,
        model: ModelInfo,
        kind: ResultKind,
        records: Sequence[Mapping[str, Any]],
        *,
        options: Mapping[str, Any] | None = None,
        may_cut: bool = True,
        field: str | TextField = "inputs",
    ) -> Answers:
        """Compute texts as `Service.compute` does; stop if the client closes the connection.

        Args:
            kind: "predict", "vectors" or "token_vectors".
            records: one for each text, with the fields of the model's task, such as "text".
            options: settings of the task for this request alone.
            may_cut: whether a text that is too long is cut; otherwise the request is refused.
            field: the field of the body that has the texts, for messages.
        """
        # text-embeddings-inference counts the texts of all routes under these two names.
        name = "te_embed" if kind != "predict" else "te_predict"
        self.service.metrics.counters.add(f"{name}_count", len(records))
        started_at = time.perf_counter()
        self.num_characters = count_characters(records)
        self.answers = await self.service.compute(
            model,
            kind,
            records,
            options=options,
            may_cut=may_cut,
            field=field,
            # The body was read, so the next event is the hang-up.
            wait_for_hang_up=self.request.receive,
        )
        self.service.metrics.counters.add(f"{name}_success", len(records))
        self.service.metrics.observe_times(name, self.answers, time.perf_counter() - started_at)
        return self.answers

    async def run_on_texts(
        self, function: Callable[..., Result], texts: Sequence[Any], *args: Any, field: str
    ) -> Result:
        """Call a function with texts, or with lists of ids, in the worker thread of this process.

        Meanwhile the texts count against the limits of the texts that the server holds, like those
        that the engine computes.

        Raises:
            Problem: 413 if there are too many, or 429 if the server holds too many others now.
        """
        if len(texts) > self.service.limits.max_texts:
            raise too_many_texts(len(texts), self.service.limits.max_texts, field)
        num_characters = sum(map(len, texts))
        self.service.admission.admit(len(texts), num_characters)
        try:
            return await run_in_worker_thread(function, texts, *args)
        finally:
            self.service.admission.release(len(texts), num_characters)

    def headers(self) -> dict[str, str]:
        """Return headers with the times of the request, named as in text-embeddings-inference."""
        answers = self.answers
        if answers is None:
            return {}
        seconds_by_header = {
            "x-total-time": time.perf_counter() - self.started_at,
            "x-tokenization-time": answers.encoding_seconds,
            "x-queue-time": answers.queue_seconds,
            "x-inference-time": answers.compute_seconds,
        }
        return {
            "x-compute-type": self.service.compute_type,
            "x-compute-time": f"{seconds_by_header['x-total-time'] * 1000:.0f}",
            "x-compute-characters": str(self.num_characters),
            "x-compute-tokens": str(self.num_tokens),
            **{name: f"{seconds * 1000:.0f}" for name, seconds in seconds_by_header.items()},
        }


def too_large(limit: int) -> Problem:
    """Build the problem of a body that is larger than `limit` bytes."""
    return invalid(
        f"the body has more than {limit:,} bytes, the limit of this server. Divide the request.",
        status=413,
    )


def answer_json(content: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Write `content`, which may contain numpy arrays, as JSON."""
    return Response(
        orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS),
        media_type="application/json",
        headers=dict(headers or {}),
    )


def stream_arrays(arrays: Sequence[NDArray[Any]]) -> Response:
    """Write a list of arrays as JSON, one array after another.

    The whole text is never in memory, and other requests are served between two arrays.
    """

    async def iter_json() -> AsyncIterator[bytes]:
        yield b"["
        for index, array in enumerate(arrays):
            if index:
                yield b","
            yield orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
            await asyncio.sleep(0)
        yield b"]"

    return StreamingResponse(iter_json(), media_type="application/json")


Handler = Callable[[Call], Awaitable[Response]]
"""A function that answers the requests of one route."""
ProblemFormat = Callable[[Problem], Any]
"""A function that returns the JSON of an error, which differs between contracts."""


def endpoint(
    service: Service, handler: Handler, *, metric_label: str, problem_format: ProblemFormat
) -> Callable[[Request], Awaitable[Response]]:
    """Build an endpoint of Starlette from a handler.

    Args:
        metric_label: name of the route in the metrics.
        problem_format: makes the body of an error, as the clients of the route expect it.
    """

    async def respond(request: Request) -> Response:
        call = Call(service, request)
        service.metrics.count_request(metric_label)
        try:
            response = await handler(call)
        except Problem as problem:
            is_hang_up = problem.status == CLIENT_CLOSED
            service.metrics.count_failure("dropped" if is_hang_up else problem.error_type.lower())
            response = answer_json(problem_format(problem), problem.headers)
            response.status_code = problem.status
            return response
        except Exception:
            service.metrics.count_failure("fault")
            raise
        service.metrics.count_success(metric_label, time.perf_counter() - call.started_at)
        response.headers.update(call.headers())
        return response

    return respond
