"""Ids of the tokens for masks, which the HTTP process turns into words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.examples import Example
from bertsmith.tasks.fill_mask import FillMask


@dataclass(frozen=True)
class MaskIds(FillMask):
    """The likeliest tokens for each mask as ids and probabilities, the definition's raw outputs.

    There are no predictions beside them, so that the engine neither spells nor sends words.
    """

    target_ids: tuple[int, ...] | None = None
    """Ids of the tokens to choose among, without special ones; None for the whole vocabulary."""

    def likeliest(self, probabilities: Tensor) -> Tensor:
        if self.target_ids is None:
            return super().likeliest(probabilities)
        targets = torch.tensor(self.target_ids, device=probabilities.device)
        values, order = probabilities[:, targets].topk(min(self.top, len(targets)))
        return torch.stack((targets[order].float(), values), -1)

    def decode(
        self, outputs: Any, encoded: EncodedExamples, examples: Sequence[Example]
    ) -> list[Any]:
        return [None] * len(examples)
