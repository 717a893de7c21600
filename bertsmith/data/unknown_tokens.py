"""Count the tokens that the vocabulary does not know ([UNK]), and warn if they are many."""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertsmith.errors import warn_once
from bertsmith.system.counts import percent
from bertsmith.tokenization.tokenizer import Tokenizer

NOTED_RATE = 0.02
"""Share of unknown tokens above which the share is mentioned."""
WARNING_RATE = 0.2
"""Share of unknown tokens above which a warning is due."""
WARNING_RATE_IN_SHORT_TEXT = 0.5
"""Share of unknown tokens above which a warning is due for a text of fewer than `MANY_TOKENS`
tokens, in which a few names or emoji may make up a fifth."""
MANY_TOKENS = 100


@dataclass
class UnknownTokens:
    """Counts tokens other than [CLS] and [SEP], and how many of them are unknown."""

    num_tokens: int = 0
    num_unknown: int = 0
    is_reported: bool = False
    """Whether `warn` is silent: it has warned already, or the user is told in another way, such as
    with the results of a command."""

    def add(self, ids: NDArray[np.int32], tokenizer: Tokenizer) -> None:
        """Count the tokens of a row, int32 `[tokens]`, except for its [CLS] and [SEP]."""
        is_framing = (ids == tokenizer.cls_id) | (ids == tokenizer.sep_id)
        self.num_tokens += len(ids) - int(np.count_nonzero(is_framing))
        self.num_unknown += int(np.count_nonzero(ids == tokenizer.unk_id))

    def merge(self, other: "UnknownTokens") -> None:
        """Add the counts of other texts."""
        self.num_tokens += other.num_tokens
        self.num_unknown += other.num_unknown

    @property
    def rate(self) -> float:
        """The share of unknown tokens, 0 to 1; 0 if there are no tokens."""
        return self.num_unknown / max(1, self.num_tokens)

    @property
    def needs_warning(self) -> bool:
        """Whether a warning is due: more than a fifth of the tokens, or half in a short text."""
        limit = WARNING_RATE if self.num_tokens >= MANY_TOKENS else WARNING_RATE_IN_SHORT_TEXT
        return self.rate > limit

    def warn(self, source: object) -> None:
        """Warn once if many tokens are unknown, by a Python warning."""
        if self.is_reported or not self.needs_warning:
            return
        self.is_reported = True
        warn_once(f"{source}: {describe_rate(self.rate)}.")


def describe_rate(rate: float) -> str | None:
    """Describe the share of unknown tokens; None if it is small."""
    if rate <= NOTED_RATE:
        return None
    share = f"{percent(rate)} of the tokens are unknown to the vocabulary"
    if rate <= WARNING_RATE:
        return share
    return (
        f"{share}, so the model cannot read them: take a model for this language and kind of text, "
        "or check the file's encoding"
    )


def warn_unknown(rate: float, source: object) -> None:
    """Print to standard error what share of the tokens is unknown, unless the share is small.

    Commands print this for a whole file; if the share is large, the line begins with WARNING.
    """
    if (description := describe_rate(rate)) is not None:
        warning = "WARNING: " if rate > WARNING_RATE else ""
        print(f"{warning}{source}: {description}.", file=sys.stderr, flush=True)
