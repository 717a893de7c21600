"""Integrated gradients: how much each token adds to a logit (Sundararajan et al. 2017).

The word vectors of the text are compared with those of a baseline, the same text with every word
hidden by [MASK]. Between both, gradients are summed at the points of Gauss and Legendre, of which
few suffice. The attributions of all tokens add up to the difference of the two logits
("completeness", section 3); points are doubled until they do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.inspection.head_outputs import apply_head, pack_copies
from bertsmith.model.bert import BertModel

FEWEST_POINTS = 4
MOST_POINTS = 128
MOST_POINTS_OF_SMALL = 512
"""Points of a small model: a ReLU in a head, such as that of DistilBERT, makes gradients jump, so
that sums come near the difference slowly."""
TOLERANCE = 0.01
"""Largest difference between the sum of the attributions and that of the logits, as a share of the
latter."""
SMALL_DIFFERENCE = 1e-3
"""Differences of logits below this one count as this one."""
TOKENS_PER_PASS = 512
"""Tokens whose gradients are computed at once: a base model keeps 0.8 MB for each."""


@dataclass(frozen=True)
class Target:
    """The logit that is explained: a sum over `cells`, each a token's position and an output.

    For a head that reads one vector of a sequence the position is 0.
    """

    cells: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Attribution:
    """Attributions of one target, fp64 [tokens], and the logits that they explain."""

    values: NDArray[np.float64]
    logit: float
    baseline_logit: float
    num_points: int

    @property
    def difference(self) -> float:
        """The difference of the logits of text and baseline, which the values add up to."""
        return self.logit - self.baseline_logit

    @property
    def error(self) -> float:
        """The share of the difference that the sum of the values misses it by."""
        missed = abs(float(self.values.sum()) - self.difference)
        return missed / max(abs(self.difference), SMALL_DIFFERENCE)


LogitsOf = Callable[[Tensor, Sequence[Target]], Tensor]
"""Computes the logit of each target, fp32 [copies, targets], from the word vectors of copies of a
row, [copies, tokens, embedding size]."""


@dataclass(frozen=True, eq=False)
class HeadReader:
    """A head of a model, and the row of tokens that it reads, both int32 [tokens]."""

    model: BertModel
    head: str
    ids: NDArray[np.int32]
    type_ids: NDArray[np.int32]

    def words(self, baseline_ids: NDArray[np.int32]) -> tuple[Tensor, Tensor]:
        """Return the word vectors of baseline and row, fp32 [tokens, embedding size]."""
        weight = self.model.embeddings.word.weight.detach()
        start, end = (
            weight[torch.from_numpy(ids.astype(np.int64)).to(weight.device)].float()
            for ids in (baseline_ids, self.ids)
        )
        return start, end

    def logits(self, words: Tensor, targets: Sequence[Target]) -> Tensor:
        """Compute the logit of each target, fp32 [copies, targets].

        `words` are the word vectors of copies of the row, [copies, tokens, embedding size].
        """
        copies = len(words)
        batch = pack_copies(self.model, self.ids, self.type_ids, copies)
        hidden = self.model.encode(batch, words=words.flatten(0, 1))
        positions = sorted({position for each in targets for position, _ in each.cells})
        logits = apply_head(self.model, self.head, hidden, batch, positions)
        rows = {position: row for row, position in enumerate(positions)}
        sums = [sum(logits[:, rows[p], output] for p, output in each.cells) for each in targets]
        return torch.stack(sums, dim=1)  # type: ignore[arg-type]


def integrate_gradients(
    reader: HeadReader,
    baseline_ids: NDArray[np.int32],
    targets: Sequence[Target],
    most_points: int = MOST_POINTS,
) -> list[Attribution]:
    """Attribute each target's logit to the tokens, with as many points as completeness needs.

    Args:
        baseline_ids: token ids of the baseline, int32 [tokens].
        targets: one or more logits of the head.
        most_points: the number of points at which it ends, complete or not.
    """
    ends = reader.words(baseline_ids)
    return integrate_until_complete(reader.logits, ends, targets, most_points)


def integrate_at(
    reader: HeadReader,
    baseline_ids: NDArray[np.int32],
    targets: Sequence[Target],
    num_points: int,
) -> list[Attribution]:
    """Attribute each target's logit to the tokens by a fixed number of points."""
    return _integrate(reader.logits, reader.words(baseline_ids), targets, num_points)


def integrate_until_complete(
    logits_of: LogitsOf,
    ends: tuple[Tensor, Tensor],
    targets: Sequence[Target],
    most_points: int = MOST_POINTS,
) -> list[Attribution]:
    """Attribute each target's logit to the tokens; see `integrate_gradients`.

    Args:
        ends: the word vectors of the baseline and of the text, fp32 [tokens, embedding size].
        most_points: the number of points at which it ends, complete or not.
    """
    num_points = FEWEST_POINTS
    while True:
        results = _integrate(logits_of, ends, targets, num_points)
        # Half of the tolerance is left to rounding, by which other computers differ.
        if max(each.error for each in results) <= TOLERANCE / 2 or num_points >= most_points:
            return results
        num_points *= 2


def _integrate(
    logits_of: LogitsOf,
    ends: tuple[Tensor, Tensor],
    targets: Sequence[Target],
    num_points: int,
) -> list[Attribution]:
    start, end = ends
    points, shares = np.polynomial.legendre.leggauss(num_points)
    steps = torch.from_numpy((points + 1) / 2).float().to(start.device)
    sums = torch.zeros(len(targets), *start.shape, dtype=torch.float64)
    size = max(1, TOKENS_PER_PASS // len(start))
    for first in range(0, num_points, size):
        chunk = steps[first : first + size, None, None]
        words = (start + chunk * (end - start)).requires_grad_()
        logits = logits_of(words, targets).sum(0)
        shares_here = torch.from_numpy(shares[first : first + size] / 2)[:, None, None]
        for number, logit in enumerate(logits):
            is_last = number == len(targets) - 1
            (gradient,) = torch.autograd.grad(logit, words, retain_graph=not is_last)
            sums[number] += (gradient.double().cpu() * shares_here).sum(0)
    with torch.no_grad():
        at_ends = logits_of(torch.stack(ends), targets).double().cpu().tolist()
    values = (sums * (end - start).double().cpu()).sum(-1).numpy()
    return [
        Attribution(values[number], at_ends[1][number], at_ends[0][number], num_points)
        for number in range(len(targets))
    ]
