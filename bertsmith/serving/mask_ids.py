"""The task that finds the likeliest tokens for masks, as ids: the HTTP process decodes them.

So the engine process, which computes for all requests, spends no time on words.
"""

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
    """Mask filling whose results are the outputs only: token ids and their probabilities.

    The predictions are None, so that the engine neither decodes words nor sends them.
    """

    target_ids: tuple[int, ...] | None = None
    """Ids of the tokens to choose from, without special tokens; None for the whole vocabulary."""

    def find_likeliest(self, probabilities: Tensor) -> Tensor:
        """Return ids and probabilities of the likeliest tokens of all, or of the targets.

        Args:
            probabilities: fp32 `[masks, vocabulary]`.

        Returns:
            fp32 `[masks, top, 2]`, where `top` is the task's number of tokens for each mask.
        """
        if self.target_ids is None:
            return super().find_likeliest(probabilities)
        targets = torch.tensor(self.target_ids, device=probabilities.device)
        values, order = probabilities[:, targets].topk(min(self.top, len(targets)))
        return torch.stack((targets[order].float(), values), -1)

    def decode(
        self, outputs: Any, encoded: EncodedExamples, examples: Sequence[Example]
    ) -> list[Any]:
        """Return None for each text: the HTTP process reads the outputs themselves."""
        return [None] * len(examples)
