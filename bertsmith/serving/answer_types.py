"""The JSON of answers, as types from which /openapi.json and /docs are made."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class ScoredLabel(Struct, forbid_unknown_fields=True):
    """A label and its score.

    The score is the label's probability, or with `raw_scores` its logit. The score of a regression
    model is the number that it predicts.
    """

    score: float
    label: str


class RankedText(Struct, forbid_unknown_fields=True):
    """The index of a text in the request, and the score that it got with the query."""

    index: int
    score: float
    text: str | UnsetType = UNSET  # only if the request has `return_text`


class TextToken(Struct, forbid_unknown_fields=True):
    """A token; `start` and `stop` count characters of the text, and are null for special tokens."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class LabelledEntity(Struct, forbid_unknown_fields=True):
    """Words with one label; `start` and `end` count characters of the text."""

    entity_group: str
    score: float
    word: str
    start: int
    end: int


class PassageAnswer(Struct, forbid_unknown_fields=True):
    """A part of the passage, or an empty text if the passage has no answer.

    `start` and `end` count characters of the passage.
    """

    answer: str
    score: float
    start: int
    end: int


class MaskToken(Struct, forbid_unknown_fields=True):
    """A token for the mask, its probability, and the text in which the token replaces the mask."""

    score: float
    token: int
    token_str: str
    sequence: str


class ScoredChoice(Struct, forbid_unknown_fields=True):
    """A choice, its index in the request, and its probability."""

    index: int
    choice: str
    score: float


class Embedding(Struct, forbid_unknown_fields=True):
    """The vector of a text: numbers, or with base64 the bytes of little-endian fp32 numbers."""

    object: str
    index: int
    embedding: list[float] | str


class EmbeddingList(Struct, forbid_unknown_fields=True):
    """Vectors of texts, and the number of tokens that the model read."""

    object: str
    data: list[Embedding]
    model: str
    usage: dict[str, int]


class ProblemAnswer(Struct):
    """The answer to a request that failed: a sentence that says why, and the kind of the problem.

    On OpenAI's routes `error` is an object whose field `message` has the sentence.
    """

    error: str | dict[str, Any]
    error_type: str | UnsetType = UNSET  # not on the routes of OpenAI and of Open Inference
