"""The check that a request has single texts, or pairs of texts, as the model's training had."""

from collections.abc import Mapping, Sequence

from bertsmith.serving.messages import ModelInfo
from bertsmith.serving.problems import invalid
from bertsmith.serving.text_field import TextField


def check_pairs(
    model: ModelInfo,
    records: Sequence[Mapping[str, str]],
    field: TextField,
    *,
    single: str,
    pair: str,
) -> None:
    """Check that a model was trained on the kind of texts of a request, if the kind is known.

    Args:
        single: the form of a single text in this route, with TEXT for the text itself.
        pair: the form of a pair of texts in this route.

    Raises:
        Problem: 422 if the model was trained on the other kind.
    """
    for index, record in enumerate(records):
        if model.reads_pairs is False and "pair" in record:
            raise invalid(
                f"{field.of_text(index)}: found a pair of texts, and '{model.name}' was trained on "
                f"single texts. Send {single} for each of them."
            )
        if model.reads_pairs and "pair" not in record:
            raise invalid(
                f"{field.of_text(index)}: found a single text, and '{model.name}' was trained on "
                f"pairs of texts. Send {pair}."
            )
