"""Question answering, in the form of transformers' pipeline."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions, TopK, as_rows
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.json_body import convert
from bertsmith.serving.messages import ModelInfo
from bertsmith.tasks.answer_prediction import AnswerPrediction


class QuestionAndContext(Struct, forbid_unknown_fields=True):
    """A question, and the passage that has its answer."""

    question: str
    context: str


class AnswerParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of question answering.

    `align_to_words`, `doc_stride`, `max_question_len` and `max_seq_len` are ignored: long contexts
    are read in windows as in training.
    """

    top_k: TopK = None
    max_answer_len: Annotated[int, Meta(ge=1)] | None = None
    handle_impossible_answer: bool | None = None
    align_to_words: bool | None = None
    doc_stride: int | None = None
    max_question_len: int | None = None
    max_seq_len: int | None = None


class AnswerBody(Struct, forbid_unknown_fields=True):
    """Body of question answering."""

    inputs: QuestionAndContext | list[QuestionAndContext]
    parameters: AnswerParameters = AnswerParameters()
    options: HubOptions | None = None


async def answer_questions(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the best answer to each question; a list of answers if `top_k` asks for several."""
    body = convert(content, AnswerBody)
    parameters = body.parameters
    rows, field = as_rows(body.inputs)
    for index, row in enumerate(rows):
        check_texts(row.question, f"{field.of_text(index)}.question")
        check_texts(row.context, f"{field.of_text(index)}.context")
    records = [{"question": row.question, "context": row.context} for row in rows]
    options: dict[str, Any] = {}
    if parameters.max_answer_len is not None:
        options["max_answer_length"] = parameters.max_answer_len
    answers = await call.compute(model, "predict", records, options=options, field=field)
    count = parameters.top_k or 1
    results: list[Any] = [
        answer_rows(prediction, count, may_abstain=parameters.handle_impossible_answer)
        for prediction in answers.predictions
    ]
    if count == 1:
        results = [rows_of_question[0] for rows_of_question in results]
    return results if isinstance(body.inputs, list) else results[0]


def answer_rows(
    prediction: AnswerPrediction, count: int, *, may_abstain: bool | None
) -> list[dict[str, Any]]:
    """Return the best answers, at most `count`; "no answer" is an empty text with start and end 0.

    Args:
        may_abstain: whether "no answer" is allowed; None leaves it to the model.
    """
    rows = [
        {"answer": text, "score": score, "start": start, "end": end}
        for text, start, end, score in prediction.candidates(count)
    ]
    if not prediction.is_answered and may_abstain is not False:
        rows.insert(0, {"answer": "", "score": prediction.probability, "start": 0, "end": 0})
    return rows[:count] or [{"answer": "", "score": 0.0, "start": 0, "end": 0}]
