"""Predictions of masked-LM models: the likeliest tokens for each mask of a text."""

import re
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from bertsmith.data.examples import Example
from bertsmith.system.counts import percent
from bertsmith.system.notebook import html_table


def normalize_masks(text: str, mask_token: str) -> str:
    """Correct the case of masks such as [mask]; leave a text with the mask token as it is.

    >>> normalize_masks("a [mask] film", "[MASK]")
    'a [MASK] film'
    """
    if mask_token in text:
        return text
    return re.sub(re.escape(mask_token), lambda _: mask_token, text, flags=re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the vocabulary and its probability.

    `token` is its text, as `token_str` in transformers. In BERT's vocabulary a token that begins
    with `##` continues a word. In RoBERTa's a token that begins with a space begins a word.
    """

    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class FilledMasks:
    """For each mask, in the order of the text, its likeliest tokens, best first."""

    masks: tuple[tuple[ScoredToken, ...], ...]
    is_truncated: bool = False
    """Whether the end of the text, which holds no mask, was cut off."""
    num_windows: ClassVar[int] = 1  # no mask is predicted in windows

    @property
    def answer(self) -> tuple[str, ...]:
        """The likeliest token for each mask."""
        return tuple(tokens[0].token for tokens in self.masks)

    def to_json(self) -> dict[str, Any]:
        masks = [[asdict(token) for token in tokens] for tokens in self.masks]
        return {"masks": masks, "is_truncated": self.is_truncated}

    def line(self, example: Example) -> str:
        return "\t".join([" ".join(map(str.strip, self.answer)), *example.one_line()])

    def _repr_html_(self) -> str:
        rows = [
            (str(number), token.token.strip(), percent(token.probability))
            for number, tokens in enumerate(self.masks, start=1)
            for token in tokens
        ]
        return html_table(rows, ("mask", "token", "probability"))
