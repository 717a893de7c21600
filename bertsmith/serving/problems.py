"""Problems that the server reports to a client: a status of HTTP, a kind, and a sentence."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from bertsmith.errors import as_fields
from bertsmith.serving.messages import Refusal
from bertsmith.serving.text_field import TextField

ProblemType = Literal[
    "Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty", "Unauthorized"
]
"""Kinds of problems, as text-embeddings-inference names them; the last is ours."""


CLIENT_CLOSED = 499
"""Status of a request whose client has closed the connection, as in the logs of nginx."""


class Problem(Exception):  # noqa: N818 - most of them are mistakes of clients
    """A request that gets no answer.

    Args:
        status: the status of HTTP.
        error_type: the kind of the problem.
        message: a sentence for the user.
        headers: further headers of the response.
    """

    def __init__(
        self,
        status: int,
        error_type: ProblemType,
        message: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.message = message
        self.headers = dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        return {"error": self.message, "error_type": self.error_type}


@contextmanager
def renaming_inputs(name: str) -> Iterator[None]:
    """Replace `inputs` in the messages of the block's problems by `name`.

    Some routes, such as KServe's, pass their texts to the handlers of the Hugging Face routes.
    These call the field of the texts `inputs`, while in the request it has another name.
    """
    try:
        yield
    except Problem as problem:
        problem.message = re.sub(r"(?<![\w.])inputs\b", name, problem.message)
        raise


def invalid(message: str, status: int = 422) -> Problem:
    """Build the problem of a request that the client has to change, or to send again (408)."""
    return Problem(status, "Validation", message)


def empty(message: str) -> Problem:
    """Build the problem of a request without a text."""
    return Problem(400, "Empty", message)


def too_many_texts(count: int, limit: int, field: str | TextField) -> Problem:
    """Build the problem of a request with more texts than the server takes."""
    return invalid(
        f"{field}: found {count:,} texts; this server takes at most {limit:,} in one request. "
        "Divide it.",
        status=413,
    )


def overloaded(message: str, seconds: int = 1) -> Problem:
    """Build the problem of a request that may be answered if it is sent again after `seconds`."""
    return Problem(429, "Overloaded", message, {"Retry-After": str(seconds)})


def unhealthy(message: str) -> Problem:
    """Build the problem of a server that does not compute at the moment."""
    return Problem(503, "Unhealthy", message, {"Retry-After": "5"})


def hung_up() -> Problem:
    """Build the problem of a client that has closed the connection; nobody reads it."""
    # text-embeddings-inference has no kind for that.
    return Problem(CLIENT_CLOSED, "Overloaded", "the client closed the connection")


def problem_of_refusal(refusal: Refusal, field: str | TextField) -> Problem:
    """Build the problem of a request that the engine refused.

    Args:
        field: the field of the request that has the texts; a `TextField` also has the path of each
            text.
    """
    field = TextField(field) if isinstance(field, str) else field
    where = "" if refusal.index is None else f"{field.of_text(refusal.index)}: "
    message = where + as_fields(refusal.message)  # spells options as fields of JSON
    if refusal.is_backend:  # with the status of text-embeddings-inference for this kind
        return Problem(424, "Backend", message)
    return invalid(message, status=413 if refusal.is_too_large else 422)
