"""The end at which long texts are cut, as text-embeddings-inference spells it."""

from typing import Literal

from bertsmith.serving.problems import invalid

TruncationDirection = Literal["left", "right", "Left", "Right"]


def check_cut_at_end(direction: TruncationDirection) -> None:
    """Check that texts are to be cut at their end, for routes that cannot cut the beginning.

    Raises:
        Problem: 422 if they are to be cut at their beginning.
    """
    if direction.lower() == "left":
        raise invalid(
            "truncation_direction: found 'left', which is possible only for vectors. Leave it "
            "out, or cut the text yourself."
        )
