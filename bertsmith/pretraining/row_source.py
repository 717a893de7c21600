"""Draw the rows of pre-training by their numbers, and pack them into batches.

A row is one training sequence. Rows are drawn in groups of `GROUP_ROWS`, each group with its own
random generator. So a process draws only the groups that contain its rows, and rows are the same
however a step is divided into batches and processes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertsmith.data.batches import Batch, pack
from bertsmith.data.corpus import Corpus
from bertsmith.data.encoded_examples import IGNORE_INDEX
from bertsmith.pretraining.masking import MaskingVocabulary, mask_tokens
from bertsmith.pretraining.pair_task import PairTask, TextLengths, load_pair_task
from bertsmith.pretraining.rows import RowReader
from bertsmith.pretraining.segments import (
    Anchors,
    Segments,
    passages_around,
    windows_around,
)
from bertsmith.pretraining.settings import MaskingRule, PretrainingSettings
from bertsmith.pretraining.token_counts import IdArray
from bertsmith.pretraining.word_bounds import WordBounds

HELD_OUT_STREAM = 1
"""Number in the seeds of the random generators for eval rows, after the seed of the run. Rows of
training have other numbers there (`objective.py`)."""
EVALUATION_TOKENS = 8192
"""Most tokens of an eval batch."""

GROUP_ROWS = 32
"""Rows that are drawn with one generator; an even number, since two rows are a contrastive pair."""


@dataclass(frozen=True)
class MaskedRows:
    """Masked rows: each field has an array `[tokens of the row]` or a number for every row.

    A label is IGNORE_INDEX where nothing is predicted.
    """

    ids: Sequence[IdArray]
    type_ids: Sequence[IdArray]
    """Segment of each token: 0, or 1 in the second segment."""
    masked_labels: Sequence[IdArray]
    """The original id of each token that masking chose."""
    pair_labels: Sequence[int]
    """Label of the pair task, such as whether segment B follows segment A."""
    draws: Sequence[NDArray[np.float32]]
    """Uniform random numbers in [0, 1), by which ELECTRA's generator samples replacements; without
    a generator the list is empty."""

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, chosen: slice) -> "MaskedRows":
        return MaskedRows(
            ids=self.ids[chosen],
            type_ids=self.type_ids[chosen],
            masked_labels=self.masked_labels[chosen],
            pair_labels=self.pair_labels[chosen],
            draws=self.draws[chosen],
        )

    @classmethod
    def joined(cls, parts: Sequence["MaskedRows"]) -> "MaskedRows":
        return cls(
            ids=[row for part in parts for row in part.ids],
            type_ids=[row for part in parts for row in part.type_ids],
            masked_labels=[row for part in parts for row in part.masked_labels],
            pair_labels=[label for part in parts for label in part.pair_labels],
            draws=[row for part in parts for row in part.draws],
        )

    def collate(self, pair_task: PairTask | None) -> Batch:
        """Pack all rows into a batch, with the targets that `StepRows.batch` describes."""
        batch = pack(self.ids, self.type_ids)
        labels = _packed(self.masked_labels, batch)
        positions = np.flatnonzero(labels != IGNORE_INDEX)
        pair_labels = np.asarray(self.pair_labels, dtype=np.int64)[list(batch.order)]
        targets = {
            "masked_positions": torch.from_numpy(positions),
            "masked_labels": torch.from_numpy(labels[positions]),
        }
        if pair_task is not None:
            targets |= pair_task.targets(pair_labels, batch)
        if self.draws:
            targets["draws"] = torch.from_numpy(_packed(self.draws, batch)[positions])
        return replace(batch, targets=targets)


def _packed(rows: Sequence[NDArray[Any]], batch: Batch) -> NDArray[Any]:
    """Join the rows in the order in which the batch has them."""
    return np.concatenate([rows[number] for number in batch.order])


class RowSource:
    """The rows of a split, each of them by its number: token ids, segments, labels and masks.

    Args:
        corpus: the split to read.
        settings: lengths, pairs and masking.
        seed: determines the order of the anchors. An anchor is the text position around which a
            row, or a pair of rows, is built.

    Raises:
        ConfigError: the named word list or segmenter cannot be used.
    """

    def __init__(self, corpus: Corpus, settings: PretrainingSettings, seed: int) -> None:
        tokenizer = corpus.tokenizer()
        self.corpus = corpus
        self.settings = settings
        self.pair_task = load_pair_task(settings.pair_task)
        self._rows_per_anchor = self.pair_task.rows_per_anchor if self.pair_task else 1
        self.anchors = Anchors(
            corpus.num_tokens,
            settings.max_length * self._rows_per_anchor,
            seed,
            moving=settings.duplicates == 0,  # static masks are for the same rows in every epoch
        )
        self._vocabulary = MaskingVocabulary(
            corpus.vocab_size, tokenizer.mask_id, tokenizer.special_ids
        )
        bounds = None
        if settings.masking != "piece":
            bounds = WordBounds(tokenizer, settings.load_segmenter())
        self._lengths = TextLengths(
            one_segment=settings.max_length - tokenizer.num_special_tokens(1),
            two_segments=settings.max_length - tokenizer.num_special_tokens(2),
        )
        self._reader = RowReader(corpus, tokenizer, self._vocabulary.is_special, bounds)

    @property
    def rows_per_epoch(self) -> int:
        """The number of rows that read the text about once."""
        return self.anchors.num_anchors * self._rows_per_anchor

    def draw(self, first_row: int, num_rows: int, rng: np.random.Generator) -> Segments:
        """Draw the token ranges of `num_rows` rows from row `first_row` on."""
        per_anchor = self._rows_per_anchor
        num_anchors = math.ceil(num_rows / per_anchor)
        anchors = self.anchors.positions(first_row // per_anchor, num_anchors)
        if self.pair_task is not None:
            short_seq_prob = self.settings.short_seq_prob
            return self.pair_task.draw(self.corpus, anchors, self._lengths, short_seq_prob, rng)
        if self.settings.rows == "across":
            return passages_around(self.corpus, anchors, self._lengths.one_segment)
        return windows_around(self.corpus, anchors, self._lengths.one_segment).segments()

    def mask(self, segments: Segments, rule: MaskingRule, rng: np.random.Generator) -> MaskedRows:
        """Read the text of rows and mask it by a rule."""
        text = self._reader.read(segments)
        masked = mask_tokens(text.ids, text.lengths, rule, self._vocabulary, rng, text.words)
        labels = np.full(len(masked.input_ids), IGNORE_INDEX)
        labels[masked.positions] = masked.labels
        row_ends = np.cumsum(text.lengths)[:-1]  # without the last, as `np.split` takes them
        draws: list[NDArray[np.float32]] = []
        if self.settings.has_generator:
            draws = np.split(rng.random(len(labels), dtype=np.float32), row_ends)
        return MaskedRows(
            ids=np.split(masked.input_ids, row_ends),
            type_ids=np.split(text.type_ids, row_ends),
            masked_labels=np.split(labels, row_ends),
            pair_labels=segments.labels.tolist(),
            draws=draws,
        )

    def divide(self, num_rows: int, rows_per_batch: int) -> list[range]:
        """Divide rows 0 to `num_rows` - 1 into ranges of `rows_per_batch`, one for each batch.

        Rows of one anchor, such as a contrastive pair, are in one batch, so both numbers are
        rounded up. If fewer rows are left at the end than the pair task needs, they belong to the
        batch before.
        """
        min_rows = self.pair_task.min_rows if self.pair_task else 1
        per_anchor = self._rows_per_anchor
        num_rows = per_anchor * math.ceil(num_rows / per_anchor)
        rows_per_batch = max(min_rows, per_anchor * math.ceil(rows_per_batch / per_anchor))
        last_start = max(0, num_rows - min_rows)
        bounds = [*range(0, last_start + 1, rows_per_batch), num_rows]
        return [range(first, end) for first, end in pairwise(bounds)]

    def evaluation_batches(self, num_rows: int, seed: int) -> list[Batch]:
        """Build eval batches of the first rows; the same arguments give the same batches."""
        rule, key = self.settings.masking_rule(), (seed, HELD_OUT_STREAM)
        rows = StepRows(self, first_row=0, num_rows=num_rows, rule=rule, key=key)
        rows_per_batch = max(1, EVALUATION_TOKENS // self.settings.max_length)
        return [rows.batch(chosen) for chosen in self.divide(num_rows, rows_per_batch)]


class StepRows:
    """The rows of one step (or of all evaluations): `num_rows` of a source from `first_row` on.

    The rows are numbered from 0 and drawn in groups of `GROUP_ROWS`. Group `g` is drawn when a
    batch first needs one of its rows, by a generator whose seed is `(*key, g)`. All rows are masked
    by `rule`.
    """

    def __init__(
        self,
        source: RowSource,
        first_row: int,
        num_rows: int,
        rule: MaskingRule,
        key: tuple[int, ...],
    ) -> None:
        self.source = source
        self.first_row = first_row
        self.num_rows = num_rows
        self.rule = rule
        self.key = key
        self.groups: dict[int, MaskedRows] = {}
        """The groups drawn so far, by number."""

    def batch(self, chosen: range) -> Batch:
        """Build the batch of the rows `chosen`, which are consecutive.

        Its `targets` are `masked_positions` in the packed row and `masked_labels`, int64
        `[masked]`, and the targets of the pair task (`PairTask.targets`). ELECTRA's objective adds
        `draws`, fp32 `[masked]` in [0, 1).
        """
        first_group = chosen.start // GROUP_ROWS
        end_group = math.ceil(chosen.stop / GROUP_ROWS)
        rows = MaskedRows.joined([self._group(group) for group in range(first_group, end_group)])
        start = chosen.start - first_group * GROUP_ROWS
        batch = rows[start : start + len(chosen)].collate(self.source.pair_task)
        return batch.with_step_indices(chosen)  # dropout is drawn by a row's number in the step

    def segments(self) -> list[Segments]:
        """Draw the token ranges of all rows, group by group."""
        num_groups = math.ceil(self.num_rows / GROUP_ROWS)
        return [self._draw(group)[0] for group in range(num_groups)]

    def _group(self, group: int) -> MaskedRows:
        if group not in self.groups:
            segments, rng = self._draw(group)
            self.groups[group] = self.source.mask(segments, self.rule, rng)
        return self.groups[group]

    def _draw(self, group: int) -> tuple[Segments, np.random.Generator]:
        """Draw the token ranges of a group; return them with the generator, which then masks."""
        first = group * GROUP_ROWS
        rng = np.random.default_rng([*self.key, group])
        num_rows = min(GROUP_ROWS, self.num_rows - first)
        return self.source.draw(self.first_row + first, num_rows, rng), rng
