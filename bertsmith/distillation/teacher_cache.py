"""A teacher's outputs for all rows, computed once and kept in files.

A row is a text as tokens. Rows are stored in parts of 1,024, each in a file that is written
atomically, so that an interrupted computation can continue. Last-layer vectors are stored in fp16,
which leaves cosines the same to three digits.

    DIR/manifest.json              teacher, tokenizer, precision, texts, max_length, hidden
    DIR/outputs-00000.npy          [rows or tokens of the part, columns] fp32
    DIR/hidden-00000.npy           [tokens of the part, hidden] fp16
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.encoded_texts import EncodedTexts
from bertsmith.data.length_groups import group_by_length
from bertsmith.distillation.cache_folder import (
    MANIFEST,
    check_cache,
    load_array,
    open_cache,
    save_array,
)
from bertsmith.distillation.teacher import LiveTeacher, TeacherOutput
from bertsmith.errors import ConfigError, option
from bertsmith.model.vocabulary_subset import VocabularySubset
from bertsmith.system.terminal import Say
from bertsmith.tasks.inference import pack_texts

ROWS = "row"
"""Target with the number of each sequence among all rows, int64 `[sequences]`."""

PART_ROWS = 1024
MAX_OPEN = 256
"""Largest number of files that a `StoredRows` has open at a time: systems allow a process about a
thousand."""
BATCH_TOKENS = 2048
"""Tokens for which the teacher computes its outputs at once."""


class StoredRows:
    """An array for each row, in memory-mapped files of `PART_ROWS` rows each.

    The array of a row is `[entries, columns]`: an entry is a vector of a token, or the only vector
    of the row.

    Args:
        directory: the folder of the files.
        name: the beginning of the files' names.
        lengths: entries of each row in the files, int64 `[rows]`.
    """

    def __init__(self, directory: Path, name: str, lengths: NDArray[np.int64]) -> None:
        self.directory = directory
        self.name = name
        self.lengths = lengths
        self._parts: dict[int, NDArray[Any]] = {}
        """The open files, by the number of their part."""
        self._checked: set[int] = set()
        """Parts whose checksums were right."""
        self._starts = np.cumsum(lengths) - lengths

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; files are opened and checked again in each process."""
        return {**vars(self), "_parts": {}, "_checked": set()}

    @property
    def num_parts(self) -> int:
        return math.ceil(len(self.lengths) / PART_ROWS)

    def path(self, part: int) -> Path:
        return self.directory / f"{self.name}-{part:05d}.npy"

    def rows_of(self, part: int) -> range:
        return range(part * PART_ROWS, min((part + 1) * PART_ROWS, len(self.lengths)))

    def take(self, rows: Sequence[int]) -> Tensor:
        """Read the entries of `rows`, concatenated, `[entries, columns]` in fp32."""
        entries = [self._row(row) for row in rows]
        return torch.from_numpy(np.concatenate(entries).astype(np.float32))

    def write(self, part: int, rows: Sequence[NDArray[Any]]) -> None:
        """Store the rows of a part: for each row an array `[entries, columns]`.

        A row has as many entries as `lengths` says.
        """
        save_array(self.path(part), np.concatenate(rows))

    def _row(self, row: int) -> NDArray[Any]:
        part = row // PART_ROWS
        start = int(self._starts[row] - self._starts[part * PART_ROWS])
        return self._part(part)[start : start + int(self.lengths[row])]

    def _part(self, part: int) -> NDArray[Any]:
        """Return the array of a part, whose file is opened and checked at first."""
        if part not in self._parts:
            if len(self._parts) == MAX_OPEN:
                self._parts.clear()
            self._parts[part] = load_array(self.path(part), is_checked=part in self._checked)
            self._checked.add(part)
        return self._parts[part]


class StoredTeacher:
    """Teacher whose outputs are read from files.

    It is pickled without their content. Where it is unpickled, perhaps on another machine, the
    files must be at the same paths.

    Args:
        facts: entries of the cache's manifest.
        outputs: the outputs of the task for each row.
        hidden: the last-layer vectors of each row; None if they are not needed.
    """

    def __init__(
        self, facts: Mapping[str, Any], outputs: StoredRows, hidden: StoredRows | None
    ) -> None:
        self._facts = facts
        self._outputs = outputs
        self._hidden = hidden

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._facts, self._outputs, self._hidden)

    def prepare(self, batch: Batch) -> Batch:
        """Add the stored outputs of the batch's rows to its targets."""
        rows = batch.targets[ROWS].tolist()
        from_teacher = {"teacher_outputs": self._outputs.take(rows)}
        if self._hidden is not None:
            from_teacher["teacher_hidden"] = self._hidden.take(rows)
        return replace(batch, targets={**batch.targets, **from_teacher})

    def outputs(self, batch: Batch) -> TeacherOutput:
        return TeacherOutput(batch.targets["teacher_outputs"], batch.targets.get("teacher_hidden"))

    def narrow_vocabulary(self, used: VocabularySubset) -> None:
        """Do nothing: stored outputs do not depend on token ids."""


