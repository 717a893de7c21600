"""The vectors of a group of examples of `finetune embed`, which trains text vectors.

A group is the examples whose texts are compared with each other. It is the argument of a loss.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.data.batches import Batch


@dataclass(frozen=True, eq=False)
class RelatedVectors:
    """The vectors of a group of examples' texts, in fp32, and the examples' scores.

    An example has an anchor, a positive (a text that belongs to the anchor) and perhaps negatives
    (texts that do not belong to the anchor). The candidates are the texts that each anchor is
    compared with: the positives and negatives of all examples in the group.

    Shapes: `anchors` `[examples, hidden]`, `candidates` `[candidates, hidden]`; `owners` int64
    `[candidates]`, the index of each candidate's example; `positive_indices` int64 `[examples]`,
    the index of each example's positive among the candidates; `anchor_texts` int64 `[examples]` and
    `candidate_texts` int64 `[candidates]`, numbers that are the same for equal texts;
    `target_cosines` fp32 `[examples]`, the scores mapped linearly so that `score_range` becomes 0
    to 1, or None if the examples have no scores.
    """

    anchors: Tensor
    candidates: Tensor
    owners: Tensor
    positive_indices: Tensor
    anchor_texts: Tensor
    candidate_texts: Tensor
    target_cosines: Tensor | None = None
    score_range: tuple[float, float] = (0.0, 1.0)
    temperature: float = 0.05
    """The option `--temperature`."""

    @classmethod
    def of_batch(
        cls, vectors: Tensor, batch: Batch, score_range: tuple[float, float], temperature: float
    ) -> Self:
        """Divide the vectors `[sequences, hidden]` of a batch by the roles of their texts.

        A sequence is a text. The first text of an example is the anchor, the second its positive,
        others are negatives. For each sequence, `batch.targets` has the index of its example
        (`example`), its index among that example's texts (`row_index`), and a number that equal
        texts share (`text`). For scored examples it also has their `cosines`.
        """
        anchors, positives = rows_at(batch, 0), rows_at(batch, 1)
        row_indices, texts = batch.targets["row_index"], batch.targets["text"]
        candidates = (row_indices > 0).nonzero()[:, 0]
        owners = batch.targets["example"][candidates]
        is_positive = row_indices[candidates] == 1
        # Each example has one positive: its index is written at the index of the example.
        positive_indices = torch.empty_like(positives)
        positive_indices[owners[is_positive]] = is_positive.nonzero()[:, 0]
        return cls(
            anchors=vectors[anchors],
            candidates=vectors[candidates],
            owners=owners,
            positive_indices=positive_indices,
            anchor_texts=texts[anchors],
            candidate_texts=texts[candidates],
            target_cosines=batch.targets.get("cosines"),
            score_range=score_range,
            temperature=temperature,
        )

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.anchors)

    @cached_property
    def positives(self) -> Tensor:
        """The vector of each example's positive, fp32 `[examples, hidden]`."""
        return self.candidates[self.positive_indices]

    @property
    def scores(self) -> Tensor:
        """The examples' scores as the file has them, fp32 `[examples]`.

        Raises:
            ValueError: the examples have no scores.
        """
        if self.target_cosines is None:
            raise ValueError("the examples have no scores")
        low, high = self.score_range
        return low + (high - low) * self.target_cosines

    @cached_property
    def cosines(self) -> Tensor:
        """The cosine of each anchor with its positive, fp32 `[examples]`."""
        return F.cosine_similarity(self.anchors, self.positives)

    @cached_property
    def cosines_with_candidates(self) -> Tensor:
        """The cosine of each anchor with each candidate, fp32 `[examples, candidates]`.

        It is -inf for a candidate that is neither the anchor's positive nor a negative: a text that
        equals the anchor, or the positive of an equal anchor.
        """
        cosines = F.normalize(self.anchors, dim=-1) @ F.normalize(self.candidates, dim=-1).T
        return cosines.masked_fill(self._is_excluded, -torch.inf)

    @cached_property
    def _is_excluded(self) -> Tensor:
        """Whether a candidate is neither positive nor negative, bool `[examples, candidates]`."""
        texts_of_positives = self.candidate_texts[self.positive_indices]
        is_same_text = self.candidate_texts == self.anchor_texts[:, None]
        # [examples, examples] times [examples, candidates]: the number of examples that have this
        # anchor's text and this candidate's text as their positive.
        has_same_anchor = (self.anchor_texts == self.anchor_texts[:, None]).float()
        is_text_of_positive = (self.candidate_texts == texts_of_positives[:, None]).float()
        is_excluded = is_same_text | (has_same_anchor @ is_text_of_positive > 0)
        examples = torch.arange(len(self), device=is_excluded.device)
        is_excluded[examples, self.positive_indices] = False
        return is_excluded

    @property
    def negatives(self) -> Tensor:
        """The vectors of the negatives that the file names, fp32 `[negatives, hidden]`."""
        return self.candidates[self._is_negative]

    @property
    def negative_owners(self) -> Tensor:
        """The index of each negative's example, int64 `[negatives]`."""
        return self.owners[self._is_negative]

    @cached_property
    def _is_negative(self) -> Tensor:
        """Whether a candidate is a negative of its example, bool `[candidates]`."""
        is_negative = torch.ones_like(self.owners, dtype=torch.bool)
        is_negative[self.positive_indices] = False
        return is_negative

    def first_dimensions(self, size: int) -> Self:
        """Return a copy with the first `size` numbers of each vector, for a Matryoshka loss."""
        return replace(self, anchors=self.anchors[:, :size], candidates=self.candidates[:, :size])


def rows_at(batch: Batch, index: int) -> Tensor:
    """Return the index of the sequence that is text `index`, from 0, of each example.

    The result is int64 `[examples]`.
    """
    rows = (batch.targets["row_index"] == index).nonzero()[:, 0]
    return rows[batch.targets["example"][rows].argsort()]
