"""Integrated gradients: how much each token adds to a logit (Sundararajan et al. 2017).

The word vectors of the text are compared with those of a baseline, the same text with [MASK] in
place of every word. Gradients are summed along the path between the two, at the points of Gauss and
Lobatto, since few of these are enough. The attributions of all tokens add up to the difference of
the two logits ("completeness", section 3). This also holds for each part of the path. So the parts
whose sum is furthest from their difference are halved, until the whole sum is right. The halves use
the points of the part again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.inspection.head_outputs import (
    apply_head,
    apply_text_head,
    pack_copies,
    queries_of,
)
from bertsmith.model.bert import BertModel

POINTS = (0.0, 0.5 - sqrt(3 / 28), 0.5, 0.5 + sqrt(3 / 28), 1.0)
POINT_WEIGHTS = (1 / 20, 49 / 180, 16 / 45, 49 / 180, 1 / 20)
"""The five points of Gauss and Lobatto on a part of the path, and the weight of each. Polynomials
up to degree 7 are integrated exactly (Abramowitz and Stegun 1964, table 25.6)."""
MIN_INTEGRATION_POINTS = len(POINTS)
POINTS_OF_SPLIT = 6
"""New points when a part is halved: the inner three of each half. Its ends are known already."""
MAX_INTEGRATION_POINTS = 125
"""Maximum number of points, unless the model is small: 5 of the whole path and 6 of each of 20
halvings."""
MAX_POINTS_OF_SMALL_MODEL = 4093
"""Maximum number of points for a small model. A ReLU makes gradients jump, so that each bend of the
path needs parts of its own. In a small Transformer, two logits differ by 0.016, while the words add
and take away 0.73 in all. The sum misses by 6 % at 509 points, and by 0.2 % at 1,487."""
TOLERANCE = 0.01
"""Largest error of the sum of the attributions, as a share of the difference of the logits."""
SMALL_DIFFERENCE = 1e-3
"""Smallest difference of logits by which an error is divided, so that it is never zero."""
TOKENS_PER_PASS = 640
"""Tokens whose gradients are computed at once: five points of 128 tokens. The backward pass of a
base model needs 0.8 MB for each token."""


@dataclass(frozen=True)
class Target:
    """The logit that is explained: a sum over `cells`, each a token's position and an output.

    For a head that reads one vector of a sequence the position is 0.
    """

    cells: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, position: int, output: int) -> "Target":
        """Return the target of a single logit."""
        return cls(((position, output),))


@dataclass(frozen=True, eq=False)
class Attribution:
    """Attributions of one target, fp64 [tokens], and the logits that they explain.

    `num_points` is at how many points gradients were computed; 0 if the values are exact without.
    """

    values: NDArray[np.float64]
    logit: float
    baseline_logit: float
    num_points: int

    @property
    def difference(self) -> float:
        """The logit of the text minus that of the baseline, to which the values add up."""
        return self.logit - self.baseline_logit

    @property
    def error(self) -> float:
        """The distance of the values' sum from the difference, as a share of the difference."""
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

    def embed_path_ends(self, baseline_ids: NDArray[np.int32]) -> tuple[Tensor, Tensor]:
        """Return the word vectors of baseline and row, both fp32 [tokens, embedding size]."""
        weight = self.model.embeddings.word.weight.detach()
        start, end = (
            weight[torch.from_numpy(ids.astype(np.int64)).to(weight.device)].float()
            for ids in (baseline_ids, self.ids)
        )
        return start, end

    def compute_target_logits(self, words: Tensor, targets: Sequence[Target]) -> Tensor:
        """Compute the logit of each target, fp32 [copies, targets].

        `words` are the word vectors of copies of the row, [copies, tokens, embedding size].
        """
        copies = len(words)
        batch, words = pack_copies(self.model, self.ids, self.type_ids, copies), words.flatten(0, 1)
        positions = sorted({position for target in targets for position, _ in target.cells})
        # A head that reads one vector of the text, such as the vector of [CLS], needs the last
        # layer only for the tokens `queries`; then `positions` is [0].
        queries = queries_of(self.model, self.head)
        # `words` takes the place of the word vectors of the ids.
        if queries != "all":
            token_vectors = self.model.encode(batch, words=words, queries=queries)
            logits = apply_text_head(self.model, self.head, token_vectors)
        else:
            hidden = self.model.encode(batch, words=words)
            logits = apply_head(self.model, self.head, hidden, batch, positions)
        return sum_cells(logits, positions, targets)


def sum_cells(logits: Tensor, positions: Sequence[int], targets: Sequence[Target]) -> Tensor:
    """Sum the logits of each target, fp32 [copies, targets].

    Args:
        logits: fp32 [copies, positions, outputs].
        positions: the tokens of the second axis of `logits`.
    """
    row_of = {position: row for row, position in enumerate(positions)}
    sums = []
    for target in targets:
        parts = [logits[:, row_of[position], output] for position, output in target.cells]
        sums.append(sum(parts[1:], parts[0]))
    return torch.stack(sums, dim=1)


def integrate_gradients(
    reader: HeadReader,
    baseline_ids: NDArray[np.int32],
    targets: Sequence[Target],
    max_points: int = MAX_INTEGRATION_POINTS,
) -> list[Attribution]:
    """Attribute each target's logit to the tokens, with as many points as completeness needs.

    Args:
        baseline_ids: token ids of the baseline, int32 [tokens].
        targets: one or more logits of the head.
        max_points: maximum number of points, even if the sum is not complete then.
    """
    ends = reader.embed_path_ends(baseline_ids)
    return integrate_until_complete(reader.compute_target_logits, ends, targets, max_points)