def _reopen(
    facts: Mapping[str, Any], outputs: StoredRows, hidden: StoredRows | None
) -> StoredTeacher:
    """Build a `StoredTeacher` in another process, which may be on another machine.

    Raises:
        ConfigError: on this machine the files are missing, or other files are at their paths.
    """
    directory = outputs.directory
    stores = [outputs] if hidden is None else [outputs, hidden]
    paths = [store.path(part) for store in stores for part in range(store.num_parts)]
    for path in (directory / MANIFEST, *paths):
        if not path.exists():
            raise ConfigError(
                f"{path}: is not seen from here. Choose a {option('cache')} that all machines see "
                "under one path, or leave it out."
            )
    check_cache(directory, facts)
    return StoredTeacher(facts, outputs, hidden)


def stored_teacher(
    directory: Path,
    teacher: LiveTeacher,
    texts: EncodedTexts,
    facts: Mapping[str, Any],
    say: Say = lambda line: None,
) -> StoredTeacher:
    """Open a cache of a teacher's outputs for `texts`; compute those that are missing first.

    Args:
        facts: entries that identify the outputs: "teacher", "tokenizer", "precision", "max_length".
        say: displays a line about the progress.

    Raises:
        ConfigError: the folder is no cache, or a cache of other outputs.
        CheckpointError: a file of the cache is damaged.
    """
    cache_facts = {**facts, "texts": hash_texts(texts), "hidden": teacher.hidden}
    open_cache(directory, cache_facts)
    tokens = np.array(texts.lengths, dtype=np.int64)
    # A task such as tagging has an output for each token, a classifier one for each text.
    lengths = tokens if teacher.task.reads_tokens else np.ones_like(tokens)
    outputs = StoredRows(directory, "outputs", lengths)
    hidden = StoredRows(directory, "hidden", tokens) if teacher.hidden else None
    compute_missing(teacher, texts, outputs, hidden, say)
    return StoredTeacher(cache_facts, outputs, hidden)


def compute_missing(
    teacher: LiveTeacher,
    texts: EncodedTexts,
    outputs: StoredRows,
    hidden: StoredRows | None,
    say: Say,
) -> None:
    """Compute and store the parts of a cache whose files are missing.

    Arguments are those of `stored_teacher` and `StoredTeacher`.
    """
    stores = [store for store in (outputs, hidden) if store is not None]
    for part in range(outputs.num_parts):
        if all(store.path(part).exists() for store in stores):
            continue
        rows = outputs.rows_of(part)
        say(
            f"computing the teacher's outputs for texts {rows.start + 1:,} to {rows.stop:,} of "
            f"{len(texts):,}"
        )
        for store, values in zip(stores, compute_outputs(teacher, texts, rows), strict=True):
            store.write(part, values)


def compute_outputs(
    teacher: LiveTeacher, texts: EncodedTexts, rows: range
) -> list[list[NDArray[Any]]]:
    """Compute the teacher's outputs for `rows`, and if requested its last-layer vectors.

    Returns:
        One or two lists, each with an array `[entries, columns]` for each row, in order.
    """
    num_lists = 2 if teacher.hidden else 1
    # Filled below in another order, as texts of similar length are computed together.
    arrays: list[list[NDArray[Any]]] = [[np.empty(0)] * len(rows) for _ in range(num_lists)]
    device = teacher.model.device
    for group in group_by_length([texts.lengths[row] for row in rows], BATCH_TOKENS):
        batch = pack_texts(texts, [rows[index] for index in group])
        from_teacher = teacher.outputs(batch.to(device))
        lengths = list(batch.lengths)
        sizes = lengths if teacher.task.reads_tokens else [1] * len(lengths)
        computed = [(from_teacher.outputs.float(), sizes)]
        if from_teacher.hidden is not None:
            computed.append((from_teacher.hidden.half(), lengths))
        for row_arrays, (values, sizes_of_rows) in zip(arrays, computed, strict=True):
            values_of_rows = torch.split(values.cpu(), sizes_of_rows)
            # The batch has the longest texts first; `order` says which text of the group each is.
            for index, row_values in zip(batch.order, values_of_rows, strict=True):
                row_arrays[group[index]] = row_values.numpy()
    return arrays


def hash_texts(texts: EncodedTexts) -> str:
    """Compute the SHA-256 of the rows' token ids and segments."""
    digest = hashlib.sha256()
    for row, types in zip(texts.ids, texts.type_ids, strict=True):
        digest.update(len(row).to_bytes(4, "little"))
        digest.update(row.astype("<i4").tobytes())
        digest.update(types.astype("<i4").tobytes())
    return digest.hexdigest()
