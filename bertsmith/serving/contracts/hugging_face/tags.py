"""Token classification: words with labels, or the entities that they form."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from bertsmith.serving.call import Call
from bertsmith.serving.contracts.hugging_face.body import HubOptions
from bertsmith.serving.contracts.texts import check_texts
from bertsmith.serving.json_body import convert
from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.text_field import TextField
from bertsmith.tasks.tag_prediction import TagPrediction


class TagParameters(Struct, forbid_unknown_fields=True, frozen=True):
    """Parameters of token classification.

    The model labels whole words, so all strategies except "none" give the same entities. `stride`
    is ignored: texts are read with the stride of training.
    """

    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] = "simple"
    ignore_labels: tuple[str, ...] = ("O",)
    stride: int | None = None


class TagBody(Struct, forbid_unknown_fields=True):
    """Body of token classification."""

    inputs: str | list[str]
    parameters: TagParameters = TagParameters()
    options: HubOptions | None = None


async def tag_words(call: Call, model: ModelInfo, content: Mapping[str, Any]) -> Any:
    """Return the entities of each text, or with the strategy "none" its words with their labels."""
    body = convert(content, TagBody)
    texts = check_texts(body.inputs)
    answers = await call.compute(
        model,
        "predict",
        [{"text": text} for text in texts],
        field=TextField.of("inputs", body.inputs),
    )
    write = labelled_words if body.parameters.aggregation_strategy == "none" else labelled_entities
    rows = [write(prediction, body.parameters.ignore_labels) for prediction in answers.predictions]
    return rows[0] if isinstance(body.inputs, str) else rows


def labelled_words(prediction: TagPrediction, ignored: Sequence[str]) -> list[dict[str, Any]]:
    """List the words of a text, without those that have a label in `ignored`.

    `index` counts all words of the text from 1.
    """
    words = zip(
        prediction.label_names,
        prediction.label_probabilities,
        prediction.words,
        prediction.sentence.offsets,
        strict=True,
    )
    return [
        {"entity": label, "score": score, "index": index, "word": word, "start": start, "end": end}
        for index, (label, score, word, (start, end)) in enumerate(words, start=1)
        if label not in ignored
    ]


def labelled_entities(prediction: TagPrediction, ignored: Sequence[str]) -> list[dict[str, Any]]:
    """List the entities of a text, without those that have a label in `ignored`.

    If the labels do not form entities (scheme "plain"), each word is listed as if it were one.
    """
    if prediction.scheme == "plain":
        return [
            {
                "entity_group": word["entity"],
                "score": word["score"],
                "word": word["word"],
                "start": word["start"],
                "end": word["end"],
            }
            for word in labelled_words(prediction, ignored)
        ]
    return [
        {
            "entity_group": entity.label,
            "score": entity.probability,
            "word": entity.text,
            "start": entity.start,
            "end": entity.end,
        }
        for entity in prediction.entities
        if entity.label not in ignored
    ]
