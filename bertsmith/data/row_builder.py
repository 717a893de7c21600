"""The protocol of objects that build rows of token ids, such as [CLS] text [SEP], from texts."""

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from bertsmith.tokenization.tokenizer import Row


class RowBuilder(Protocol):
    """A builder of rows of token ids from one text or two; each `Tokenizer` is one."""

    def encode_ids(self, text: str) -> list[int]:
        """Encode a text to ids without special tokens."""
        ...

    def num_special_tokens(self, num_texts: int) -> int:
        """Count the tokens that stand around one text or two."""
        ...

    def build_row(self, parts: Sequence[Sequence[int] | NDArray[Any]]) -> Row:
        """Build a row from the ids of one text or two, each `[tokens]`."""
        ...
