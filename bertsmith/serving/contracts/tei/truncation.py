"""The end at which long texts are cut, as text-embeddings-inference spells it."""

from typing import Literal

TruncationDirection = Literal["left", "right", "Left", "Right"]