def integrate_in_parts(
    logits_of: LogitsOf, ends: tuple[Tensor, Tensor], targets: Sequence[Target], num_parts: int
) -> list[Attribution]:
    """Attribute each target's logit to the tokens by a number of equal parts of the path."""
    borders = np.linspace(0, 1, num_parts + 1).tolist()
    path = _Path(logits_of, ends, targets)
    return path.attribute(list(pairwise(borders)))


def integrate_until_complete(
    logits_of: LogitsOf,
    ends: tuple[Tensor, Tensor],
    targets: Sequence[Target],
    max_points: int = MAX_INTEGRATION_POINTS,
) -> list[Attribution]:
    """Attribute each target's logit to the tokens; see `integrate_gradients`.

    Args:
        ends: the word vectors of the baseline and of the text, fp32 [tokens, embedding size].
        max_points: the number of points at which the integration ends, complete or not.
    """
    path = _Path(logits_of, ends, targets)
    parts = [(0.0, 1.0)]
    # Half of the tolerance is left for rounding, which differs between computers.
    tolerance = TOLERANCE / 2
    while True:
        results = path.attribute(parts)
        max_splits = (max_points - path.num_points) // POINTS_OF_SPLIT
        largest_error = np.max([result.error for result in results])
        # No number of points completes a sum that is not finite.
        if not tolerance < largest_error < np.inf or max_splits < 1:
            return results
        differences = [max(abs(result.difference), SMALL_DIFFERENCE) for result in results]
        # The error of a part, for the target where it is largest.
        errors = {part: float(np.max(np.abs(path.missing(part)) / differences)) for part in parts}
        worst_first = sorted(parts, key=lambda part: -errors[part])[:max_splits]
        allowed = tolerance / len(parts)  # if no part had a larger error, the sum would be right
        to_halve = {part for part in worst_first if errors[part] > allowed}
        to_halve.add(worst_first[0])  # each round adds points, even if rounding hides the errors
        smaller_parts: list[Part] = []
        for part in parts:
            smaller_parts += _halve(part) if part in to_halve else [part]
        parts = smaller_parts


Part = tuple[float, float]
"""Ends of a part of the path, as fractions of the way from the baseline, 0, to the text, 1."""


def _points_of(part: Part) -> list[float]:
    start, end = part
    # The last point is exactly `end`, so that the next part finds its results.
    return [*(start + (end - start) * point for point in POINTS[:-1]), end]


def _halve(part: Part) -> list[Part]:
    start, end = part
    middle = _points_of(part)[len(POINTS) // 2]
    return [(start, middle), (middle, end)]


class _Path:
    """The straight path from a baseline to a text; each point is computed once."""

    def __init__(
        self, logits_of: LogitsOf, ends: tuple[Tensor, Tensor], targets: Sequence[Target]
    ) -> None:
        self._logits_of = logits_of
        self._ends = ends
        self._targets = targets
        self._logits: dict[float, NDArray[np.float64]] = {}  # [targets] by point
        self._slopes: dict[float, NDArray[np.float64]] = {}  # [targets, tokens] by point

    @property
    def num_points(self) -> int:
        return len(self._logits)

    def attribute(self, parts: Sequence[Part]) -> list[Attribution]:
        """Attribute each target's logit by parts that make up the path."""
        self._compute(point for part in parts for point in _points_of(part))
        values = np.sum([self._integrate(part) for part in parts], axis=0)
        baseline_logits, logits = self._logits[0.0], self._logits[1.0]
        return [
            Attribution(
                values[number],
                logit=float(logits[number]),
                baseline_logit=float(baseline_logits[number]),
                num_points=self.num_points,
            )
            for number in range(len(self._targets))
        ]

    def missing(self, part: Part) -> NDArray[np.float64]:
        """Return by how much a part's attributions miss its change of logits, [targets]."""
        start, end = part
        difference = self._logits[end] - self._logits[start]
        return np.asarray(difference - self._integrate(part).sum(-1))

    def _integrate(self, part: Part) -> NDArray[np.float64]:
        start, end = part
        slopes = np.stack([self._slopes[point] for point in _points_of(part)])
        return np.asarray((end - start) * np.tensordot(np.array(POINT_WEIGHTS), slopes, axes=1))

    def _compute(self, points: Iterable[float]) -> None:
        """Compute logits and slopes at the points where they have not been computed yet."""
        start, end = self._ends
        new = [point for point in dict.fromkeys(points) if point not in self._logits]
        size = max(1, TOKENS_PER_PASS // len(start))
        for first in range(0, len(new), size):
            chunk = new[first : first + size]
            fractions = torch.tensor(chunk, device=start.device)[:, None, None]
            words = torch.lerp(start, end, fractions).requires_grad_()
            logits = self._logits_of(words, self._targets)
            slopes = np.empty((len(chunk), len(self._targets), len(start)))
            for number, logit in enumerate(logits.sum(0)):
                is_last = number == len(self._targets) - 1
                (gradient,) = torch.autograd.grad(logit, words, retain_graph=not is_last)
                slopes[:, number] = (gradient * (end - start)).cpu().double().sum(-1).numpy()
            self._logits.update(zip(chunk, logits.detach().cpu().double().numpy(), strict=True))
            self._slopes.update(zip(chunk, slopes, strict=True))
