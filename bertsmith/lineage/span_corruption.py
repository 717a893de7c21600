"""Span corruption: T5 reads a text with gaps, and writes the missing tokens.

Source: Raffel et al. 2020, section 3.1.4. In the source, a *sentinel* stands for each gap: a token
that marks this gap only. The target has each sentinel, followed by the tokens of its gap. `restore`
is the inverse.

>>> source, target = corrupt(np.arange(10, 22), 999, np.random.default_rng(1))
>>> source.tolist(), target.tolist()
([10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 999], [999, 20, 21])
>>> restore(source, target, 999).tolist() == list(range(10, 22))
True
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from bertsmith.data.corpus import Corpus
from bertsmith.lineage.corpus_objective import CorpusObjective, row_generator
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.lineage.t5 import T5
from bertsmith.lineage.text_windows import TextWindow
from bertsmith.lineage.translation import target_loss
from bertsmith.training.objective import LossTerm

NUM_SENTINELS = 100
"""Number of sentinels. A new model has them beyond its vocabulary; the first has the highest id."""
DENSITY = 0.15
"""Share of the tokens of a text that are cut out."""
MEAN_SPAN = 3.0
"""Mean number of tokens in a gap."""


def corrupt(
    ids: np.ndarray, first_sentinel: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Cut gaps into a text of at least one token; return source and target, int64.

    A source begins with tokens of the text and ends with a gap, as in the released code. The
    lengths of the gaps, and of the spans between them, are drawn. The sentinels are
    `first_sentinel`, the id below it, and so on.
    """
    length = len(ids)
    # At least one token is missing, and one is kept unless it is the only one.
    num_missing = min(max(round(length * DENSITY), 1), max(length - 1, 1))
    num_kept = length - num_missing
    num_gaps = max(min(round(num_missing / MEAN_SPAN), num_kept, NUM_SENTINELS), 1)
    kept_lengths = _draw_lengths(num_kept, num_gaps, rng)
    gap_lengths = _draw_lengths(num_missing, num_gaps, rng)
    # Kept spans and gaps take turns.
    ends = np.cumsum(np.stack([kept_lengths, gap_lengths], axis=1).ravel())
    spans = np.split(ids, ends[:-1])
    source: list[np.ndarray] = []
    target: list[np.ndarray] = []
    for number, (kept, gap) in enumerate(zip(spans[::2], spans[1::2], strict=True)):
        sentinel = np.array([first_sentinel - number])
        source += [kept, sentinel]
        target += [sentinel, gap]
    return np.concatenate(source).astype(np.int64), np.concatenate(target).astype(np.int64)


def restore(source: np.ndarray, target: np.ndarray, first_sentinel: int) -> np.ndarray:
    """Put the tokens of a target into the gaps of its source; return the text, int64 [tokens]."""

    def are_sentinels(ids: np.ndarray) -> np.ndarray:
        return (ids <= first_sentinel) & (ids > first_sentinel - NUM_SENTINELS)

    starts = np.flatnonzero(are_sentinels(target))
    gaps = {int(span[0]): span[1:] for span in np.split(target, starts)[1:]}
    positions = np.flatnonzero(are_sentinels(source)).tolist()
    parts = [source[: positions[0]]]
    for position, end in pairwise([*positions, len(source)]):
        parts += [gaps[int(source[position])], source[position + 1 : end]]
    return np.concatenate(parts).astype(np.int64)


def _draw_lengths(total: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Divide `total` at random into `count` lengths of at least 1.

    A text of a single token has one span of length 0 before its gap: `total` 0, `count` 1.
    """
    if total < count:
        return np.full(count, total)
    cuts = np.sort(rng.choice(total - 1, count - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=total)


class SpanCorruption(CorpusObjective[T5, SourceTarget]):
    """The objective of a T5, with the arguments of `CorpusObjective`."""

    term: ClassVar[str] = "span"
    num_special_tokens: ClassVar[int] = 1

    def __init__(self, train: Corpus, held_out: Corpus, max_length: int, **sizes: Any) -> None:
        super().__init__(train, held_out, max_length, **sizes)
        tokenizer = train.tokenizer()
        self._start_id, self._end_id = tokenizer.pad_id, tokenizer.sep_id
        self._first_sentinel = train.vocab_size + NUM_SENTINELS - 1

    def collate(
        self, rows: Sequence[TextWindow], step_indices: Sequence[int], key: tuple[int, ...]
    ) -> SourceTarget:
        """Cut gaps into rows, and pack sources and targets, each with the end token."""
        sources, targets = [], []
        for row, number in zip(rows, step_indices, strict=True):
            rng = row_generator(key, number)
            source, target = corrupt(row.ids, self._first_sentinel, rng)
            sources.append([*source.tolist(), self._end_id])
            targets.append([*target.tolist(), self._end_id])
        return SourceTarget.of(sources, targets, self._start_id, step_indices)

    def counts(self, batch: SourceTarget) -> dict[str, int]:
        """Count the tokens of the targets."""
        return {self.term: len(batch.labels)}

    def losses(self, model: T5, batch: SourceTarget) -> dict[str, LossTerm]:
        """Compute the summed cross entropy, in nats, and the number of right predictions."""
        return {self.term: target_loss(model, batch)}
