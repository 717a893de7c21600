"""Examples of a task as token ids and targets, for training and prediction.

An example has one row of tokens or several: the windows of a long text, the choices of a question,
or the texts to compare. Its rows always stay together, unless `by_row` separates them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.encoded_texts import EncodedTexts

Array = NDArray[Any]

IGNORE_INDEX = -100
"""Label of a token without a prediction, as in torch and transformers."""


@dataclass(frozen=True)
class EncodedExamples:
    """Token rows of examples, with their targets.

    Rows `starts[i]` to `starts[i + 1]` belong to example `i`; `starts` is int64 `[examples + 1]`.
    Targets are arrays by name, such as `labels`: `example_targets` `[examples, ...]`, `row_targets`
    `[rows, ...]`, and `token_targets` with an array `[tokens]` for each row. `alignment` has an
    entry for each row, which says where its tokens are in the text. The type of the entries depends
    on the task. Tasks that need none, to make targets or to decode outputs, leave it empty.
    """

    rows: EncodedTexts
    starts: NDArray[np.int64]
    example_targets: Mapping[str, Array] = field(default_factory=dict)
    row_targets: Mapping[str, Array] = field(default_factory=dict)
    token_targets: Mapping[str, Sequence[Array]] = field(default_factory=dict)
    alignment: Sequence[Any] = ()
    num_parts: NDArray[np.int64] | None = None
    """Number of parts of each example, such as the choices of a question, int64 `[examples]`; all
    parts of an example have equally many rows (windows). None means one part for each example."""

    @classmethod
    def of_texts(cls, texts: EncodedTexts) -> "EncodedExamples":
        """Build examples of one row each."""
        return cls(texts, np.arange(len(texts) + 1, dtype=np.int64))

    @classmethod
    def concat(cls, groups: Sequence["EncodedExamples"]) -> "EncodedExamples":
        """Join groups of examples without targets, in order.

        Either all groups have an `alignment`, or none; either all have `num_parts`, or none.
        """
        if len(groups) == 1:
            return groups[0]
        counts = np.concatenate([np.diff(group.starts) for group in groups])
        has_parts = groups[0].num_parts is not None
        return cls(
            EncodedTexts.concat([group.rows for group in groups]),
            np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
            alignment=[entry for group in groups for entry in group.alignment],
            num_parts=np.concatenate([group.num_parts for group in groups]) if has_parts else None,
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def rows_of(self, example: int) -> range:
        """Return the indices of an example's rows."""
        return range(int(self.starts[example]), int(self.starts[example + 1]))

    @cached_property
    def lengths(self) -> list[int]:
        """Number of tokens of each example, over all its rows."""
        return self._sums(self.rows.lengths)

    @cached_property
    def num_cut(self) -> list[int]:
        """Number of tokens that each example lost, by cutting or `limit_tokens`."""
        return self._sums(self.rows.num_cut)

    def _sums(self, values: Sequence[int]) -> list[int]:
        """Sum a value of each row over the rows of each example."""
        ends = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
        return np.diff(ends[self.starts]).tolist()

    @property
    def num_windows(self) -> list[int]:
        """Number of windows of each example: the rows in each of its parts."""
        return (np.diff(self.starts) // self._part_counts).tolist()

    @property
    def _part_counts(self) -> NDArray[np.int64]:
        return np.ones(len(self), dtype=np.int64) if self.num_parts is None else self.num_parts

    @property
    def num_truncated(self) -> int:
        """Number of examples that lost tokens."""
        return sum(cut > 0 for cut in self.num_cut)

    @property
    def num_windowed(self) -> int:
        """Number of examples with more than one row in a part."""
        return sum(count > 1 for count in self.num_windows)

    def limit_tokens(self, max_tokens: int) -> "EncodedExamples":
        """Remove rows of each example that has more than `max_tokens` tokens in all its rows.

        The kept rows are evenly spread over the text. All tokens of the removed rows count as cut,
        although other rows may hold some of them. A part keeps at least one row, even if its
        example is then still above `max_tokens`.
        """
        if max(self.lengths, default=0) <= max_tokens:
            return self
        chosen = [self._spread(example, max_tokens) for example in range(len(self))]
        counts = [len(rows) for rows in chosen]
        kept_rows = [row for rows in chosen for row in rows]
        num_cut = np.array(self.rows.num_cut, dtype=np.int64)[kept_rows]
        starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        # The tokens of an example's removed rows are counted at the first row that it keeps.
        num_cut[starts[:-1]] += [
            total - sum(self.rows.lengths[row] for row in rows)
            for total, rows in zip(self.lengths, chosen, strict=True)
        ]
        rows = EncodedTexts.of(
            (self.rows.ids[row], self.rows.type_ids[row], cut)
            for row, cut in zip(kept_rows, num_cut.tolist(), strict=True)
        )
        return replace(
            self,
            rows=rows,
            starts=starts,
            row_targets={name: values[kept_rows] for name, values in self.row_targets.items()},
            token_targets=self._token_targets_of(kept_rows),
            alignment=[self.alignment[row] for row in kept_rows] if self.alignment else (),
        )

    def _token_targets_of(self, rows: Sequence[int]) -> dict[str, list[Array]]:
        return {name: [arrays[row] for row in rows] for name, arrays in self.token_targets.items()}

    def _spread(self, example: int, max_tokens: int) -> list[int]:
        """Choose rows of an example that have at most `max_tokens` tokens together.

        The rows are evenly spread over the windows. All parts of an example keep the windows with
        the same indices.
        """
        rows = self.rows_of(example)
        if self.lengths[example] <= max_tokens:
            return list(rows)
        longest = max(self.rows.lengths[row] for row in rows)
        num_parts = int(self._part_counts[example])
        num_windows = len(rows) // num_parts
        # At least one window; as many as fit if each part had rows of the greatest length.
        num_kept = max(1, min(num_windows, max_tokens // (longest * num_parts)))
        kept = np.arange(num_kept) * num_windows // num_kept
        first_rows = rows.start + num_windows * np.arange(num_parts)  # of each part
        return (first_rows[:, None] + kept).flatten().tolist()

    def select(self, examples: Sequence[int]) -> "EncodedExamples":
        """Return the examples at these indices, in the order of the indices."""
        chosen = list(examples)
        rows = [row for example in chosen for row in self.rows_of(example)]
        counts = [len(self.rows_of(example)) for example in chosen]
        return replace(
            self,
            rows=EncodedTexts.of(
                (self.rows.ids[row], self.rows.type_ids[row], self.rows.num_cut[row])
                for row in rows
            ),
            starts=np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
            example_targets={name: values[chosen] for name, values in self.example_targets.items()},
            row_targets={name: values[rows] for name, values in self.row_targets.items()},
            token_targets=self._token_targets_of(rows),
            alignment=[self.alignment[row] for row in rows] if self.alignment else (),
            num_parts=None if self.num_parts is None else self.num_parts[chosen],
        )

    def by_row(self) -> "EncodedExamples":
        """Return a copy in which each row is an example, with the targets of its example."""
        counts = np.diff(self.starts)
        repeated_targets = {
            name: np.repeat(values, counts, axis=0) for name, values in self.example_targets.items()
        }
        return replace(
            self,
            starts=np.arange(len(self.rows) + 1, dtype=np.int64),
            example_targets={**repeated_targets, **self.row_targets},
            row_targets={},
            num_parts=None,
        )

    def remap_ids(self, new_ids: NDArray[np.int32]) -> "EncodedExamples":
        """Return a copy with `new_ids[i]` in place of token id `i`.

        `new_ids` are int32 `[vocabulary]`.
        """
        return replace(self, rows=self.rows.remap_ids(new_ids))

    def example_of_row(self) -> NDArray[np.int64]:
        """Return the example index of each row, int64 `[rows]`."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))

    def mean_over_rows(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Average `[rows, columns]` over each example's rows, to `[examples, columns]`, in fp32."""
        if len(self) == len(values):  # one row for each example
            return values
        sums = np.add.reduceat(values, self.starts[:-1], axis=0)
        return (sums / np.diff(self.starts)[:, None]).astype(np.float32)

    def digest(self) -> str:
        """Compute the SHA-256 of targets and of all token ids, by which a run knows its data.

        If examples have several rows, the numbers of their rows are hashed, too. Lengths and type
        ids of rows are not: nearly always, the special tokens in the token ids show where each text
        begins and ends. Names of targets depend on the task, which a run compares by itself.
        """
        digest = hashlib.sha256()
        for targets in (self.example_targets, self.row_targets):
            for array in targets.values():
                digest.update(np.ascontiguousarray(array).tobytes())
        for arrays in self.token_targets.values():
            for array in arrays:
                digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(self.rows.ids.flat.data)
        if len(self) != len(self.rows):
            digest.update(self.starts.tobytes())
        return digest.hexdigest()
