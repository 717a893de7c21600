"""Messages between the HTTP process and the engine process, which computes.

None of them needs torch, since the HTTP process does without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bertsmith.serving.folder_state import FolderState
from bertsmith.tasks.sentence_folder import Similarity

ResultKind = Literal["predict", "vectors", "token_vectors"]
"""The kind of result that a request asks for: predictions of the model's head, a vector for each
text, or a vector for each token of each text."""


@dataclass(frozen=True)
class ModelInfo:
    """A model as the HTTP process knows it."""

    name: str
    path: str
    """Folder or hub name, as the user gave it."""
    folder: str
    """Folder that the model was read from; for a model of the hub, a folder of the hub's cache."""
    task: str
    """The tag of the Hugging Face pipeline that does the same, such as text-classification."""
    kinds: tuple[ResultKind, ...]
    """The kinds of results that the model gives."""
    is_multi_label: bool
    """Whether a text may have several labels."""
    is_regression: bool
    """Whether the head gives a number, such as the score of a pair of texts."""
    reads_pairs: bool | None
    """Whether the model was trained on pairs of texts; None if that is not known."""
    labels: tuple[str, ...]
    max_length: int
    """Maximum number of tokens of a text, with special tokens."""
    hidden_size: int
    model_type: str
    precision: str
    device_name: str
    """The device, such as cpu or cuda:0."""
    num_threads: int
    pooling: str | None = None
    """Pooling of the vectors, and None if the model gives none."""
    similarity: Similarity = "cosine"
    """The comparison of two vectors that the folder names."""
    folder_state: FolderState = ()
    """Names, sizes and times of change of the folder's files when loading began."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Texts that the folder names for putting before each text, such as "query: ", by name."""


@dataclass(frozen=True)
class ComputeRequest:
    """The texts of one HTTP request, to be computed by one model.

    `records` has one entry for each text, with the fields of the task, such as `{"text": "…"}`.
    `options` are settings of the task for this request alone, such as `("top", 10)`: ten tokens
    for a mask.
    """

    request_id: int
    model: str
    kind: ResultKind
    records: Sequence[Mapping[str, Any]]
    options: tuple[tuple[str, Any], ...] = ()
    may_cut: bool = True
    """Whether a text above the model's maximum length is cut; otherwise it is refused."""


@dataclass(frozen=True)
class Cancel:
    """The order to drop a request whose client no longer waits."""

    request_id: int


@dataclass(frozen=True)
class Stop:
    """The order to end after the requests that have been sent."""


@dataclass(frozen=True)
class Ready:
    """The engine has loaded and warmed up all models."""

    models: Sequence[ModelInfo]
    max_batch_tokens: int
    """Number of tokens that are computed together."""


@dataclass(frozen=True)
class Failed:
    """The engine cannot start; `message` names options as bertsmith.errors does."""

    message: str


@dataclass(frozen=True)
class Answers:
    """The results of one request.

    `predictions` has one entry for each record: the task's prediction (of vectors, an object with
    the `vector`), an array of token vectors, or None for masked tokens. `raw` has for each record
    the outputs of the head that the prediction was made of: logits, fp32 `[labels]`; for a
    regression the number before the model's sigmoid, if it has one, fp32 `[1]`; for masked tokens
    an array `[masks, top, 2]` of token ids and probabilities; None for other heads.
    """

    request_id: int
    predictions: Sequence[Any]
    raw: Sequence[Any]
    num_tokens: Sequence[int]
    """Number of tokens that the model read for each record."""
    encoding_seconds: float
    """Seconds of tokenizing."""
    queue_seconds: float
    """Seconds from the end of tokenizing until the first batch with one of the texts."""
    compute_seconds: float
    """Seconds of all batches with one of the texts."""


@dataclass(frozen=True)
class Refusal:
    """A request that the engine did not compute.

    `index` is the index of the record that is the reason, if there is one. `is_backend` is true if
    the model, not the request, is the reason, and `is_too_large` if a smaller request would do.
    """

    request_id: int
    message: str
    index: int | None = None
    is_backend: bool = False
    is_too_large: bool = False


@dataclass(frozen=True)
class Cancelled:
    """The engine has dropped a request, as `Cancel` asked; there is no answer."""

    request_id: int


@dataclass(frozen=True)
class QueueState:
    """The tokens that the engine computes before a new request has its turn."""

    last_request_id: int
    """Id of the latest request that is counted; requests with higher ids had not arrived."""
    num_tokens: int
    seconds_per_token: float
    """Seconds that the engine takes for a token, encoding and all its other work included: the mean
    over the latest batches under load."""


@dataclass(frozen=True)
class ComputedBatch:
    """The size of a batch: texts of one or several requests that were computed together."""

    num_texts: int
    num_tokens: int


Message = (
    ComputeRequest
    | Cancel
    | Stop
    | Ready
    | Failed
    | Answers
    | Refusal
    | Cancelled
    | QueueState
    | ComputedBatch
)
