"""/predict: classes of texts and pairs."""

from collections.abc import Sequence

from msgspec import Struct
from starlette.responses import Response

from bertsmith.serving.call import Call, answer_json
from bertsmith.serving.contracts.label_scores import label_scores
from bertsmith.serving.contracts.pairs import check_pairs
from bertsmith.serving.contracts.text_embeddings_inference.truncation import (
    TruncationDirection,
    check_cut_at_end,
)
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import empty, invalid
from bertsmith.serving.text_field import TextField

Pair = str | list[str]
"""A text, a list with one text, or a pair of texts."""


class PredictBody(Struct, forbid_unknown_fields=True):
    """Body of /predict: a text, a pair `["a", "b"]`, or a batch `[["a"], ["a", "b"]]`."""

    inputs: str | list[Pair]
    truncate: bool | None = None
    truncation_direction: TruncationDirection = "right"
    raw_scores: bool = False


async def predict(call: Call) -> Response:
    """Answer with the labels of each text or pair, the best first, or with its number."""
    model = call.model
    if model.task != "text-classification":
        raise call.wrong_head(model, "/predict", "a model for classes or numbers of texts")
    body = await call.body(PredictBody)
    check_cut_at_end(body.truncation_direction)
    # A text, or a list that has a text in it, is one row; in a list of lists, each list is a row.
    is_one_row = isinstance(body.inputs, str) or any(isinstance(row, str) for row in body.inputs)
    if is_one_row and isinstance(body.inputs, list):
        _check_pair(body.inputs, model)
    rows: Sequence[Pair] = [body.inputs] if is_one_row else body.inputs  # type: ignore[list-item]
    if not rows:
        raise empty("inputs: found no text. Send at least one.")
    field = TextField.of_one("inputs") if is_one_row else TextField("inputs")
    records = [_record(row, field.of_text(index)) for index, row in enumerate(rows)]
    check_pairs(model, records, field, single="[TEXT]", pair="[[TEXT, TEXT]]")
    answers = await call.compute(
        model, "predict", records, may_cut=body.truncate is not False, field=field
    )
    scored = [
        [{"score": score, "label": label} for label, score in scores]
        for scores in label_scores(model, answers, raw=body.raw_scores)
    ]
    return answer_json(scored[0] if is_one_row else scored)


def _check_pair(inputs: Sequence[Pair], model: ModelInfo) -> None:
    """Check that a list of texts, which this route reads as a pair, can be a pair.

    Raises:
        Problem: 422 if there are not two texts, or if the model reads single texts.
    """
    advice = 'Send each of several texts in a list of its own: [["a text"], ["another"]].'
    if len(inputs) != 2 or not all(isinstance(text, str) for text in inputs):
        raise invalid(f"inputs: a list of texts is a pair of two. {advice}")
    if model.reads_pairs is False:
        raise invalid(
            f"inputs: a list of two texts is a pair, and '{model.name}' was trained on single "
            f"texts. {advice}"
        )


def _record(row: Pair, where: str) -> dict[str, str]:
    texts = [row] if isinstance(row, str) else row
    if len(texts) not in (1, 2):
        raise invalid(f"{where}: found {len(texts)} texts. Send one text, or a pair of two.")
    for text in texts:
        if not text:
            raise empty(f"{where}: the text is empty.")
    return dict(zip(("text", "pair"), texts, strict=False))
